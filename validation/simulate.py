"""Many traffics through the packet simulator: cut apart, run side by side, put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

from .grouping import Buffers, components, coupled, is_calm
from .network import Hop, undirected
from .piece import Document, Piece, PieceResult, combine, cut_piece, take_apart
from .traffic import Traffic

BATCH_WORK = 6e9
"""Bytes x hops of one child process: about half a second of simulation, as long as its start."""


Samples = tuple[list[int], list[int]]
"""Of a port at the end of each interval: bytes sent so far, and bytes queued."""


class Runner(Protocol):
    """Runs one scenario document to its result document, in a process of its own."""

    def __call__(
        self, scenario: Document, *, timeout_s: float, on_progress: Callable[[float], None] | None = None
    ) -> Document: ...


@dataclass(frozen=True, slots=True)
class FlowResult:
    """What became of one flow; ``fct_ns`` is None where it did not end."""

    fct_ns: float | None
    retransmits: int
    cnps: int


@dataclass(frozen=True, slots=True)
class PortResult:
    """One egress port, ``pauses_received`` from its peer."""

    pauses_received: int
    paused_ns: float
    ecn_marks: int
    max_queue_bytes: int


@dataclass(frozen=True)
class Outcome:
    """What came out for one traffic.

    Attributes:
        flows: in its order; None for a flow that no live way carries.
        ports: by (node, peer) of its network, those with traffic.
        drops: packets lost.
        parts: simulations it was cut into, at the end.
        rerun: parts that had to be simulated again together.
        samples: of ports, where asked for.
    """

    flows: tuple[FlowResult | None, ...]
    ports: Mapping[Hop, PortResult]
    drops: int
    finished: bool
    parts: int
    rerun: int
    samples: Mapping[Hop, Samples]


@dataclass
class Meter:
    """What the simulations cost, summed; ``progress`` is called with (done, total) work, from any thread."""

    progress: Callable[[float, float], None] | None = None
    events: int = 0
    cpu_s: float = 0.0
    processes: int = 0
    reused: int = 0
    skips: int = 0
    skipped_ns: float = 0.0
    work_done: float = 0.0
    work_total: float = 0.0
    running: dict[int, float] = field(default_factory=dict)

    def partly(self, batch: int, work: float) -> None:
        """So much of a running batch is done."""
        self.running[batch] = work
        self.tell()

    def tell(self) -> None:
        """Report how far it is."""
        if self.progress is not None:
            self.progress(self.work_done + sum(list(self.running.values())), self.work_total)

    def add(self, batch: int, result: Document, work: float) -> None:
        """Count one child's result."""
        self.running.pop(batch, None)
        totals = result["totals"]
        self.events += int(totals["events"])
        self.cpu_s += float(totals["cpu_s"])
        self.skips += int(totals.get("skips", 0))
        self.skipped_ns += float(totals.get("skipped_ns", 0))
        self.processes += 1
        self.work_done += work
        self.tell()


