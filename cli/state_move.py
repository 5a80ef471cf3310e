"""One worker's state moved by the agents of its job's nodes: the sequence of docs/agents.md, for one move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic, sleep
from typing import Any

from monkeytree.adapters.executions_calls import Ask, Scene, unit_script
from monkeytree.adapters.executions_rows import Step
from monkeytree.adapters.executions_schedule import Unit
from monkeytree.errors import MonkeyTreeError
from monkeytree.wire.agents import Deadlines, MoveStatus, WorkerStatus
from monkeytree.workers.conducting import Conductor
from monkeytree.workers.insisting import Patience, Trouble

from .agent_book import Book
from .state_seen import BETWEEN_S, Errand, NotMoved, Places, Seen

EPOCHS = 3
"""So many are drawn, where agents have seen higher ones."""
BEFORE = "the state had moved already"
MOVED = "the state has moved"


class Unsure(MonkeyTreeError):
    """The agents could not be asked where the worker is."""

    code = "state_unknown"


class StateMove:
    """Carries one errand out; another run may have begun it, and may even be at it still."""

    def __init__(self, errand: Errand, book: Book, say: Callable[[str], None]) -> None:
        self.errand = errand
        self.book = book
        self.say = say
        self.seen = Seen(errand, book)

    def run(self) -> str:
        """Move the state; how that went, in words.

        Raises:
            NotMoved, Unsure.
        """
        for left in reversed(range(EPOCHS)):
            try:
                return self._try()
            except Trouble as trouble:
                where = self._settled(trouble)
                if where == "target":
                    return MOVED
                if trouble.reason == "stale_epoch" and left:
                    continue
                end = "nothing was begun" if where == "unbegun" else f"it goes on at {self.errand.source}"
                raise NotMoved(f"{trouble.reason}: {trouble}; {end}") from None
        raise AssertionError("the last try ends it")

    def _try(self) -> str:
        """Go on with the last attempt, or begin the next.

        Raises:
            Trouble.
        """
        last, told = self._last()
        if any(status.state == "RELEASED" for status in told):
            return BEFORE
        live = any(not status.final for status in told)
        places = self.seen.places()
        node, worker = places[self.errand.who]
        if node != self.errand.source:
            if live:
                raise Trouble("late", "an earlier call had it under way")
            return BEFORE
        if live:
            scene = self._scene(last, told[0].epoch, places, worker)
        else:
            scene = self._scene(last + 1, self._epoch(places, told), places, worker)
        return self._carry_out(scene, places, again=live)

    def _last(self) -> tuple[int, list[MoveStatus]]:
        found = [self.seen.last_attempt(node) for node in (self.errand.target, self.errand.source)]
        last = max(number for number, _ in found)
        return last, [status for number, status in found if number == last and status is not None]

    def _epoch(self, places: Places, told: list[MoveStatus]) -> int:
        """Higher than any that was seen for the job."""
        seen = [worker.epoch for _, worker in places.values()] + [status.epoch for status in told]
        return 1 + max(self.book.fences, *seen)

    def _carry_out(self, scene: Scene, places: Places, *, again: bool) -> str:
        """Make the calls; how the state went over, in words.

        Raises:
            Trouble: it did not, or nobody can tell.
        """
        asks = [ask for batch in unit_script(scene) for ask in batch.asks]
        conductor = Conductor(
            scene, self.book.agent, _no_journal, Patience(self.errand.patience_s), fills={},
            earlier=[(ask.node, ask.name) for ask in asks] if again else (),
            workers={(self.errand.job, *who): worker for who, (_, worker) in places.items()},
        )  # fmt: skip
        outcome = conductor.carry_out(self.say)[self.errand.job]
        if outcome.state != "done":
            reason, _, why = (outcome.error or "aborted: no reason told").partition(": ")
            raise Trouble(reason, why)
        conductor.acknowledge()
        return f"{MOVED}: {_figures(outcome.phases[0])}"

    def _scene(self, number: int, epoch: int, places: Places, worker: WorkerStatus) -> Scene:
        errand = self.errand
        step = Step(
            number=0, kind="move", job=errand.job, group=errand.group, rank=errand.rank,
            source=errand.source, target=errand.target, source_rack=None, target_rack=None, wave=0,
            staged=False, slots=worker.slots, state_gb=0.0,
        )  # fmt: skip
        groups = {group for group, _ in places}
        return Scene(
            execution_id=errand.attempt_id(number),
            plan_id=errand.plan,
            unit=Unit((errand.job,), direct=(0,), warm=frozenset({0})),
            steps={0: step},
            epochs={errand.job: epoch},
            places={(errand.job, *who): node for who, (node, _) in places.items()},
            orders={errand.job: {group: order for group, order in errand.orders.items() if group in groups}},
            pause_s=errand.pause_s,
            transport=errand.transport,
        )

    def _settled(self, trouble: Trouble) -> str:
        """Where the worker is, once that is certain: ``target``, ``source`` or ``unbegun``.

        Raises:
            Unsure: it did not become so in time.
        """
        limits, errand = Deadlines(), self.errand
        patience_s = limits.arm_s + errand.pause_s + limits.first_iteration_s + errand.patience_s
        ends = monotonic() + patience_s
        while not (where := self.seen.where()):
            if monotonic() > ends:
                raise Unsure(
                    f"{trouble.reason}: {trouble}; nor could the agents of {errand.source} and "
                    f"{errand.target} tell within {patience_s:g} s where {errand.words} is now"
                )
            sleep(BETWEEN_S)
        return where


def _no_journal(_ask: Ask, _fill: Mapping[str, Any] | None) -> Callable[[str], None]:
    """The agents keep their own, and are asked."""
    return lambda _how: None


def _figures(phases: Mapping[str, Any]) -> str:
    source = phases.get("source") or {}
    told = {"s on the wire": source.get("wire_s"), "s of pause": phases.get("pause_s")}
    seconds = [f"{value:.3f} {name}" for name, value in told.items() if value is not None]
    return ", ".join([f"{source.get('bytes_sent', 0):,} bytes", *seconds])
