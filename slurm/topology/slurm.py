"""Slurm's own: topology.conf (tree, block), ``scontrol show topology``, topology.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import refuse_topology
from ..hostlist import BadHostlist, expand
from .blocks import Block, block_topology
from .model import Topology
from .records import Record, read_records
from .tree import Switch, tree_topology


def read_conf(text: str, source: str = "topology.conf") -> Topology:
    """topology.conf of topology/tree or topology/block, or what ``scontrol show topology`` prints.

    Raises:
        InvalidTopology: with line and key.
    """
    records = read_records(text)
    switches = [_switch(record) for record in records if "switchname" in record.values]
    blocks = [_block(record) for record in records if "blockname" in record.values]
    for record in records:
        known = {"switchname", "blockname", "blocksizes", "aggregatedblock"} & record.values.keys()
        if not known:
            first = next(iter(record.values))
            raise refuse_topology(
                record.at(first), "is neither a switch (SwitchName=) nor a block (BlockName=)", first
            )
    if switches and blocks:
        raise refuse_topology(source, "names both switches and blocks")
    if switches:
        return tree_topology(source, switches)
    return block_topology(source, blocks, _sizes(records))


def _switch(record: Record) -> Switch:
    name = record.values["switchname"]
    if not name:
        raise refuse_topology(record.at("switchname"), "is empty", name)
    return Switch(f"line {record.line}", name, record.hosts("nodes"), record.hosts("switches"))


def _block(record: Record) -> Block:
    return Block(f"line {record.line}", record.values["blockname"], record.hosts("nodes"))


def _sizes(records: list[Record]) -> list[int]:
    """``BlockSizes``, or, from scontrol's output, the sizes its blocks say."""
    for record in records:
        if "blocksizes" in record.values:
            return [_number(word, record, "blocksizes") for word in record.values["blocksizes"].split(",")]
    said = {_number(r.values["blocksize"], r, "blocksize") for r in records if "blocksize" in r.values}
    return sorted(said)


def _number(word: str, record: Record, key: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) < 10) or not int(word):
        raise refuse_topology(record.at(key), "is no number of nodes", word)
    return int(word)


def read_yaml(document: Any, source: str = "topology.yaml", name: str | None = None) -> Topology:
    """topology.yaml, a list of topologies (Slurm 25.05 and newer), read into plain data already.

    Args:
        name: which; by default the one with ``cluster_default: true``, or the only one.

    Raises:
        InvalidTopology: with the path of the member.
    """
    if not isinstance(document, list) or not document:
        raise refuse_topology(source, "must be a list of topologies", document)
    at, chosen = _choose(document, source, name)
    if "tree" in chosen:
        return tree_topology(source, _yaml_switches(chosen["tree"], f"{at}/tree"))
    if "block" in chosen:
        blocks, sizes = _yaml_blocks(chosen["block"], f"{at}/block")
        return block_topology(source, blocks, sizes)
    raise refuse_topology(
        at, "is neither a tree nor a block; a flat topology has no racks", sorted(map(str, chosen))
    )


def _choose(document: list[Any], source: str, name: str | None) -> tuple[str, Mapping[str, Any]]:
    for at, entry in enumerate(document):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("topology"), str):
            raise refuse_topology(f"/{at}/topology", "each topology must name itself", entry)
    if name is not None:
        found = [at for at, entry in enumerate(document) if entry["topology"] == name]
    else:
        found = [at for at, entry in enumerate(document) if entry.get("cluster_default") is True]
        found = found or ([0] if len(document) == 1 else [])
    if not found:
        names = ", ".join(entry["topology"] for entry in document)
        raise refuse_topology(source, f"no topology chosen; there are {names}", name)
    return f"/{found[0]}", document[found[0]]


def _rows(tree: Any, member: str, at: str) -> list[Any]:
    rows = tree.get(member) if isinstance(tree, Mapping) else None
    if not isinstance(rows, list):
        raise refuse_topology(f"{at}/{member}", "must be a list", rows)
    return rows


def _yaml_switches(tree: Any, at: str) -> list[Switch]:
    switches = []
    for index, row in enumerate(_rows(tree, "switches", at)):
        here = f"{at}/switches/{index}"
        name = _name(row, "switch", here)
        switches.append(Switch(here, name, _hosts(row, "nodes", here), _hosts(row, "children", here)))
    return switches


def _yaml_blocks(block: Any, at: str) -> tuple[list[Block], list[int]]:
    sizes = block.get("block_sizes", []) if isinstance(block, Mapping) else []
    if not isinstance(sizes, list) or not all(type(size) is int and size > 0 for size in sizes):
        raise refuse_topology(f"{at}/block_sizes", "must be a list of numbers of nodes", sizes)
    blocks = []
    for index, row in enumerate(_rows(block, "blocks", at)):
        here = f"{at}/blocks/{index}"
        blocks.append(Block(here, _name(row, "block", here), _hosts(row, "nodes", here)))
    return blocks, sizes


def _name(row: Any, member: str, at: str) -> str:
    name = row.get(member) if isinstance(row, Mapping) else None
    if not isinstance(name, str) or not name:
        raise refuse_topology(f"{at}/{member}", "must be a name", name)
    return name


def _hosts(row: Mapping[str, Any], member: str, at: str) -> tuple[str, ...]:
    text = row.get(member) or ""
    if not isinstance(text, str):
        raise refuse_topology(f"{at}/{member}", "must be a hostlist", text)
    try:
        return expand(text)
    except BadHostlist as error:
        raise refuse_topology(f"{at}/{member}", str(error), text) from None