@dataclass
class Simulator:
    """Runs traffics; equal pieces are simulated once where no draw decided anything in them.

    Attributes:
        run: runs one scenario.
        params: of every scenario: profile, seed and overrides.
        buffers: the thresholds those params mean.
        workers: child processes at a time.
        timeout_s: of each child.
        apart: False simulates each traffic whole.
    """

    run: Runner
    params: Mapping[str, Any]
    buffers: Buffers
    workers: int = 1
    timeout_s: float = 600.0
    apart: bool = True
    meter: Meter = field(default_factory=Meter)
    _known: dict[str, PieceResult] = field(default_factory=dict)

    def outcomes(self, traffics: Sequence[Traffic]) -> list[Outcome]:
        """The outcome of each traffic, none of which meets another."""
        cuts = [self._cut(traffic) for traffic in traffics]
        done: list[dict[tuple[int, ...], PieceResult]] = [{} for _ in traffics]
        reruns = [0] * len(traffics)
        while True:
            todo = [
                (at, piece) for at, cut in enumerate(cuts) for piece in cut if piece.members not in done[at]
            ]
            if not todo:
                break
            for (at, piece), result in zip(todo, self._results([p for _, p in todo]), strict=True):
                done[at][piece.members] = result
            for at in {at for at, _ in todo}:
                cuts[at], joined = self._rejoin(traffics[at], cuts[at], done[at])
                reruns[at] += joined
        return [
            _outcome(traffic, [(piece, results[piece.members]) for piece in cut], rerun)
            for traffic, cut, results, rerun in zip(traffics, cuts, done, reruns, strict=True)
        ]

    def _cut(self, traffic: Traffic) -> list[Piece]:
        parts = components(traffic)
        if not self.apart and parts:
            parts = [sorted(index for members in parts for index in members)]
        return [cut_piece(traffic, members) for members in parts]

    def _rejoin(
        self, traffic: Traffic, cut: list[Piece], done: Mapping[tuple[int, ...], PieceResult]
    ) -> tuple[list[Piece], int]:
        """The cut with parts that felt each other put together, and how many parts those were."""
        parts = [(piece, done[piece.members]) for piece in cut]
        joined = coupled(traffic.network, parts, self.buffers)
        merged = {index for together in joined for index in together}
        kept = [piece for index, piece in enumerate(cut) if index not in merged]
        for together in joined:
            kept.append(cut_piece(traffic, sorted(i for index in together for i in cut[index].members)))
        return kept, len(merged)

    def _results(self, pieces: Sequence[Piece]) -> list[PieceResult]:
        """Results in the order given; of equal pieces one runs, and the others too if it was not calm."""
        first: dict[str, int] = {}
        for index, piece in enumerate(pieces):
            if piece.shape not in self._known:
                first.setdefault(piece.shape, index)
        results = dict(self._run_all({index: pieces[index] for index in first.values()}))
        for index, result in results.items():
            if is_calm(_rates(pieces[index]), result, self.buffers):
                self._known[pieces[index].shape] = result
        left = {}
        for index, piece in enumerate(pieces):
            if index in results:
                continue
            if piece.shape in self._known:
                results[index] = self._known[piece.shape]
                self.meter.reused += 1
            else:
                left[index] = piece
        results |= self._run_all(left)
        return [results[index] for index in range(len(pieces))]

    def _run_all(self, pieces: Mapping[int, Piece]) -> dict[int, PieceResult]:
        """Results by index. Which pieces share a child depends on the pieces only, so that results repeat."""
        batches = _batches(pieces)
        self.meter.work_total += _work(pieces.values())
        results: dict[int, PieceResult] = {}
        with ThreadPoolExecutor(max(1, self.workers)) as pool:
            running: dict[Future[Document], list[int]] = {
                pool.submit(self._run_batch, number, [pieces[i] for i in batch]): batch
                for number, batch in enumerate(batches)
            }
            waiting = set(running)
            try:
                while waiting:
                    ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in ended:
                        batch = running[future]
                        members = [pieces[i] for i in batch]
                        self.meter.add(batches.index(batch), future.result(), _work(members))
                        results |= zip(batch, take_apart(members, future.result()), strict=True)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        together = [batch for batch in batches if len(batch) > 1]
        for batch in together:  # losses of a batch cannot be told apart: run its pieces one by one
            if results[batch[0]].drops or not results[batch[0]].finished:
                for index in batch:
                    results |= self._run_all({index: pieces[index]})
        return results

    def _run_batch(self, number: int, pieces: Sequence[Piece]) -> Document:
        work = _work(pieces)
        return self.run(
            combine(pieces, self.params),
            timeout_s=self.timeout_s,
            on_progress=lambda part: self.meter.partly(number, part * work),
        )


def _work(pieces: Iterable[Piece]) -> int:
    return sum(piece.work for piece in pieces)


def _batches(pieces: Mapping[int, Piece]) -> list[list[int]]:
    """Indices in as many batches of about equal work as the work asks for, the longest first."""
    total = _work(pieces.values())
    count = min(len(pieces), 1 + int(total / BATCH_WORK))
    loads: list[tuple[int, list[int]]] = [(0, []) for _ in range(count)]
    for index in sorted(pieces, key=lambda i: (-pieces[i].work, i)):
        lightest = min(range(count), key=lambda b: loads[b][0])
        load, batch = loads[lightest]
        loads[lightest] = (load + pieces[index].work, [*batch, index])
    return [batch for _, batch in loads]


def _rates(piece: Piece) -> dict[Hop, float]:
    return {undirected((a, b)): gbps for a, b, gbps, _ in piece.links}


def _outcome(traffic: Traffic, parts: Iterable[tuple[Piece, PieceResult]], rerun: int) -> Outcome:
    flows: list[FlowResult | None] = [None] * len(traffic.flows)
    ports: dict[Hop, PortResult] = {}
    samples: dict[Hop, Samples] = {}
    drops, finished, count = 0, True, 0
    for piece, result in parts:
        count += 1
        drops += result.drops
        finished = finished and result.finished
        for index, row in zip(piece.members, result.flows, strict=True):
            flows[index] = FlowResult(row["fct_ns"], int(row["retransmits"]), int(row["cnps"]))
        for (node, peer), port in result.ports.items():
            ends = piece.nodes[node], piece.nodes[peer]
            if ends[0] is not None and ends[1] is not None:
                _add_port(ports, (ends[0], ends[1]), port)
                if (node, peer) in result.samples:
                    samples[ends[0], ends[1]] = result.samples[node, peer]
    return Outcome(tuple(flows), ports, drops, finished, count, rerun, samples)


def _add_port(ports: dict[Hop, PortResult], ends: Hop, row: Document) -> None:
    mine = PortResult(
        int(row["pauses_received"]),
        float(row["paused_ns"]),
        int(row["ecn_marks"]),
        int(row["max_queue_bytes"]),
    )
    other = ports.get(ends)
    if other is not None:  # two parts use the link in a way that does not meet
        mine = PortResult(
            mine.pauses_received + other.pauses_received,
            mine.paused_ns + other.paused_ns,
            mine.ecn_marks + other.ecn_marks,
            max(mine.max_queue_bytes, other.max_queue_bytes),
        )
    ports[ends] = mine
