"""The documents of the agents' HTTP API: what a controller sends, and what agents answer.

docs/agents.md tells in which order the calls come. Requests are read strictly (an unknown member is an
offence), answers tolerantly (a newer agent may say more).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias

TRANSPORTS: Final = ("stream", "verbs", "nixl")
Role: TypeAlias = Literal["source", "destination"]
MoveState: TypeAlias = Literal[
    "NEW", "PREPARING", "PREPARED", "ARMED", "PAUSED", "SENDING", "VERIFIED", "DECIDED", "REFORMED",
    "RELEASED", "ABORTED",
]  # fmt: skip
MOVE_STATES: tuple[MoveState, ...] = (
    "NEW", "PREPARING", "PREPARED", "ARMED", "PAUSED", "SENDING", "VERIFIED", "DECIDED", "REFORMED",
    "RELEASED", "ABORTED",
)  # fmt: skip
"""In the order a move passes them; from any before DECIDED it may go to ABORTED, and back from
DECIDED or REFORMED too (code ``undone``) where the destination dies in its first iteration."""
FINAL_STATES: frozenset[str] = frozenset({"RELEASED", "ABORTED"})

PauseState: TypeAlias = Literal["NEW", "ARMED", "PAUSED", "DECIDED", "REFORMED", "RELEASED", "ABORTED"]
PAUSE_STATES: tuple[PauseState, ...] = (
    "NEW", "ARMED", "PAUSED", "DECIDED", "REFORMED", "RELEASED", "ABORTED",
)  # fmt: skip
Decision: TypeAlias = Literal["commit", "abort", "undo"]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds after which a party that waits gives up, by what it waits for.

    Attributes:
        prepare_s: the standby to be up, its arena faulted in; a move stays PREPARED for twice that.
        arm_s: all ranks to reach a boundary after they were armed; also how long a move stays ARMED
            without a pause.
        pause_s: from the pause of the first rank to the decision; whoever waits longer writes abort.
        first_iteration_s: from the commit to the destination's first finished iteration; whoever waits
            longer has it undone.
    """

    prepare_s: float = 120.0
    arm_s: float = 60.0
    pause_s: float = 60.0
    first_iteration_s: float = 120.0


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """``PUT /v1/moves/{id}``: one side of a move, told to the agent of that side.

    Attributes:
        epoch: fencing token of the job, the same in all calls of one (job, wave), higher in each next one.
        execution_id: of the controller, handed through.
        plan_id: as above.
        job, group, rank: who moves.
        role: which side this agent is.
        source, target: nodes (members ``from`` and ``to``).
        slots: slots it holds.
        state_bytes: size of the worker's arena; null where unknown (then nothing is reserved for it).
        transport: ``stream``, ``verbs`` or ``nixl``.
        uplink_port: UDP source port for transports that can set it (verbs), or null.
        warm: start the standby at ``prepare``; false: at the pause.
        staged: the source parks the state (its process ends, its slot is free) until a destination
            is given by ``start``.
        standby_command: what the destination starts; from ``GET /v1/workers`` of the source.
        standby_env: environment on top of the agent's own.
        deadlines: see :class:`Deadlines`.
    """

    epoch: int
    job: str
    group: str
    rank: int
    role: Role
    source: str
    target: str
    execution_id: str = ""
    plan_id: str = ""
    slots: int = 1
    state_bytes: int | None = None
    transport: str = "stream"
    uplink_port: int | None = None
    warm: bool = True
    staged: bool = False
    standby_command: tuple[str, ...] = ()
    standby_env: Mapping[str, str] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=Deadlines)


