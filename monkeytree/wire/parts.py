"""The parts of a snapshot document: racks, nodes, pods, jobs, groups, fabric and planning."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from marshmallow import fields, missing

from monkeytree import limits
from monkeytree.limits import NAME_MESSAGE
from monkeytree.offence_log import MOST_COUNTED, OffenceLog, Path
from monkeytree.offences import rank_message
from monkeytree.snapshot import (
    Fabric,
    GroupKind,
    Job,
    Mobility,
    Node,
    Pending,
    Planning,
    Pod,
    Rack,
    ReplicaGroup,
    Routing,
    Trigger,
)

from .fields import (
    NAME_SCHEMA,
    Amount,
    Choice,
    Count,
    Either,
    Flag,
    Instant,
    Labels,
    Listing,
    Name,
    OnePass,
    Ranks,
    as_int,
    refuse,
)
from .hash_parts import FabricHashSchema
from .schema import Part, PartSchema, Rows, default_of

NO_NAME = "\0"
"""Stands in for a name that could not be read; no real name is equal to it."""


def about(description: str, model: type | None = None, member: str = "", **more: Any) -> dict[str, Any]:
    """Metadata of a field; with a ``model`` also the default of its ``member``."""
    default = missing if model is None else default_of(model, member)
    given = {} if default is missing else {"default": default}
    return {"description": description, **given, **more}


class Uplinks(Either):
    """n for spines 0 to n-1, or a list of spines."""

    def __init__(self, **kwargs: Any) -> None:
        spines = Ranks(limits.SPINE, metadata={"uniqueItems": True, "maxItems": limits.UPLINKS.high})
        super().__init__(Count(limits.UPLINKS), spines, **kwargs)

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if isinstance(value, list | tuple):
            return _read_spines(value, log, at)
        number = as_int(value)
        if limits.UPLINKS.holds(number):
            return _first_spines(number)
        return refuse(log, at, f"{limits.UPLINKS.message} or a list of spines", value)


@cache  # racks share their tuple: a short document must not make a huge snapshot
def _first_spines(count: int) -> tuple[int, ...]:
    return tuple(range(count))


def _read_spines(value: list[Any] | tuple[Any, ...], log: OffenceLog, at: Path) -> tuple[int, ...]:
    spines: set[int] = set()
    for index, item in enumerate(value):
        spine = as_int(item)
        if not limits.SPINE.holds(spine):
            log.add((*at, index), f"a spine {limits.SPINE.message}", item)
        elif spine in spines:
            log.add((*at, index), "names a spine twice", item)
        else:
            spines.add(spine)
    return tuple(sorted(spines))


class NodeSchema(PartSchema):
    """The long form of a node; its id is its member name in ``nodes``."""

    model = Node
    placeholders = {"slots": limits.SLOTS.high}  # noqa: RUF012

    slots = Count(limits.SLOTS, required=True, metadata=about("Places for workers, usually GPUs."))
    held = Count(limits.SLOTS, metadata=about("Slots nobody may use; at most `slots`.", Node, "held"))
    cordoned = Flag(metadata=about("Keeps its workers, receives none.", Node, "cordoned"))
    drain = Flag(metadata=about("Its workers must leave.", Node, "drain"))
    node_class = Name(
        empty=True,
        data_key="class",
        metadata=about("Workers move only to classes of their job.", Node, "node_class"),
    )
    labels = Labels()
    addresses = Listing(Name(), metadata=about("One IP address a rail, for source ports."))

    @classmethod
    def make(cls, values: dict[str, Any], log: OffenceLog, at: Path) -> Node:
        return Node(str(at[-1]), **values)


class Nodes(OnePass, fields.Dict):
    """Node id to slots, or to the long form of a node."""

    json_schema: Mapping[str, Any] = {"propertyNames": NAME_SCHEMA}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(values=Either(Count(limits.SLOTS), fields.Nested(NodeSchema)), **kwargs)

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if not isinstance(value, Mapping):
            return refuse(log, at, "must be an object of node ids", value)
        most = limits.SLOTS.high
        nodes = []
        for name, form in value.items():
            if log.more >= MOST_COUNTED:
                break
            if type(form) is int and 0 <= form <= most and type(name) is str:
                nodes.append(Node(name, form))
            elif not isinstance(name, str):
                log.add((*at, str(name)), f"its id {NAME_MESSAGE}", name)
            elif isinstance(form, Mapping):
                nodes.append(NodeSchema.read(form, log, (*at, name)))
            else:
                nodes.append(Node(name, _read_slots(form, log, (*at, name))))
        return tuple(nodes)


def _read_slots(value: Any, log: OffenceLog, at: Path) -> int:
    slots = as_int(value)
    if limits.SLOTS.holds(slots):
        return int(slots)
    log.add(at, f"{limits.SLOTS.message} (slots) or an object", value)
    return limits.SLOTS.high


class RackSchema(PartSchema):
    """A rack: `fabric.rails` leaves with the same live uplinks, and its nodes."""

    model = Rack
    placeholders = {"id": NO_NAME, "spines": (), "nodes": ()}  # noqa: RUF012

    id = Name(required=True)
    spines = Uplinks(
        required=True,
        data_key="uplinks",
        metadata=about("Live uplinks: n for spines 0 to n-1, or a list of spines.", examples=[2, [0, 2]]),
    )
    pod = Name(allow_none=True, metadata=about("Its pod, where `pods` lists any."))
    nodes = Nodes(required=True, metadata=about("Node id to slots, or to an object."))


class PodSchema(PartSchema):
    """A pod of racks."""

    model = Pod
    placeholders = {"id": NO_NAME, "uplinks": 0}  # noqa: RUF012

    id = Name(required=True)
    uplinks = Count(limits.POD_UPLINKS, required=True, metadata=about("Pod uplink c leads to core c."))


class Workers(OnePass, fields.List[Any]):
    """The node of each rank, by rank."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(Name(), **kwargs)

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if not isinstance(value, list | tuple):
            return refuse(log, at, "must be an array of node ids", value)
        if set(map(type, value)) <= {str}:
            return tuple(value)
        for rank, node in enumerate(value):
            if not isinstance(node, str):
                log.add((*at, rank), "must be a node id, a string", node)
        return tuple([node if isinstance(node, str) else NO_NAME for node in value])


