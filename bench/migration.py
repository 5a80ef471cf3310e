"""Moving a worker: the transfer beside a raw socket, the pause beyond the wire, and what more ranks cost."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from monkeytree.agent.arena import Arena
from monkeytree.agent.transfer import receive, send
from monkeytree.agent.transports.stream import StreamTransport
from monkeytree.agent.transports.transport import TransportOptions
from monkeytree.cli.drilling.launcher import why_no_torch
from monkeytree.cli.drilling.stage import Drill, Stage

from . import migration_figures
from .table import heading, number, show

Document = dict[str, Any]
RANKS = (2, 4, 8, 16)
PAPER = 0.75
"""Seconds of pause per GB beyond the wire, of the paper's prototype: (10.09 - 1.07) s for 12 GB."""
PIECE = 1 << 20
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Rate:
    """A transfer: GB a second, and CPU seconds of both ends for each GB."""

    gbytes_s: float
    cpu_s_per_gb: float


def report(state_gb: float, repeats: int, figures: Path | None) -> None:
    """Print the section; draw the figures where ``figures`` names a folder."""
    heading("Moving a worker")
    transfers(state_gb, repeats)
    lacking = why_no_torch()
    if lacking is not None:
        print(f"the rest is left out: {lacking}")
        return
    with tempfile.TemporaryDirectory(prefix="mt-bench-") as made:
        stage = Stage.open(Path(made), lambda _: None)
        try:
            best = pauses(stage, state_gb, repeats)
            curve = by_ranks(stage, repeats)
        finally:
            stage.close()
    if figures is not None:
        try:
            migration_figures.timeline(best, figures / "migration-timeline.svg")
            migration_figures.by_ranks(curve, figures / "pause-by-ranks.svg")
        except ImportError:
            print("no pictures: pip install 'monkeytree[bench]' (matplotlib) draws them")
        else:
            print(f"drawn in {figures}")


