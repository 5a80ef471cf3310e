"""In-memory agents: what the controller's tests and dry runs call instead of nodes.

A :class:`MemoryCluster` holds workers by node; :meth:`MemoryCluster.agent` gives an
:class:`~monkeytree.adapters.agents.Agent`. Moves prepare at once; a pause runs when it was started at every
agent that hosts a rank, and then the workers are where the moves put them. What shall go wrong is said
beforehand (:meth:`MemoryCluster.refuse`, :attr:`MemoryCluster.verdicts`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from monkeytree.wire.agents import (
    FINAL_STATES,
    Command,
    MoveRequest,
    MoveStatus,
    PauseRequest,
    PauseStatus,
    RouteTable,
    WorkersAnswer,
    WorkerStatus,
)

from .agents import AgentRefused, AgentUnreachable

Key = tuple[str, str]  # node, id
Req = TypeVar("Req", MoveRequest, PauseRequest)
Stat = TypeVar("Stat", MoveStatus, PauseStatus)
_UNDECIDED = frozenset({"NEW", "PREPARING", "PREPARED"})


@dataclass
class MemoryCluster:
    """Nodes and the workers on them.

    Attributes:
        workers: by node.
        calls: every call as (node, name, id), in order.
        verdicts: by pause id, ``commit`` (default), ``abort`` or ``undo``: how the job will decide.
        down: nodes whose agent does not answer.
        holding: while True, started pauses stay ARMED until :meth:`release`.
    """

    workers: dict[str, list[WorkerStatus]] = field(default_factory=dict)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    verdicts: dict[str, str] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    holding: bool = False

    def __post_init__(self) -> None:
        self.moves: dict[Key, tuple[MoveRequest, MoveStatus]] = {}
        self.pauses: dict[Key, tuple[PauseRequest, PauseStatus]] = {}
        self.tables: dict[str, RouteTable] = {}
        self.fences: dict[Key, int] = {}
        self._refusals: dict[tuple[str, str], list[AgentRefused]] = {}
        self.changed = threading.Condition(threading.RLock())

    def agent(self, node: str) -> MemoryAgent:
        """The agent of ``node``."""
        return MemoryAgent(self, node)

    def refuse(
        self, node: str, call: str, reason: str, *, status: int = 409, retry_after_s: float | None = None
    ) -> None:
        """Let the next call of that name (``put_move``...) at ``node`` be refused, once."""
        refusal = AgentRefused(f"memory://{node}", status, reason, "as the test wants it", retry_after_s)
        self._refusals.setdefault((node, call), []).append(refusal)

    def release(self) -> None:
        """Let held pauses run."""
        with self.changed:
            self.holding = False
            for _, pause_id in list(self.pauses):
                self.run_pause(pause_id)

    def enter(self, node: str, call: str, its_id: str = "") -> None:
        """Note a call; refuse it where that was asked for."""
        self.calls.append((node, call, its_id))
        if node in self.down:
            raise AgentUnreachable(f"memory://{node}", "it is down")
        listed = self._refusals.get((node, call))
        if listed:
            raise listed.pop(0)

    def fence(self, node: str, job: str, epoch: int) -> None:
        """Refuse an epoch lower than one seen for the job."""
        seen = self.fences.get((node, job), 0)
        if epoch < seen:
            raise self.refusal(node, "stale_epoch", f"epoch {epoch} of job {job!r} is below {seen}")
        self.fences[node, job] = epoch

    def refusal(self, node: str, reason: str, detail: str, status: int = 409) -> AgentRefused:
        """A refusal as the agent of ``node`` words it."""
        return AgentRefused(f"memory://{node}", status, reason, detail)

    def run_pause(self, pause_id: str) -> None:
        """Carry the pause out if it was started everywhere and every move is ready."""
        mine = {node: pair for (node, its_id), pair in self.pauses.items() if its_id == pause_id}
        request = next(iter(mine.values()))[0]
        hosts = {seat.node for seat in request.members}
        started = all(node in mine and mine[node][1].state != "NEW" for node in hosts)
        if self.holding or not started or any(status.final for _, status in mine.values()):
            return
        verdict = self.verdicts.get(pause_id, "commit")
        if verdict == "commit" and not self._park_or_land(request):
            return
        for move in request.moves:
            if verdict == "commit":
                self._walk(move.source, move.target, request.job, move.group, move.rank)
            else:
                self._mark(move.source, request.job, move.group, move.rank, "training")
            for node, its_id in list(self.moves):
                made, status = self.moves[node, its_id]
                its = (made.job, made.group, made.rank) == (request.job, move.group, move.rank)
                if its and made.epoch == request.epoch and not status.final:
                    self._finish(self.moves, node, its_id, verdict)
        for node in mine:
            self._finish(self.pauses, node, pause_id, verdict)
        self.changed.notify_all()

    def _park_or_land(self, request: PauseRequest) -> bool:
        """Whether every staged move has been given its destination; those that have not are parked."""
        landed = True
        for move in request.moves:
            pair = self.moves.get((move.source, move.id))
            if move.staged and pair is not None and pair[1].state == "ARMED":
                status = replace(pair[1], state="PAUSED", parked=True, version=pair[1].version + 1)
                self.moves[move.source, move.id] = (pair[0], status)
                self._mark(move.source, request.job, move.group, move.rank, "parked")
            landed &= not move.staged or (pair is not None and pair[1].state == "VERIFIED")
        self.changed.notify_all()
        return landed

    def _mark(self, node: str, job: str, group: str, rank: int, state: str) -> None:
        who = (job, group, rank)
        self.workers[node] = [
            replace(worker, state=state) if (worker.job, worker.group, worker.rank) == who else worker
            for worker in self.workers.get(node, [])
        ]

    def _walk(self, source: str, target: str, job: str, group: str, rank: int) -> None:
        for worker in list(self.workers.get(source, [])):
            if (worker.job, worker.group, worker.rank) == (job, group, rank):
                self.workers[source].remove(worker)
                self.workers.setdefault(target, []).append(replace(worker, state="training"))

    def _finish(self, table: dict[Key, tuple[Any, Any]], node: str, its_id: str, verdict: str) -> None:
        if (node, its_id) not in table:
            return
        request, status = table[node, its_id]
        told: dict[str, Any] = {"state": "RELEASED" if verdict == "commit" else "ABORTED", "parked": False}
        if isinstance(status, PauseStatus):
            del told["parked"]
            told.update(decision=verdict, step=10, pause_s=0.1)
        if verdict != "commit":
            code = "undone" if verdict == "undo" else "job_aborted"
            told["error"] = {"code": code, "message": "as the test wants it"}
        table[node, its_id] = (request, replace(status, version=status.version + 1, **told))


class MemoryAgent:
    """The agent of one node of a :class:`MemoryCluster`."""

    def __init__(self, cluster: MemoryCluster, node: str) -> None:
        self._cluster = cluster
        self.node = node

    def workers(self) -> WorkersAnswer:
        with self._cluster.changed:
            self._cluster.enter(self.node, "workers")
            return WorkersAnswer(self.node, 1, tuple(self._cluster.workers.get(self.node, [])))

    def put_move(self, move_id: str, request: MoveRequest) -> MoveStatus:
        status = MoveStatus(
            move_id, request.epoch, request.job, request.group, request.rank, request.role, "NEW", 1,
            request.source, request.target,
        )  # fmt: skip
        with self._cluster.changed:
            self._cluster.enter(self.node, "put_move", move_id)
            return self._put(self._cluster.moves, move_id, request, status)

    def prepare_move(self, move_id: str, command: Command) -> MoveStatus:
        def prepare(request: MoveRequest, status: MoveStatus) -> MoveStatus:
            if status.state != "NEW":
                return status
            descriptor = {"move": move_id, "node": self.node} if request.role == "destination" else None
            return replace(status, state="PREPARED", descriptor=descriptor)

        return self._change("prepare_move", self._cluster.moves, move_id, command, prepare)

    def start_move(self, move_id: str, command: Command) -> MoveStatus:
        def start(request: MoveRequest, status: MoveStatus) -> MoveStatus:
            if status.state == "PREPARED":
                return replace(status, state="ARMED")
            if status.parked and command.descriptor is not None:
                return replace(status, state="VERIFIED", parked=False)
            if status.state == "NEW":
                raise self._cluster.refusal(self.node, "not_prepared", f"move {move_id} is NEW")
            return status

        status = self._change("start_move", self._cluster.moves, move_id, command, start)
        with self._cluster.changed:
            for _, pause_id in list(self._cluster.pauses):
                self._cluster.run_pause(pause_id)
        return status

    def commit_move(self, move_id: str, command: Command) -> MoveStatus:
        def commit(request: MoveRequest, status: MoveStatus) -> MoveStatus:
            if not status.final:
                raise self._cluster.refusal(self.node, "not_decided", f"move {move_id} is {status.state}")
            return status

        return self._change("commit_move", self._cluster.moves, move_id, command, commit)

    def abort_move(self, move_id: str, command: Command) -> MoveStatus:
        return self._change("abort_move", self._cluster.moves, move_id, command, self._abort)

    def move(self, move_id: str, *, wait_s: float = 0.0, since: int = -1) -> MoveStatus:
        return self._get("move", self._cluster.moves, move_id, wait_s, since)

    def put_pause(self, pause_id: str, request: PauseRequest) -> PauseStatus:
        status = PauseStatus(pause_id, request.epoch, request.job, "NEW", 1)
        with self._cluster.changed:
            self._cluster.enter(self.node, "put_pause", pause_id)
            return self._put(self._cluster.pauses, pause_id, request, status)

    def start_pause(self, pause_id: str, command: Command) -> PauseStatus:
        def start(request: PauseRequest, status: PauseStatus) -> PauseStatus:
            return replace(status, state="ARMED") if status.state == "NEW" else status

        with self._cluster.changed:
            self._change("start_pause", self._cluster.pauses, pause_id, command, start)
            self._cluster.run_pause(pause_id)
            return self._cluster.pauses[self.node, pause_id][1]

    def abort_pause(self, pause_id: str, command: Command) -> PauseStatus:
        return self._change("abort_pause", self._cluster.pauses, pause_id, command, self._abort)

    def pause(self, pause_id: str, *, wait_s: float = 0.0, since: int = -1) -> PauseStatus:
        return self._get("pause", self._cluster.pauses, pause_id, wait_s, since)

    def put_routes(self, table: RouteTable) -> RouteTable:
        with self._cluster.changed:
            self._cluster.enter(self.node, "put_routes")
            seen = self._cluster.tables.get(self.node, RouteTable(0)).epoch
            if table.epoch < seen:
                raise self._cluster.refusal(self.node, "stale_epoch", f"{table.epoch} is below {seen}")
            self._cluster.tables[self.node] = table
            return table

    def routes(self) -> RouteTable:
        with self._cluster.changed:
            self._cluster.enter(self.node, "routes")
            return self._cluster.tables.get(self.node, RouteTable(0))

    def _abort(self, request: Req, status: Stat) -> Stat:
        if status.state == "RELEASED":
            raise self._cluster.refusal(self.node, "already_decided", f"{status.id} is RELEASED")
        if status.state == "ABORTED":
            return status
        return replace(status, state="ABORTED", error={"code": "aborted", "message": "asked for"})

    def _put(self, table: dict[Key, tuple[Req, Stat]], its_id: str, request: Req, status: Stat) -> Stat:
        self._cluster.fence(self.node, request.job, request.epoch)
        known = table.get((self.node, its_id))
        if known is None:
            table[self.node, its_id] = (request, status)
            return status
        if known[0] != request:
            raise self._cluster.refusal(self.node, "conflict", f"{its_id} was made with another body")
        return known[1]

    def _change(
        self,
        call: str,
        table: dict[Key, tuple[Req, Stat]],
        its_id: str,
        command: Command,
        change: Callable[[Req, Stat], Stat],
    ) -> Stat:
        with self._cluster.changed:
            self._cluster.enter(self.node, call, its_id)
            request, status = self._known(table, its_id)
            self._cluster.fence(self.node, request.job, command.epoch)
            after = change(request, status)
            if after != status:
                after = replace(after, version=status.version + 1)
                table[self.node, its_id] = (request, after)
                self._cluster.changed.notify_all()
            return after

    def _get(
        self, call: str, table: dict[Key, tuple[Req, Stat]], its_id: str, wait_s: float, since: int
    ) -> Stat:
        with self._cluster.changed:
            self._cluster.enter(self.node, call, its_id)

            def there() -> bool:
                status = self._known(table, its_id)[1]
                return status.version > since or status.state in FINAL_STATES

            self._cluster.changed.wait_for(there, wait_s)
            return self._known(table, its_id)[1]

    def _known(self, table: dict[Key, tuple[Req, Stat]], its_id: str) -> tuple[Req, Stat]:
        try:
            return table[self.node, its_id]
        except KeyError:
            raise self._cluster.refusal(self.node, "not_found", f"no {its_id} here", 404) from None
