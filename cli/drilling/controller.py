"""Carries the move out over the agents' HTTP, in the order of docs/agents.md; may be killed and run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from monkeytree.adapters.agents import AgentClient, AgentRefused, AgentUnreachable
from monkeytree.wire.agents import (
    Command,
    Deadlines,
    MoveRequest,
    MoveStatus,
    PauseMove,
    PauseRequest,
    Role,
    Seat,
    WorkersAnswer,
    WorkerStatus,
    dump,
)

from .scene import Scene

RETRY_S = 0.05
POLL_S = 5.0


class Failed(Exception):
    """A move that cannot be prepared; it was called off."""


@dataclass(slots=True)
class Order:
    """What is to be done.

    Attributes:
        scene: plan and seats.
        agents: node -> URL and secret.
        epoch: fencing token of this move; with ``name`` it makes the ids, so that a second run goes on.
        warm: start the standby before the pause.
        patience_s: for an agent that does not answer.
    """

    scene: Scene
    agents: Mapping[str, tuple[str, str]]
    epoch: int
    name: str
    warm: bool = True
    deadlines: Deadlines = field(default_factory=Deadlines)
    patience_s: float = 30.0


class Controller:
    """One run over an order. Every call may come a second time: answers are the present state."""

    def __init__(self, order: Order, said: Callable[..., None]) -> None:
        """``said(event, **members)`` hears what is going on."""
        self._order = order
        self._said = said
        self._agents = {node: AgentClient(url, secret, node) for node, (url, secret) in order.agents.items()}
        self._move_id, self._pause_id = f"{order.name}-m0", f"{order.name}-w0"
        self._plain = Command(order.epoch)

    def carry_out(self) -> dict[str, Any]:
        """From the first call to the last; what became of move and pause."""
        move = self._order.scene.move
        try:
            self._prepare()
            self._pause()
        except Failed as error:
            self._said("called off", why=str(error))
            self._call_off(str(error))
        pauses = {node: self._final(node, "pause", self._pause_id) for node in self._order.scene.hosts}
        moves = {node: self._final(node, "move", self._move_id) for node in (move.source, move.target)}
        for node in moves:
            self._try(node, "commit_move", self._move_id, self._plain)
        return {"pauses": pauses, "moves": moves}

    def _prepare(self) -> None:
        """Steps 0 to 5."""
        move = self._order.scene.move
        worker = self._worker()
        for node, role in ((move.target, "destination"), (move.source, "source")):
            request = self._request(role, worker)  # type: ignore[arg-type]  # one of the two
            self._call(node, "put_move", self._move_id, request)
        self._said("created")
        self._call(move.target, "prepare_move", self._move_id, self._plain)
        descriptor = self._until(move.target, "PREPARED").descriptor
        described = Command(self._order.epoch, descriptor)
        self._call(move.source, "prepare_move", self._move_id, described)
        self._until(move.source, "PREPARED")
        self._said("prepared")
        for node in (move.target, move.source):
            self._call(node, "start_move", self._move_id, self._plain)

    def _pause(self) -> None:
        """Steps 6 and 7."""
        order, move = self._order, self._order.scene.move
        seats = tuple(Seat(move.group, rank, node) for rank, node in enumerate(order.scene.seats))
        moves = (PauseMove(self._move_id, move.group, move.rank, move.source, move.target),)
        request = PauseRequest(
            order.epoch,
            move.job,
            seats,
            moves,
            execution_id=order.name,
            plan_id=order.scene.plan_id,
            deadlines=order.deadlines,
        )
        for node in order.scene.hosts:
            self._call(node, "put_pause", self._pause_id, request)
        for node in order.scene.hosts:
            self._call(node, "start_pause", self._pause_id, self._plain)
        self._said("armed")

    def _worker(self) -> WorkerStatus | None:
        """The worker that moves, where it is still at its source."""
        move = self._order.scene.move
        deadline = time.monotonic() + self._order.patience_s
        while True:
            answer: WorkersAnswer = self._call(move.source, "workers")
            for one in answer.workers:
                if (one.job, one.group, one.rank) == (move.job, move.group, move.rank):
                    return one
            if self._known() or time.monotonic() > deadline:
                return None
            time.sleep(RETRY_S)

    def _known(self) -> bool:
        """Whether an earlier run made the move: its worker may be elsewhere by now."""
        try:
            self._call(self._order.scene.move.source, "move", self._move_id)
        except Failed:
            return False
        return True

    def _request(self, role: Role, worker: WorkerStatus | None) -> MoveRequest:
        order, move = self._order, self._order.scene.move
        if worker is None:
            raise Failed(f"rank {move.rank} is not at {move.source}")
        return MoveRequest(
            order.epoch,
            move.job,
            move.group,
            move.rank,
            role,
            move.source,
            move.target,
            execution_id=order.name,
            plan_id=order.scene.plan_id,
            slots=worker.slots,
            state_bytes=worker.state_bytes,
            warm=order.warm,
            standby_command=worker.standby_command,
            standby_env=worker.standby_env,
            deadlines=order.deadlines,
        )

    def _until(self, node: str, state: str) -> MoveStatus:
        """Wait until the move has come to ``state`` at ``node``."""
        version = -1
        deadline = time.monotonic() + self._order.deadlines.prepare_s + self._order.patience_s
        while time.monotonic() < deadline:
            status: MoveStatus = self._call(node, "move", self._move_id, wait_s=POLL_S, since=version)
            if status.state == "ABORTED":
                raise Failed(f"{node}: {(status.error or {}).get('message', 'aborted')}")
            if status.state not in ("NEW", "PREPARING"):
                return status
            version = status.version
        raise Failed(f"{node} did not come to {state}")

    def _final(self, node: str, method: str, name: str) -> dict[str, Any] | None:
        """Wait for a final state; None where the agent knows of none or does not come to one."""
        limits = self._order.deadlines
        deadline = time.monotonic() + limits.arm_s + limits.pause_s + limits.first_iteration_s + 30.0
        version = -1
        status = None
        while time.monotonic() < deadline:
            try:
                status = self._call(node, method, name, wait_s=POLL_S, since=version)
            except Failed:
                break
            if status.final:
                break
            version = status.version
        return None if status is None else dump(status)

    def _call_off(self, why: str) -> None:
        command = Command(self._order.epoch, reason=why)
        move = self._order.scene.move
        for node in self._order.scene.hosts:
            self._try(node, "abort_pause", self._pause_id, command)
        for node in (move.source, move.target):
            self._try(node, "abort_move", self._move_id, command)

    def _try(self, node: str, method: str, *arguments: Any) -> None:
        try:
            self._call(node, method, *arguments)
        except Failed as error:
            self._said("refused", why=str(error))

    def _call(self, node: str, method: str, *arguments: Any, **more: Any) -> Any:
        """Call an agent until it answers.

        Raises:
            Failed: it refuses for good, or was silent for too long.
        """
        deadline = time.monotonic() + self._order.patience_s
        while True:
            try:
                return getattr(self._agents[node], method)(*arguments, **more)
            except AgentUnreachable as error:
                wait_s, why = RETRY_S, error
            except AgentRefused as error:
                if error.retry_after_s is None:
                    raise Failed(str(error)) from error
                wait_s, why = error.retry_after_s, error  # type: ignore[assignment]
            if time.monotonic() + wait_s > deadline:
                raise Failed(f"{node}: {why}")
            time.sleep(wait_s)