@dataclass(frozen=True, slots=True)
class Command:
    """Body of ``POST /v1/moves/{id}/{prepare,start,commit,abort}`` and of a pause's ``start``, ``abort``.

    Attributes:
        epoch: as in the request that made it.
        descriptor: at the source's ``prepare`` (of a staged move: at its ``start``): what the
            destination's ``GET`` shows.
        reason: of an abort, for people.
    """

    epoch: int
    descriptor: Mapping[str, Any] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a rank of a group is (to be)."""

    group: str
    rank: int
    node: str


@dataclass(frozen=True, slots=True)
class PauseMove:
    """A move of the pause, by the id it has at both agents."""

    id: str
    group: str
    rank: int
    source: str
    target: str
    staged: bool = False


@dataclass(frozen=True, slots=True)
class PauseRequest:
    """``PUT /v1/pauses/{id}``: one pause of a job, told to every agent that hosts a rank of it.

    Attributes:
        epoch: as of its moves. One epoch is one pause.
        job: who pauses.
        members: every rank of the job *before* the pause (one entry a worker); all must take part.
        moves: the job's moves of this wave, none for reorders alone.
        orders: new ring order by group, for groups whose order changes.
        deadlines: see :class:`Deadlines`; the same at every agent.
    """

    epoch: int
    job: str
    members: tuple[Seat, ...]
    moves: tuple[PauseMove, ...] = ()
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    execution_id: str = ""
    plan_id: str = ""
    deadlines: Deadlines = field(default_factory=Deadlines)


@dataclass(frozen=True, slots=True)
class Route:
    """A flow and what its sender puts into its packets, so that switches hash it onto its uplink.

    Attributes:
        src_ip, dst_ip: of the two NICs.
        port: UDP source port, 49152 to 65535.
        flow_label: the IPv6 flow label (20 bits) that makes the kernel choose ``port``, or null.
        job, uplink: for people.
    """

    src_ip: str
    dst_ip: str
    port: int
    flow_label: int | None = None
    job: str = ""
    uplink: int | None = None


@dataclass(frozen=True, slots=True)
class RouteTable:
    """``PUT /v1/routes``: the whole table of the node; ``epoch`` may not go down."""

    epoch: int
    routes: tuple[Route, ...] = ()


@dataclass(frozen=True, slots=True)
class Phase:
    """A state that a move or a pause passed: when it was entered (Unix time) and how long it lasted."""

    name: str
    started_at: float
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class MoveStatus:
    """``GET /v1/moves/{id}?wait=S&since=VERSION`` and the answer of every call on a move.

    Attributes:
        version: grows with every change; ``since`` it, a GET waits for the next.
        error: code and message where it ABORTED.
        descriptor: of a PREPARED destination: hand it to the source's ``prepare``.
        parked: a staged move whose state lies in the source's memory; its slot is free.
        bytes_sent, wire_s: payload and the seconds from its first byte to the last one acknowledged.
        figures: further measures of the mover, by name; at the source ``pause_s`` is the pause of the moved
            rank, from its boundary to the destination's place in the group.
    """

    id: str
    epoch: int
    job: str
    group: str
    rank: int
    role: str
    state: str
    version: int
    source: str = ""
    target: str = ""
    error: Mapping[str, str] | None = None
    descriptor: Mapping[str, Any] | None = None
    parked: bool = False
    phases: tuple[Phase, ...] = ()
    bytes_sent: int = 0
    wire_s: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def final(self) -> bool:
        """Whether it will not change any more."""
        return self.state in FINAL_STATES


@dataclass(frozen=True, slots=True)
class PauseStatus:
    """``GET /v1/pauses/{id}?wait=S&since=VERSION``: as this agent's own ranks see it.

    Attributes:
        decision: what the job decided, null before; ``undo`` is a commit taken back.
        step: the boundary at which the job paused.
        pause_s: longest pause of a local rank: from its boundary until it trained again.
        figures: further measures of the local ranks, by name, the longest of each.
    """

    id: str
    epoch: int
    job: str
    state: str
    version: int
    decision: str | None = None
    step: int | None = None
    pause_s: float | None = None
    error: Mapping[str, str] | None = None
    phases: tuple[Phase, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def final(self) -> bool:
        """Whether it will not change any more."""
        return self.state in FINAL_STATES


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker on the node, as ``GET /v1/workers`` lists it.

    Attributes:
        state: ``training``, ``paused``, ``standby`` (not a member yet), ``parked`` (its state only).
        step: the last boundary it passed.
        state_bytes: size of its arena.
        standby_command: what starts its successor elsewhere; empty where it cannot move.
        epoch: of the last pause it took part in.
    """

    job: str
    group: str
    rank: int
    state: str
    pid: int
    step: int
    world_size: int
    slots: int = 1
    state_bytes: int | None = None
    standby_command: tuple[str, ...] = ()
    standby_env: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class WorkersAnswer:
    """``GET /v1/workers``."""

    node: str
    epoch: int
    workers: tuple[WorkerStatus, ...]


@dataclass(frozen=True, slots=True)
class Announcement:
    """What an agent sends to the service: ``POST /v1/agents``, at its start and as its beat.

    Attributes:
        node: id of the node, as in snapshots.
        url: where its HTTP API is.
        epoch: number of starts of this agent (from its journal), so that a restart is seen.
        cluster: "" where the service is to find it by the node.
        capabilities: ``transports`` (list), ``slots``, ``arena_bytes``, ``version``.
    """

    node: str
    url: str
    epoch: int
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    cluster: str = ""


_MEMBERS = {"source": "from", "target": "to"}
_ATTRIBUTES = {member: name for name, member in _MEMBERS.items()}
_FREE = frozenset({"descriptor", "error", "figures", "standby_env", "orders", "capabilities"})


def dump(value: Any) -> dict[str, Any]:
    """The JSON document of any class above."""
    return {_MEMBERS.get(name, name): _plain(name, member) for name, member in asdict(value).items()}


def restore_move(document: Mapping[str, Any]) -> MoveRequest:
    """A request from :func:`dump` of one, between processes that trust each other: nothing is checked.

    Training processes read it so, and need no schema library.
    """
    members = {_ATTRIBUTES.get(name, name): value for name, value in document.items()}
    members["standby_command"] = tuple(members["standby_command"])
    return MoveRequest(**{**members, "deadlines": Deadlines(**members["deadlines"])})


def restore_pause(document: Mapping[str, Any]) -> PauseRequest:
    """As :func:`restore_move`."""
    moves = (
        {_ATTRIBUTES.get(name, name): value for name, value in move.items()} for move in document["moves"]
    )
    read = {
        "members": tuple(Seat(**seat) for seat in document["members"]),
        "moves": tuple(PauseMove(**move) for move in moves),
        "orders": {group: tuple(order) for group, order in document["orders"].items()},
        "deadlines": Deadlines(**document["deadlines"]),
    }
    return PauseRequest(**{**document, **read})


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        if name in _FREE:
            return {key: _plain("", member) for key, member in value.items()}
        return {_MEMBERS.get(key, key): _plain(key, member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain("item", member) for member in value]
    return value
