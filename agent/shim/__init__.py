"""A stand-in for libibverbs.so.1 that puts the flows of unmodified NCCL on their uplinks.

The C sources lie here; :mod:`.build` compiles them with the trampolines that :mod:`.assembly` writes for
every symbol of :mod:`.symbols`. ``python -m monkeytree.agent.shim --out DIR`` does it all
(docs/steering-nccl.md).
"""