class ReplicaGroupSchema(PartSchema):
    """The workers that synchronise gradients in one ring order."""

    model = ReplicaGroup
    placeholders = {"id": NO_NAME, "workers": ()}  # noqa: RUF012

    id = Name(required=True)
    workers = Workers(required=True, metadata=about("Node id of each rank, by rank.", minItems=1))
    rings = Count(limits.RINGS, metadata=about("Rings over the same workers (d_s).", ReplicaGroup, "rings"))
    slots_per_worker = Count(
        limits.SLOTS_PER_WORKER,
        metadata=about("Slots a worker occupies.", ReplicaGroup, "slots_per_worker"),
    )
    state_gb = Amount(
        limits.STATE_GB, metadata=about("10^9 bytes moved per worker.", ReplicaGroup, "state_gb")
    )
    order = Ranks(
        limits.RANK,
        allow_none=True,
        metadata=about("Each rank once, in ring order; by rank where left out.", uniqueItems=True),
    )
    order_fixed = Flag(metadata=about("Keeps order and places.", ReplicaGroup, "order_fixed"))
    pinned = Ranks(limits.RANK, metadata=about("Ranks that stay where they are.", uniqueItems=True))
    kind = Choice(
        get_args(GroupKind),
        metadata=about("Anything but `ring` is counted as a ring, unguaranteed.", ReplicaGroup, "kind"),
    )
    traffic_gb = Amount(
        limits.TRAFFIC_GB,
        allow_none=True,
        metadata=about("10^9 bytes one worker sends on one ring in an iteration, for replays."),
    )
    iteration_s = Amount(
        limits.ITERATION_S,
        allow_none=True,
        metadata=about("Seconds of an iteration without congestion, for predictions."),
    )

    @classmethod
    def make(cls, values: dict[str, Any], log: OffenceLog, at: Path) -> ReplicaGroup:
        size = len(values["workers"])
        if "pinned" in values:
            values["pinned"] = _read_pinned(values["pinned"], size, log, (*at, "pinned"))
        if not size:  # refused already: ranks cannot be told
            values["order"] = None
        return ReplicaGroup(**values)


def _read_pinned(ranks: tuple[int, ...], size: int, log: OffenceLog, at: Path) -> frozenset[int]:
    pinned: set[int] = set()
    for index, rank in enumerate(ranks):
        if rank in pinned:
            log.add((*at, index), "pins a rank twice", rank)
        elif rank < size:
            pinned.add(rank)
        elif size:
            log.add((*at, index), rank_message(size), rank)
    return frozenset(pinned)


