"""Source ports for the flows of a plan: each is put on its uplink, or it is said why it cannot be.

Where the snapshot says how its switches hash (``fabric.hash``), a flow is steered by the UDP source port
of its queue pair, equivalently by its flow label (:mod:`monkeytree.ecmp`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from .ecmp.epoch import topology_epoch
from .ecmp.label import label_of_port
from .ecmp.search import Searcher, searcher
from .ecmp.stage import Packet
from .ecmp.ways import Ways
from .fabric_hash import FabricHash, LearnedTable
from .plan import Flow, Unsteered
from .snapshot import Snapshot

Key = tuple[str, str]
"""(job id, group id)."""

REASONS = ("no_uplink", "no_address", "polarised", "needs_queue_pair", "not_learned", "stale_table")


def steer(
    snapshot: Snapshot, nodes: Mapping[Key, Sequence[str]], flows: Sequence[Flow]
) -> tuple[tuple[Flow, ...], tuple[Unsteered, ...]]:
    """The flows with their source ports and labels, and those that cannot be steered.

    Flows between one pair of addresses get different ports where there are enough. Where the snapshot has
    no ``fabric.hash``, or routes adaptively, flows stay as they are.

    Args:
        nodes: node of each rank of each group, after the plan.
    """
    hash_ = snapshot.fabric.hash
    if hash_ is None or snapshot.fabric.routing == "adaptive":
        return tuple(flows), ()
    finder = _Finder(snapshot, hash_)
    steered: list[Flow] = []
    lost: defaultdict[str, list[int]] = defaultdict(list)
    for index, flow in enumerate(flows):
        places = nodes[flow.job, flow.group]
        found = finder.port(flow, places[flow.from_rank], places[flow.to_rank])
        if isinstance(found, str):
            lost[found].append(index)
            steered.append(flow)
        else:
            steered.append(replace(flow, udp_source_port=found, flow_label=label_of_port(found)))
    return tuple(steered), tuple(
        Unsteered(reason, tuple(lost[reason])) for reason in REASONS if reason in lost
    )


class _Finder:
    """Finds ports for one snapshot, and remembers which each pair of addresses uses already."""

    def __init__(self, snapshot: Snapshot, hash_: FabricHash) -> None:
        self._hash = hash_
        self._ways = Ways(snapshot)
        self._addresses = {node.id: node.addresses for rack in snapshot.racks for node in rack.nodes}
        self._taken: dict[tuple[str, str], set[int]] = {}
        self._targets: dict[tuple[str, str, int, int, int | None], tuple[Searcher | None, list[int]]] = {}
        self._learned = hash_.learned and _Learned(hash_.learned, topology_epoch(snapshot))

    def port(self, flow: Flow, source: str, target: str) -> int | str:
        """The port of ``flow`` from node to node, or the reason why there is none."""
        if flow.uplink is None or (flow.leaves_pod and flow.pod_uplink is None):
            return "no_uplink"
        sources, targets = self._addresses[source], self._addresses[target]
        if not sources or not targets:
            return "no_address"
        pair = sources[flow.rail], targets[flow.rail]
        candidates = self._candidates(flow, pair)
        return candidates if isinstance(candidates, str) else self._untaken(candidates, pair)

    def _candidates(self, flow: Flow, pair: tuple[str, str]) -> Iterator[int] | str:
        if self._learned:
            return self._learned.ports(pair, flow.pod_uplink if flow.leaves_pod else flow.uplink)
        assert flow.uplink is not None
        way = flow.from_rack, flow.to_rack, flow.rail, flow.uplink, flow.pod_uplink
        known = self._targets.get(way)
        if known is None:
            known = self._targets[way] = self._search(*way, ipv6=":" in pair[0])
        finds, wanted = known
        return "needs_queue_pair" if finds is None else finds.ports(Packet(*pair, 0), wanted)

    def _search(
        self, source: str, target: str, rail: int, uplink: int, core: int | None, *, ipv6: bool
    ) -> tuple[Searcher | None, list[int]]:
        """What finds ports for a way, and the positions wanted; None where a hash covers the queue pair."""
        choices = self._ways.choices(self._hash, source, target, rail, uplink)
        wanted = (uplink,) if core is None else (uplink, core)
        open_ = [(c, at) for c, at in zip(choices, wanted, strict=True) if len(c.uplinks) > 1]
        stages = tuple((choice.stage, len(choice.uplinks)) for choice, _ in open_)
        if any("dst_qp" in stage.fields for stage, _ in stages):
            return None, []
        return searcher(stages, ipv6), [choice.uplinks.index(at) for choice, at in open_]

    def _untaken(self, candidates: Iterator[int], pair: tuple[str, str]) -> int | str:
        taken = self._taken.setdefault(pair, set())
        first = None
        for port in candidates:
            first = port if first is None else first
            if port not in taken:
                taken.add(port)
                return port
        return "polarised" if first is None else first


class _Learned:
    """A learned table, by pair."""

    def __init__(self, table: LearnedTable, epoch: str) -> None:
        self._stale = table.epoch != epoch
        self._pairs = {(pair.src, pair.dst): pair.ports for pair in table.pairs}

    def ports(self, pair: tuple[str, str], uplink: int | None) -> Iterator[int] | str:
        if self._stale:
            return "stale_table"
        ports = self._pairs.get(pair, {}).get(-1 if uplink is None else uplink, ())
        return iter(ports) if ports else "not_learned"