def transfers(gigabytes: float, repeats: int) -> None:
    """Stream transport with hashed chunks, and a raw socket of the same kind, in turn, over two arenas."""
    nbytes = int(gigabytes * 1e9)
    source, target = (Arena.create([("state", nbytes)]) for _ in range(2))
    source.view("state")[:] = os.urandom(PIECE) * (nbytes // PIECE) + bytes(nbytes % PIECE)
    found: dict[str, list[Rate]] = {name: [] for name in WAYS}
    for _ in range(3 * repeats):
        for name, way in WAYS.items():
            found[name].append(_measure(source, target, way))
    rows = []
    for name, rates in found.items():
        raw = found[WAYS[name].beside or name]
        share = median(ours.gbytes_s / theirs.gbytes_s for ours, theirs in zip(rates, raw, strict=True))
        speeds = [one.gbytes_s for one in rates]
        rows.append([
            name, number(gigabytes), f"{median(speeds):.2f}", f"{max(speeds):.2f}",
            f"{median(one.cpu_s_per_gb for one in rates):.2f}", f"{share:.2f}",
        ])  # fmt: skip
    show(
        ["transfer of host memory", "GB", "GB/s, median", "GB/s, best", "CPU s/GB, both ends",
         "share of raw, median of pairs"],
        rows,
    )  # fmt: skip
    print("the stream transport hashes every chunk at both ends (aim: 0.8 of the raw socket)\n")
    for arena in (source, target):
        arena.close()


End = AbstractContextManager[Callable[[], object]]
"""An end that is connected; what it gives carries the arena over."""


@dataclass(frozen=True, slots=True)
class Way:
    """How to carry an arena over: what makes each end, given a socket to the other.

    ``beside`` names the raw socket that it is compared with; "" for those themselves.
    """

    sending: Callable[[socket.socket, Arena], End]
    receiving: Callable[[socket.socket, Arena], End]
    beside: str = ""


def _measure(source: Arena, target: Arena, way: Way) -> Rate:
    """The receiver is a process of its own, as a mover is.

    Before the clock starts, as before a pause, the ends are connected and memory is mapped on both sides. It
    stops when the receiver has all, and has checked it where it does.
    """
    here, there = socket.socketpair()
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        here.close()
        _touch(target)
        with way.receiving(there, target) as receive_all:
            os.write(tell, b"r")
            begun = _cpu_s()
            receive_all()
            os.write(tell, repr(_cpu_s() - begun).encode())
            os._exit(0)
    there.close()
    with way.sending(here, source) as send_all:
        os.read(told, 1)  # it is ready
        begun_s, begun = time.monotonic(), _cpu_s()
        send_all()
        theirs = float(os.read(told, 64))
        seconds, cpu_s = time.monotonic() - begun_s, _cpu_s() - begun + theirs
    os.waitpid(pid, 0)
    here.close()
    os.close(told)
    os.close(tell)
    gigabytes = source.nbytes / 1e9
    return Rate(gigabytes / seconds, cpu_s / gigabytes)


@contextmanager
def _raw_send(to: socket.socket, arena: Arena) -> Iterator[Callable[[], object]]:
    yield partial(to.sendall, arena.whole())


@contextmanager
def _raw_receive(come: socket.socket, arena: Arena) -> Iterator[Callable[[], object]]:
    def receive_all() -> None:
        view = arena.whole()
        at = 0
        while at < len(view):
            at += come.recv_into(view[at:])

    yield receive_all


@contextmanager
def _raw_tcp_send(control: socket.socket, arena: Arena) -> Iterator[Callable[[], object]]:
    with socket.create_connection(("127.0.0.1", int(control.recv(16))), TIMEOUT_S) as to:
        to.settimeout(None)
        yield partial(to.sendall, arena.whole())


@contextmanager
def _raw_tcp_receive(control: socket.socket, arena: Arena) -> Iterator[Callable[[], object]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        control.send(str(listener.getsockname()[1]).encode())
        with _raw_receive(listener.accept()[0], arena) as receive_all:
            yield receive_all


OPTIONS = TransportOptions(token="bench", timeout_s=TIMEOUT_S)


@contextmanager
def _stream_send(control: socket.socket, arena: Arena) -> Iterator[Callable[[], object]]:
    transport = StreamTransport(OPTIONS, receiving=False)
    transport.register(arena.whole())
    transport.connect(control.recv(1 << 16), TIMEOUT_S)
    yield partial(send, transport, arena.whole(), TIMEOUT_S)
    transport.close()


@contextmanager
def _stream_receive(
    control: socket.socket, arena: Arena, *, local: bool = True, shares: bool = False
) -> Iterator[Callable[[], object]]:
    transport = StreamTransport(OPTIONS, receiving=True)
    transport.register(arena.whole())
    if shares:
        transport.share(arena.fd)
    described = json.loads(transport.describe())
    control.send(json.dumps(described if local else {**described, "boot": ""}).encode())
    transport.connect(b"", TIMEOUT_S)
    yield partial(receive, transport, arena.whole(), TIMEOUT_S)
    transport.close()


WAYS: dict[str, Way] = {
    "raw AF_UNIX": Way(_raw_send, _raw_receive),
    "stream, arena handed over": Way(_stream_send, partial(_stream_receive, shares=True), "raw AF_UNIX"),
    "stream AF_UNIX": Way(_stream_send, _stream_receive, "raw AF_UNIX"),
    "raw TCP": Way(_raw_tcp_send, _raw_tcp_receive),
    "stream TCP": Way(_stream_send, partial(_stream_receive, local=False), "raw TCP"),
}


def _touch(arena: Arena) -> None:
    """Map its memory in this process: forked page tables of shared memory start empty."""
    view = arena.whole()
    for offset in range(0, len(view), 4096):
        view[offset] = 0


def _cpu_s() -> float:
    return time.process_time()


def pauses(stage: Stage, state_gb: float, repeats: int) -> Document:
    """Warm and cold moves; the warm one with the shortest pause beyond the wire."""
    rows, warm = [], []
    small = 0.025
    for gigabytes in dict.fromkeys((small, state_gb)):
        for _ in range(repeats):
            # Two ranks of a large state: four would train for minutes.
            found = stage.play(Drill(gigabytes * 1e9, ranks=4 if gigabytes == small else 2))
            warm.append(found)
            rows.append(_row("warm", found))
    rows.append(_row("cold", stage.play(Drill(small * 1e9, warm=False))))
    show(
        [
            "move", "of ranks", "GB", "pause, s", "on the wire, s", "beyond it, s",
            "beyond it, s/GB", "re-forming the group, s", "identical",
        ],
        rows,
    )  # fmt: skip
    print(f"the paper's prototype: {PAPER} s/GB beyond the wire for 12 GB (aim here: 0.15 s/GB and 0.1 s)\n")
    large = [one for one in warm if one["state_gb"] > 0.5 * state_gb]
    return min(large, key=lambda one: one["beyond_wire_s"])


def _row(kind: str, found: Document) -> list[str]:
    return [
        kind, str(found["ranks"]), f"{found['state_gb']:.3f}", f"{found['pause_s']:.3f}",
        f"{found['wire_s']:.3f}", f"{found['beyond_wire_s']:.3f}", f"{found['beyond_wire_s_per_gb']:.2f}",
        f"{found['reformed_s']:.3f}", "yes" if found["identical"] else "NO",
    ]  # fmt: skip


def by_ranks(stage: Stage, repeats: int) -> list[Document]:
    """The pause of a small state against the number of ranks: all of it is waiting for one another."""
    found: list[Document] = []
    for ranks in RANKS:
        runs = [stage.play(Drill(1e6, ranks=ranks, iteration_s=0.1)) for _ in range(repeats)]
        found.append(
            {
                "ranks": ranks,
                "pause_s": [one["pause_s"] for one in runs],
                "reformed_s": [one["reformed_s"] for one in runs],
                "wire_s": [one["wire_s"] for one in runs],
                "identical": all(one["identical"] for one in runs),
            }
        )
    show(
        ["ranks", "pause, s", "of it re-forming the group, s", "on the wire, s", "identical"],
        [
            [
                str(one["ranks"]),
                *(f"{median(one[name]):.3f}" for name in ("pause_s", "reformed_s", "wire_s")),
                "yes" if one["identical"] else "NO",
            ]
            for one in found
        ],
    )  # fmt: skip
    return found
