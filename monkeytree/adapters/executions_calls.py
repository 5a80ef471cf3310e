"""The calls to agents that carry one unit of a wave out, as data: for dry runs and workers alike.

A script is a list of batches; the calls of a batch may be made at once. docs/agents.md tells the sequence.
Ids follow from the execution and the step, so that a successor makes the very same calls again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from monkeytree.wire.agents import (
    Command,
    Deadlines,
    MoveRequest,
    PauseMove,
    PauseRequest,
    Role,
    RouteTable,
    Seat,
)

from .executions_match import Rank
from .executions_rows import Step
from .executions_schedule import Unit

Verb: TypeAlias = Literal["make", "prepare", "start", "commit", "abort", "look"]
Until: TypeAlias = Literal["PREPARED", "ARMED", "parked", "VERIFIED", "final"]
Body: TypeAlias = MoveRequest | PauseRequest | Command | RouteTable


#: So often a parked state is sent, where destinations fail.
MOST_LANDINGS = 3


@dataclass(frozen=True, slots=True)
class Ask:
    """One call, and what is waited for after it.

    Attributes:
        node: whose agent is called.
        noun, id: ``moves`` or ``pauses``, and which one; ``routes`` are one a node, and have no id.
        step: number of the step it serves (of a pause: the first of its job's).
        fills: what of the body is known only then: ``standby`` (as the source's agent tells of its worker)
            or ``descriptor`` (as the destination's agent tells of the move).
        until: state that is waited for, by long-polling.
    """

    node: str
    verb: Verb
    noun: Literal["moves", "pauses", "routes"]
    id: str
    step: int
    body: Body | None = None
    fills: Literal["standby", "descriptor"] | None = None
    until: Until | None = None

    @property
    def method(self) -> str:
        """Of HTTP."""
        return {"make": "PUT", "look": "GET"}.get(self.verb, "POST")

    @property
    def path(self) -> str:
        """Of the URL."""
        tail = "" if self.verb in ("make", "look") else f"/{self.verb}"
        return f"/v1/{self.noun}{self._one}{tail}"

    @property
    def _one(self) -> str:
        return f"/{self.id}" if self.id else ""

    @property
    def name(self) -> str:
        """In the journal: ``make moves/...-m3``."""
        return f"{self.verb} {self.noun}{self._one}"


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls that may be made at once; ``stage`` says what they do."""

    stage: str
    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """All that the calls of a unit follow from.

    Attributes:
        steps: of the unit's jobs in this wave, reorders too, by number.
        epochs: fencing token of each job's pause.
        places: where every worker of those jobs is before the pause.
        orders: new ring order by job and group, of groups that take one on in this wave.
        pause_s: longest pause for one turn of transfers.
        ports: UDP source port of the transfer, by step number, of transfers that are steered.
        again: these steps have failed before: what is made for them has other ids.
    """

    execution_id: str
    plan_id: str
    unit: Unit
    steps: Mapping[int, Step]
    epochs: Mapping[str, int]
    places: Mapping[Rank, str]
    orders: Mapping[str, Mapping[str, tuple[int, ...]]]
    pause_s: float
    transport: str = "stream"
    ports: Mapping[int, int] = field(default_factory=dict)
    again: bool = False

    def move_id(self, number: int) -> str:
        """Of the move, at both agents."""
        return f"{self.execution_id}-m{number}{self._mark(self.steps[number].job)}"

    def landing_id(self, number: int, landing: int) -> str:
        """Of the move at its destination, where ``landing`` tries to send the parked state came before."""
        return f"{self.move_id(number)}-l{landing}" if landing else self.move_id(number)

    def pause_id(self, job: str) -> str:
        """Of the job's pause."""
        return f"{self.execution_id}-p{self.first_step(job)}{self._mark(job)}"

    def _mark(self, job: str) -> str:
        return f"-r{self.epochs[job]}" if self.again else ""

    def first_step(self, job: str) -> int:
        """The lowest of its step numbers."""
        return min(number for number, step in self.steps.items() if step.job == job)

    def hosts(self, job: str) -> tuple[str, ...]:
        """Nodes with a worker of the job, in order of rank."""
        return tuple(dict.fromkeys(node for rank, node in self.places.items() if rank[0] == job))

    @property
    def deadlines(self) -> Deadlines:
        """Parked moves stay paused for all turns, and until successors that had no slot before are up."""
        usual = Deadlines()
        cold = sum(bool(set(turn) - self.unit.warm) for turn in self.unit.turns)
        pause_s = self.pause_s * (1 + len(self.unit.turns)) + usual.prepare_s * cold
        return Deadlines(usual.prepare_s, usual.arm_s, pause_s, usual.first_iteration_s)


def unit_script(scene: Scene) -> tuple[Batch, ...]:
    """All batches of a unit, in order; those without calls are left out."""
    batches = (*_before(scene), *_pauses(scene), *_turns(scene), *_outcome(scene))
    return tuple(batch for batch in batches if batch.asks)


def acknowledgements(scene: Scene) -> Batch:
    """What is called once the outcome stands in the store: agents may then forget the moves."""
    asks = []
    for number in scene.unit.moves:
        step = scene.steps[number]
        asks += [_command(scene, number, node, "commit") for node in _sides(step)]
    return Batch("acknowledge", tuple(asks))


def aborts(scene: Scene, made: Collection[tuple[str, str]]) -> tuple[Batch, ...]:
    """What gives a unit up: pauses first, then moves, of those ``made`` (node, id)."""
    pauses = [
        Ask(host, "abort", "pauses", scene.pause_id(job), scene.first_step(job), _abort(scene, job))
        for job in scene.unit.jobs
        for host in scene.hosts(job)
        if (host, scene.pause_id(job)) in made
    ]
    moves = [
        Ask(node, "abort", "moves", its_id, number, _abort(scene, scene.steps[number].job))
        for number in scene.unit.moves
        for node in _sides(scene.steps[number])
        for its_id in (scene.landing_id(number, landing) for landing in range(MOST_LANDINGS))
        if (node, its_id) in made
    ]
    return Batch("give up", tuple(pauses)), Batch("give up", tuple(moves))


def landing(scene: Scene, number: int, which: int) -> tuple[Batch, ...]:
    """Send a parked state to its destination once more, after ``which`` tries: it lies where it lay."""
    its_id = scene.landing_id(number, which)
    source = scene.steps[number].source or ""
    there = [
        _make(scene, number, "destination"),
        *_at_destinations(scene, [number], "prepare", "PREPARED").asks,
        *_at_destinations(scene, [number], "start", None).asks,
    ]
    here = [_command(scene, number, source, "start", None, "descriptor"), _look(scene, number, "VERIFIED")]
    asks = [replace(ask, id=its_id) for ask in there] + here
    return tuple(Batch("land", (ask,)) for ask in asks)


def _before(scene: Scene) -> Iterator[Batch]:
    """What needs no pause: successors are started, movers connected."""
    unit = scene.unit
    yield Batch("make", tuple(_make(scene, number, "destination") for number in sorted(unit.warm)))
    yield Batch("make", tuple(_make(scene, number, "source") for number in unit.moves))
    yield _at_destinations(scene, sorted(unit.warm), "prepare", "PREPARED")
    sources = []
    for number in unit.moves:
        direct = number in unit.direct
        node = scene.steps[number].source or ""
        sources.append(_command(scene, number, node, "prepare", "PREPARED", "descriptor" if direct else None))
    yield Batch("prepare", tuple(sources))
    yield _at_destinations(scene, unit.direct, "start", "ARMED")
    starts = [
        _command(scene, number, scene.steps[number].source or "", "start", "ARMED") for number in unit.moves
    ]
    yield Batch("start", tuple(starts))


def _pauses(scene: Scene) -> Iterator[Batch]:
    makes, starts = [], []
    for job in scene.unit.jobs:
        request = pause_request(scene, job)
        for host in scene.hosts(job):
            at = (scene.pause_id(job), scene.first_step(job))
            makes.append(Ask(host, "make", "pauses", *at, body=request))
            starts.append(Ask(host, "start", "pauses", *at, body=Command(request.epoch)))
    yield Batch("pause", tuple(makes))
    yield Batch("pause", tuple(starts))


def _turns(scene: Scene) -> Iterator[Batch]:
    """Parked moves travel once nothing else uses their uplinks."""
    unit = scene.unit
    if not unit.turns:
        return
    waits = [(number, "VERIFIED") for number in unit.direct] + [
        (number, "parked") for number in sorted(unit.parked)
    ]
    yield Batch("park", tuple(_look(scene, number, until) for number, until in waits))  # type: ignore[arg-type]
    for turn in unit.turns:
        cold = [number for number in turn if number not in unit.warm]
        yield Batch("make", tuple(_make(scene, number, "destination") for number in cold))
        yield _at_destinations(scene, cold, "prepare", "PREPARED")
        yield _at_destinations(scene, turn, "start", None)
        lands = [
            _command(scene, number, scene.steps[number].source or "", "start", None, "descriptor")
            for number in turn
        ]
        yield Batch("land", tuple(lands))
        yield Batch("land", tuple(_look(scene, number, "VERIFIED") for number in turn))


def _outcome(scene: Scene) -> Iterator[Batch]:
    pauses = [
        Ask(host, "look", "pauses", scene.pause_id(job), scene.first_step(job), until="final")
        for job in scene.unit.jobs
        for host in scene.hosts(job)
    ]
    yield Batch("finish", tuple(pauses))
    moves = [
        Ask(node, "look", "moves", scene.move_id(number), number, until="final")
        for number in scene.unit.moves
        for node in _sides(scene.steps[number])
    ]
    yield Batch("finish", tuple(moves))


def pause_request(scene: Scene, job: str) -> PauseRequest:
    """The pause of one job, told to each of its hosts."""
    unit = scene.unit
    moves = [scene.steps[number] for number in unit.moves if scene.steps[number].job == job]
    return PauseRequest(
        epoch=scene.epochs[job],
        job=job,
        members=tuple(
            Seat(group, rank, node) for (owner, group, rank), node in scene.places.items() if owner == job
        ),
        moves=tuple(
            PauseMove(
                scene.move_id(step.number), step.group, step.rank or 0, step.source or "", step.target or "",
                staged=step.number in unit.parked,
            )
            for step in moves
        ),
        orders=dict(scene.orders.get(job, {})),
        execution_id=scene.execution_id,
        plan_id=scene.plan_id,
        deadlines=scene.deadlines,
    )  # fmt: skip


def _make(scene: Scene, number: int, role: Role) -> Ask:
    step = scene.steps[number]
    body = MoveRequest(
        epoch=scene.epochs[step.job], job=step.job, group=step.group, rank=step.rank or 0, role=role,
        source=step.source or "", target=step.target or "", execution_id=scene.execution_id,
        plan_id=scene.plan_id, slots=step.slots, transport=scene.transport,
        uplink_port=scene.ports.get(number), staged=number in scene.unit.parked, deadlines=scene.deadlines,
    )  # fmt: skip
    node = (step.source if role == "source" else step.target) or ""
    return Ask(node, "make", "moves", scene.move_id(number), number, body, "standby")


def _at_destinations(scene: Scene, numbers: Sequence[int], verb: Verb, until: Until | None) -> Batch:
    asks = [_command(scene, number, scene.steps[number].target or "", verb, until) for number in numbers]
    return Batch(verb, tuple(asks))


def _command(
    scene: Scene,
    number: int,
    node: str,
    verb: Verb,
    until: Until | None = None,
    fills: Literal["descriptor"] | None = None,
) -> Ask:
    body = Command(scene.epochs[scene.steps[number].job])
    return Ask(node, verb, "moves", scene.move_id(number), number, body, fills, until)


def _look(scene: Scene, number: int, until: Until) -> Ask:
    node = scene.steps[number].source or ""
    return Ask(node, "look", "moves", scene.move_id(number), number, until=until)


def _abort(scene: Scene, job: str) -> Command:
    return Command(scene.epochs[job], reason="the controller gave the unit up")


def _sides(step: Step) -> tuple[str, str]:
    return step.target or "", step.source or ""
