"""A job that holds servers: where it is, whom it sends to, and how far it has got."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from monkeytree.fluid import Flow

from .fabrics import Fabric, Path
from .mix import GPUS_PER_BLOCK, JobType
from .program import SEND, Program, Step, groups_of, ideal_iteration_us, pairs_of, program_of, wire_us


class Demand(NamedTuple):
    """A flow that recurs each iteration and takes an uplink; GPUs and leaves as in fabrics.py."""

    source: int
    target: int
    source_leaf: int
    target_leaf: int
    ring: bool


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a job sends over the fabric where it is now.

    Attributes:
        demands: distinct flows.
        sends: for each send of the program the indices of its demands.
    """

    demands: tuple[Demand, ...]
    sends: tuple[tuple[int, ...], ...]


def wire(
    kind: JobType, gpus: int, blocks: Sequence[int], orders: Sequence[Sequence[int]], fabric: Fabric
) -> Wiring:
    """The wiring of a job on ``blocks`` (by block rank) with these ring orders (by group)."""
    program = program_of(kind, gpus)
    if len({block // fabric.blocks_per_rack for block in blocks}) == 1:
        return Wiring((), ((),) * len(program.sends))
    demands: dict[Demand, int] = {}
    patterns: list[tuple[int, ...]] = []
    for key in program.pattern_keys:
        found = []
        for from_rank, from_gpu, to_rank, to_gpu in pairs_of(kind, gpus, key, orders):
            source = blocks[from_rank] * GPUS_PER_BLOCK + from_gpu
            target = blocks[to_rank] * GPUS_PER_BLOCK + to_gpu
            ends = fabric.ends(source, target)
            if ends is not None:
                demand = Demand(source, target, *ends, key[0] == "ring")
                found.append(demands.setdefault(demand, len(demands)))
        patterns.append(tuple(found))
    return Wiring(tuple(demands), tuple(patterns[send.pattern] for send in program.sends))


class Running:
    """A job between its start and its end, or the state of a worker under way (``kind`` None).

    Attributes:
        blocks: server of each block rank.
        orders: block ranks of each replica group in ring order.
        paths: of each demand, None until routed; ``dynamic`` routers choose when a flow starts.
        usage: the most flows it has at once on each link.
        hot: its links that can hold flows up: more flows may be on them at once than they carry.
        flows: for each send its flows over hot links.
        done: iterations done; of ``iterations``.
        alone: nobody else uses its links.
        at_line_rate: no link is hot by its own flows alone.
        steady: nothing around it has changed since the iteration began.
        lone_us: an iteration alone, where one has been run on the paths of now; else None.
        skips_from: start of the first iteration that is not followed event by event; None: all are.
        hold_us: how long the next iteration is put off, once.
        epoch: what timers must carry to be heeded.
    """

    def __init__(self, number: int, kind: JobType | None, gpus: int, iterations: int) -> None:
        self.number = number
        self.kind = kind
        self.gpus = gpus
        self.iterations = iterations
        self.done = 0
        self.blocks: list[int] = []
        self.orders: tuple[tuple[int, ...], ...] = ()
        self.wiring = Wiring((), ())
        self.paths: tuple[Path, ...] | None = None
        self.usage: dict[int, int] = {}
        self.hot: frozenset[int] = frozenset()
        self.flows: list[list[Flow] | None] | None = None
        self.lanes: Sequence[Sequence[Step]] = ()
        self.bits: list[int] = []
        self.wire_us: list[int] = []
        self.intensity = 0.0
        self.alone = True
        self.lone_us: int | None = None
        self.at_line_rate = False
        self.steady = False
        self.skips_from: int | None = None
        self.began = 0
        self.epoch = 0
        self.hold_us = 0
        self.stops = False  # at the end of this iteration
        # Of the iteration under way, by lane and by send.
        self.position: list[int] = []
        self.lanes_left = 0
        self.pending: list[int] = []
        self.sent_from: list[int] = []
        self.sender: list[int] = []
        self.waiter: list[int] = []

    def place(
        self,
        blocks: list[int],
        orders: tuple[tuple[int, ...], ...],
        fabric: Fabric,
        nic_gbps: float,
    ) -> None:
        """Put the job on ``blocks``; it is to be routed anew."""
        assert self.kind is not None
        program: Program = program_of(self.kind, self.gpus)
        self.blocks = blocks
        self.orders = orders
        self.wiring = wire(self.kind, self.gpus, blocks, orders, fabric)
        self.lanes = program.lanes
        self.bits = [8 * send.flow_bytes for send in program.sends]
        self.wire_us = [wire_us(send.flow_bytes, nic_gbps) for send in program.sends]
        self.intensity = ideal_iteration_us(self.kind, self.gpus, nic_gbps) / max(1, sum(self.wire_us))
        self.unroute()

    def unroute(self) -> None:
        """Forget the paths."""
        self.paths = None
        self.usage = {}
        self.hot = frozenset()
        self.flows = None
        self.lone_us = None
        self.at_line_rate = not self.wiring.demands
        self.steady = False

    def iterations_done(self, now: int) -> int:
        """Whole iterations done by ``now``."""
        if self.skips_from is None:
            return self.done
        assert self.lone_us is not None
        return self.done + (now - self.skips_from) // self.lone_us

    def usage_on(self, paths: Sequence[Path]) -> dict[int, int]:
        """The most flows it ever has at once on each link: a lane has one send at a time."""
        usage: dict[int, int] = {}
        for lane in self.lanes:
            most: dict[int, int] = {}
            for indices in {self.wiring.sends[send] for what, send in lane if what == SEND}:
                here: dict[int, int] = {}
                for index in indices:
                    for link in paths[index]:
                        here[link] = here.get(link, 0) + 1
                for link, count in here.items():
                    most[link] = max(most.get(link, 0), count)
            for link, count in most.items():
                usage[link] = usage.get(link, 0) + count
        return usage

    def flows_of(self, send: int) -> list[Flow]:
        """The flows of a send that others can slow down, grouped by the links where they can."""
        if self.flows is None:
            self.flows = [None] * len(self.wiring.sends)
        flows = self.flows[send]
        if flows is None:
            flows = self.flows[send] = self._grouped(send)
        return flows

    def _grouped(self, send: int) -> list[Flow]:
        indices = self.wiring.sends[send]
        if not indices:
            return []
        if self.paths is None:  # the router chooses as they start
            return [Flow((), 1, (self, send, (index,))) for index in indices]
        flows = [
            Flow(path, len(members), (self, send, members))
            for path, members in self.group_by_hot(indices).items()
            if path
        ]
        crossing = Counter(link for flow in flows for link in flow.path)
        for flow in flows:
            flow.lone = flow.weight == 1 and all(crossing[link] == 1 for link in flow.path)
        return flows

    def group_by_hot(self, indices: Sequence[int]) -> dict[Path, tuple[int, ...]]:
        """Demands by the hot links of their path; on the others nothing can hold them up."""
        assert self.paths is not None
        groups: dict[Path, list[int]] = {}
        for index in indices:
            path = tuple([link for link in self.paths[index] if link in self.hot])
            groups.setdefault(path, []).append(index)
        return {path: tuple(members) for path, members in groups.items()}


def fresh_orders(kind: JobType, blocks: int) -> tuple[tuple[int, ...], ...]:
    """Ring orders of a new job: by rank, as its servers are handed out from left to right."""
    return groups_of(kind, blocks)
