"""Packet level: a scenario of RoCEv2 flows through ns-3, and the verdict whether they are isolated.

The C++ models under ``native/`` are GPL-2.0-only, as ns-3 is; they run in a child process behind the
scenario and result documents (docs/validation.md). The rest is MIT.
"""
