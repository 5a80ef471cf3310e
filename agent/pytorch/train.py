"""One rank of the drill's job: ``python -m monkeytree.agent.pytorch.train --spec FILE --rank N | --standby``.

An ordinary data-parallel loop. What makes its ranks movable: the state lies in an arena, the group can be
formed again, and the loop asks at every boundary whether to pause.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from ..arena import Arena
from ..client import Worker, register_worker, standby_worker
from ..membership import Membership, WorkerState
from .groups import GlooGroup
from .job import JobSpec, Log, Rank
from .store import TorchStore, open_store

GROUP = "0"


class Member:
    """A rank with its arena and its group: what the agent's client calls back."""

    def __init__(self, spec: JobSpec, rank: int) -> None:
        self.spec = spec
        self.rank = Rank(spec, rank)
        self.store = TorchStore(open_store(spec.store_port))
        self.arena = Arena.create(list(self.rank.sizes().items()))
        self.group: GlooGroup | None = None
        self.training = False
        self._old: GlooGroup | None = None

    def state(self) -> WorkerState:
        """``state_fn``: the arena is where the training runs; only kilobytes are packed."""
        if self.training:  # not when registering
            self.spec.hold("PAUSED")
        return WorkerState(self.arena, self.rank.pack())

    def restore(self, extras: bytes) -> None:
        """``restore_fn``."""
        self.rank.unpack(extras)

    def rebind(self, membership: Membership) -> None:
        """``rebind_fn``: a new group beside the old one, which is let go of in a later iteration."""
        self.spec.hold("DECIDED")
        self._old = self.group
        order = membership.orders.get(GROUP, tuple(member.rank for member in membership.members))
        place = order.index(self.rank.rank)
        limit = membership.timeout_s
        undone = self._undone(membership)
        self.group = GlooGroup(self.store.torch, membership.name, place, len(order), limit, undone)
        self.group.timeout_s = self.spec.timeout_s

    def _undone(self, membership: Membership) -> Callable[[], bool]:
        """Whether the move was taken back while its group forms: somebody will never come then."""
        return lambda: self.store.get(membership.undo_key) == "undo"

    def form(self) -> None:
        """The group that the job starts with."""
        spec = self.spec
        self.group = GlooGroup(
            self.store.torch, "start", self.rank.rank, spec.world_size, max(60.0, spec.timeout_s)
        )

    def joined(self, given_up: Callable[[], bool]) -> GlooGroup:
        """The present group, whose waits look at ``given_up``."""
        assert self.group is not None, "it is formed before the loop begins"
        self.group.interrupt = given_up
        return self.group

    def let_go(self) -> None:
        """Leave the last group: not in the pause, for its threads take their time."""
        self._old = None


def start(spec: JobSpec, rank: int, spec_file: str, socket: str | None) -> tuple[Member, Worker]:
    """A rank of the job at step 0, known to its node's agent."""
    member = Member(spec, rank)
    member.rank.adopt(member.arena, keep=True)
    member.form()
    command = [sys.executable, "-m", "monkeytree.agent.pytorch.train", "--spec", spec_file, "--standby"]
    worker = register_worker(
        spec.name,
        rank,
        member.state,
        member.rebind,
        restore_fn=member.restore,
        extras_fn=member.rank.pack,
        world_size=spec.world_size,
        store=member.store,
        group=GROUP,
        standby_command=command,
        standby_env={"OMP_NUM_THREADS": "1"},
        socket=socket,
    )
    return member, worker


def stand_by(spec: JobSpec) -> tuple[Member, Worker]:
    """Wait for a rank's state, and be that rank. The place in the job comes with the state."""
    member = Member(spec, 0)
    member.rank.adopt(member.arena, keep=False)
    warm_up(member.rank)
    worker = standby_worker(
        member.state,
        member.rebind,
        restore_fn=member.restore,
        extras_fn=member.rank.pack,
        store=member.store,
    )
    return member, worker


def warm_up(rank: Rank) -> None:
    """Run an iteration without its update: kernels, allocator and page faults, before the state comes."""
    rank.forward_backward()
    rank.optimizer.zero_grad(set_to_none=True)


def train(member: Member, worker: Worker, log: Log) -> bool:
    """Train to the end; False when the rank moved elsewhere first."""
    rank, spec = member.rank, member.spec
    member.training = True

    def given_up() -> bool:
        return worker.undone

    begun = time.monotonic()
    while rank.step < spec.steps:
        if not worker.boundary(rank.step):
            log.event("left", step=rank.step)
            return False
        resumed = time.monotonic()
        try:
            if worker.in_probation:
                spec.hold("REFORMED")
            own = rank.forward_backward()
            mean, stop = rank.reduce(member.joined(given_up), own)
            worker.before_update()
        except Exception as error:  # noqa: BLE001  # redo raises it again unless the move was taken back
            worker.redo(error)
            log.event("redo", step=rank.step, error=str(error))
            continue
        rank.update()
        seconds = time.monotonic() - resumed
        # An iteration that was taken back is part of the pause.
        more: dict[str, object] = {"boundary_s": resumed - begun, "train_s": seconds}
        if spec.digests:
            more["digest"] = rank.digest()
        log.iteration(rank.step, mean, float(own), more)
        member.let_go()
        if stop:
            break
        time.sleep(max(0.0, spec.iteration_s - seconds))
        begun = time.monotonic()
    # A job that ends with its first iteration after a move: the others wait for this one to be settled.
    return not worker.in_probation or worker.boundary(rank.step)


def main(arguments: Sequence[str]) -> int:
    """Train; 0 when the job finished here or moved on."""
    parser = argparse.ArgumentParser(prog="python -m monkeytree.agent.pytorch.train", description=__doc__)
    parser.add_argument("--spec", required=True, metavar="FILE", help="the job, as JSON")
    parser.add_argument("--rank", type=int, help="which rank to start")
    parser.add_argument("--standby", action="store_true", help="take over the rank that the agent names")
    parser.add_argument("--agent", metavar="SOCKET", help="socket of the node's agent")
    asked = parser.parse_args(arguments)
    if asked.standby == (asked.rank is not None):
        parser.error("give one of --rank and --standby")
    spec = JobSpec.read(Path(asked.spec).read_text("utf-8"))
    return run(spec, None if asked.standby else asked.rank, asked.spec, asked.agent)


def run(spec: JobSpec, rank: int | None, spec_file: str, socket: str | None) -> int:
    """One rank from start to end; ``rank`` None stands by."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    member, worker = stand_by(spec) if rank is None else start(spec, rank, spec_file, socket)
    log = Log(spec.folder, member.rank.rank)
    if member.group is not None:
        log.event("formed", group=member.group.name, seconds=member.group.formed_s)
    if train(member, worker, log):
        log.final(member.rank.step, member.rank.digest())
        worker.close()
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # a group with an operation that hangs would wait for it here