class JobSchema(PartSchema):
    """One tenant's job: replica groups that pause together."""

    model = Job
    placeholders = {"id": NO_NAME, "replica_groups": ()}  # noqa: RUF012

    id = Name(required=True)
    replica_groups = Rows(ReplicaGroupSchema, required=True)
    mobility = Choice(
        get_args(Mobility),
        metadata=about("Workers move one by one, all restart, or none moves.", Job, "mobility"),
    )
    classes = Listing(
        Name(empty=True),
        allow_none=True,
        metadata=about("Node classes it may move to; those it is on now where left out."),
    )
    labels = Labels()
    remaining_s = Amount(
        limits.REMAINING_S,
        allow_none=True,
        metadata=about("Seconds it has still to run, without congestion, for predictions."),
    )

    @classmethod
    def make(cls, values: dict[str, Any], log: OffenceLog, at: Path) -> Job:
        if values.get("classes") is not None:
            values["classes"] = frozenset(values["classes"])
        return Job(**values)


class PendingSchema(PartSchema):
    """A job that waits for nodes."""

    model = Pending
    placeholders = {"id": NO_NAME, "workers": 1}  # noqa: RUF012

    id = Name(required=True)
    workers = Count(limits.PENDING_WORKERS, required=True, metadata=about("How many it will have."))
    slots_per_worker = Count(
        limits.SLOTS_PER_WORKER, metadata=about("Slots a worker occupies.", Pending, "slots_per_worker")
    )
    rings = Count(limits.RINGS, metadata=about("Rings over its workers (d_s).", Pending, "rings"))
    classes = Listing(
        Name(empty=True), allow_none=True, metadata=about("Node classes it may start on; any where left out.")
    )
    one_per_node = Flag(metadata=about("Each worker needs a node of its own.", Pending, "one_per_node"))
    submitted_at = Instant(
        allow_none=True, metadata=about("UTC; told only: jobs are placed in the order of the list.")
    )
    labels = Labels()

    @classmethod
    def make(cls, values: dict[str, Any], log: OffenceLog, at: Path) -> Pending:
        if values.get("classes") is not None:
            values["classes"] = frozenset(values["classes"])
        return Pending(**values)


class FabricSchema(PartSchema):
    """What all racks share."""

    model = Fabric

    nic_gbps = Amount(limits.GBPS, metadata=about("Line rate of a worker's NIC.", Fabric, "nic_gbps"))
    uplink_gbps = Amount(
        limits.GBPS, allow_none=True, metadata=about("Line rate of an uplink; `nic_gbps` where left out.")
    )
    routing = Choice(
        get_args(Routing),
        metadata=about("Isolation is claimed only for `steered`.", Fabric, "routing"),
    )
    rails = Count(limits.RAILS, metadata=about("Leaves of each rack.", Fabric, "rails"))
    hash = Part(
        FabricHashSchema,
        allow_none=True,
        metadata=about("How switches choose among uplinks; flows then get source ports."),
    )


class PlanningSchema(PartSchema):
    """Options of the decision; load it through a :class:`~monkeytree.wire.schema.Part`."""

    model = Planning

    objective = Choice(("moves", "gpu_seconds"), metadata=about("What is made least.", Planning, "objective"))
    time_limit_s = Amount(
        limits.TIME_LIMIT_S,
        metadata=about("Seconds until the best plan so far is returned.", Planning, "time_limit_s"),
    )
    solver = Name(metadata=about("`auto`, or the name of a solver.", Planning, "solver"))
    max_moves = Count(
        limits.MAX_MOVES, allow_none=True, metadata=about("Most moves of a plan; null is no limit.")
    )
    previous_plan_id = Name(allow_none=True, metadata=about("The plan whose orders and uplinks to keep."))
    pause_overhead_s = Amount(
        limits.PAUSE_S,
        metadata=about("Pause of a move beyond its time on the wire.", Planning, "pause_overhead_s"),
    )
    restart_s = Amount(limits.PAUSE_S, metadata=about("Pause of a restart.", Planning, "restart_s"))
    trigger = Choice(
        get_args(Trigger),
        metadata=about(
            "Carry plans out always, or only where worthwhile; the plan is the same.", Planning, "trigger"
        ),
    )
