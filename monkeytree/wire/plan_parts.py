"""The parts of a plan document: moves, rings, flows and what comes with them.

Members that a newer release may add are passed over on reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from marshmallow import EXCLUDE, fields

from monkeytree.hash_offences import FLOW_LABEL, SOURCE_PORT
from monkeytree.limits import MAX_NAME, Real, Whole, is_text
from monkeytree.offence_log import OffenceLog, Path
from monkeytree.plan import (
    Conflict,
    Flow,
    Load,
    Move,
    Objective,
    ObjectiveName,
    PendingPlacement,
    Predicted,
    Ring,
    SharedUplink,
    SolverReport,
    Transient,
    Trial,
    Undrained,
    Unguaranteed,
    Unsteered,
)

from .fields import Amount, Choice, Count, Either, Flag, Listing, Name, OnePass, Ranks, as_int, refuse
from .parts import NO_NAME, about
from .schema import PartSchema, Rows

INDEX = Whole(0, 2**63 - 1)
SECONDS = Real(0.0, 1e15)
VALUE = Real(-1e45, 1e45)


class Text(OnePass, fields.String):
    """Any string that is not too long, and that UTF-8 can carry."""

    def __init__(self, longest: int = 4_096, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metadata = {"maxLength": longest, **self.metadata}
        self.longest = longest

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if is_text(value, self.longest):
            return value
        return refuse(log, at, f"must be a string of at most {self.longest:,} characters", value)


class Degrees(Either):
    """One number for a rack with one leaf, a list with one a rail for others; read as a tuple."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(Count(INDEX), Ranks(INDEX, metadata={"minItems": 1}), **kwargs)

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if isinstance(value, list | tuple) and value:
            return self.variants[1].read(value, log, at)  # type: ignore[attr-defined]
        number = as_int(value)
        if INDEX.holds(number):
            return (number,)
        return refuse(log, at, f"{INDEX.message}, or a list of one a rail", value)


class PlanPart(PartSchema):
    """A part of a plan; unknown members are passed over."""

    class Meta:
        unknown = EXCLUDE


class TrialSchema(PlanPart):
    model = Trial
    placeholders = {"name": NO_NAME, "seconds": 0.0, "outcome": ""}  # noqa: RUF012

    name = Name(required=True)
    seconds = Amount(SECONDS, required=True)
    outcome = Text(
        required=True,
        metadata=about("`optimal`, `feasible`, `infeasible`, `no_answer`, or why it was not usable."),
    )


class SolverReportSchema(PlanPart):
    model = SolverReport
    placeholders = {"name": NO_NAME, "version": "", "seconds": 0.0}  # noqa: RUF012

    name = Name(required=True)
    version = Text(required=True)
    seconds = Amount(SECONDS, required=True)
    tried = Rows(TrialSchema, required=True)


class ObjectiveSchema(PlanPart):
    model = Objective
    placeholders = {"name": "moves", "value": 0.0, "ties_proved": False}  # noqa: RUF012

    name = Choice(get_args(ObjectiveName), required=True)
    value = Amount(VALUE, required=True)
    ties_proved = Flag(required=True, metadata=about("Whether the tie-breaks after it are proved least."))
    lower_bound = Amount(VALUE, allow_none=True, metadata=about("For `gpu_seconds`: the proved bound."))


class UndrainedSchema(PlanPart):
    model = Undrained
    placeholders = {"job": NO_NAME, "group": NO_NAME, "rank": 0, "node": NO_NAME}  # noqa: RUF012

    job = Name(required=True)
    group = Name(required=True)
    rank = Count(INDEX, required=True)
    node = Name(required=True)


class LoadSchema(PlanPart):
    """A rack's fragmentation degree against its bound."""

    model = Load
    placeholders = {"bound": (0,), "before": (0,), "after": (0,)}  # noqa: RUF012

    bound = Degrees(required=True, metadata=about("Flows each leaf carries at full rate."))
    before = Degrees(required=True, metadata=about("f_t before the plan."))
    after = Degrees(required=True, metadata=about("f_t after the plan."))

    @classmethod
    def make(cls, values: dict[str, Any], log: OffenceLog, at: Path) -> Load:
        load = Load(**values)
        if not len(load.bound) == len(load.before) == len(load.after):
            lengths = [len(load.bound), len(load.before), len(load.after)]
            log.add(at, "bound, before and after must have one entry a rail each", lengths)
        return load


class PodLoadSchema(PlanPart):
    """A pod's fragmentation degree against its bound, all rails together."""

    model = Load
    placeholders = LoadSchema.placeholders

    bound = Count(INDEX, required=True)
    before = Count(INDEX, required=True)
    after = Count(INDEX, required=True)

    @classmethod
    def make(cls, values: dict[str, Any], log: OffenceLog, at: Path) -> Load:
        return Load(**{name: v if isinstance(v, tuple) else (v,) for name, v in values.items()})


class Loads(OnePass, fields.Dict):
    """Rack or pod id to its load."""

    def __init__(self, nested: type[PlanPart], **kwargs: Any) -> None:
        super().__init__(values=fields.Nested(nested), **kwargs)
        self.read_part = nested.read

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if not isinstance(value, Mapping):
            return refuse(log, at, "must be an object", value)
        return {str(key): self.read_part(load, log, (*at, str(key))) for key, load in value.items()}


class MoveSchema(PlanPart):
    """One rank changes node in one wave."""

    model = Move
    placeholders = {  # noqa: RUF012
        "job": NO_NAME, "group": NO_NAME, "rank": 0, "source": NO_NAME, "target": NO_NAME, "wave": 0
    }  # fmt: skip

    job = Name(required=True)
    group = Name(required=True)
    rank = Count(INDEX, required=True)
    source = Name(required=True, data_key="from")
    target = Name(required=True, data_key="to")
    wave = Count(INDEX, required=True)
    staged = Flag(required=True, metadata=about("Its slot is freed only in the same wave."))
    because = Listing(
        Text(MAX_NAME + 16),
        required=True,
        metadata=about("Rack ids, `pod:ID`, `drain:NODE` or `move:INDEX`."),
    )


class RingSchema(PlanPart):
    """The ring order of a group after the plan."""

    model = Ring
    placeholders = {"job": NO_NAME, "group": NO_NAME, "order": (), "changed": False}  # noqa: RUF012

    job = Name(required=True)
    group = Name(required=True)
    order = Ranks(INDEX, required=True, metadata=about("Ranks in ring order."))
    changed = Flag(required=True)


class FlowSchema(PlanPart):
    """One departure of one ring from a rack, and the uplink it is given."""

    model = Flow
    placeholders = {  # noqa: RUF012
        "job": NO_NAME, "group": NO_NAME, "ring": 0, "rail": 0, "from_rank": 0, "to_rank": 0,
        "from_rack": NO_NAME, "to_rack": NO_NAME, "uplink": None,
    }  # fmt: skip

    job = Name(required=True)
    group = Name(required=True)
    ring = Count(INDEX, required=True)
    rail = Count(INDEX, required=True)
    from_rank = Count(INDEX, required=True)
    to_rank = Count(INDEX, required=True)
    from_rack = Name(required=True)
    to_rack = Name(required=True)
    uplink = Count(
        INDEX, required=True, allow_none=True, metadata=about("The spine; null where none is shared.")
    )
    pod_uplink = Count(
        INDEX, allow_none=True, metadata=about("The core, where the flow leaves its pod; null where none.")
    )

    udp_source_port = Count(
        SOURCE_PORT, metadata=about("Puts the flow on its uplink, where a hash is known.")
    )
    flow_label = Count(FLOW_LABEL, metadata=about("Of the queue pair: it leads to that source port."))

    @classmethod
    def make(cls, values: dict[str, Any], log: OffenceLog, at: Path) -> Flow:
        return Flow(**values, leaves_pod="pod_uplink" in values)


class TransientSchema(PlanPart):
    """A leaf over its bound and its degree before the plan, after a wave."""

    model = Transient
    placeholders = {"rack": NO_NAME, "rail": 0, "wave": 0, "f": 0}  # noqa: RUF012

    rack = Name(required=True)
    rail = Count(INDEX, required=True)
    wave = Count(INDEX, required=True)
    f = Count(INDEX, required=True)


class SharedUplinkSchema(PlanPart):
    """An uplink with more flows than it carries at full rate: of a leaf, or of a pod."""

    model = SharedUplink
    placeholders = {"uplink": 0, "direction": "up", "flows": (), "rack": NO_NAME, "rail": 0}  # noqa: RUF012

    rack = Name()
    rail = Count(INDEX)
    pod = Name()
    uplink = Count(INDEX, required=True)
    direction = Choice(("up", "down"), required=True)
    flows = Ranks(INDEX, required=True, metadata=about("Indices into `flows`."))

    @classmethod
    def make(cls, values: dict[str, Any], log: OffenceLog, at: Path) -> SharedUplink:
        shared = SharedUplink(**values)
        if (shared.pod is None) == (shared.rack is None) or (shared.rack is None) != (shared.rail is None):
            log.add(at, "must name either rack and rail, or pod", [shared.rack, shared.rail, shared.pod])
        return shared


class AfterLoads(OnePass, fields.Dict):
    """Rack id to its fragmentation degree, one number or one a rail; read as tuples."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(values=Degrees(), **kwargs)
        self.read_degrees = Degrees().read

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if not isinstance(value, Mapping):
            return refuse(log, at, "must be an object", value)
        read = {str(key): self.read_degrees(load, log, (*at, str(key))) for key, load in value.items()}
        return {key: load for key, load in read.items() if isinstance(load, tuple)}


class PlacementSchema(PlanPart):
    """Where a pending job would best start."""

    model = PendingPlacement
    placeholders = {  # noqa: RUF012
        "job": NO_NAME, "nodes": (), "after": {}, "within_bound": False, "proved": False, "because": (),
    }  # fmt: skip

    job = Name(required=True)
    nodes = Listing(Name(), required=True, metadata=about("Node of each worker; empty where it has no room."))
    after = AfterLoads(required=True, metadata=about("f_t of the racks it touches once it runs."))
    within_bound = Flag(required=True, metadata=about("None of these racks (and pods) is over then."))
    proved = Flag(required=True, metadata=about("No other nodes add less excess, or span less."))
    because = Listing(
        Text(MAX_NAME + 16), required=True, metadata=about("Racks and `pod:ID` that are over, or `no_room`.")
    )


class ConflictSchema(PlanPart):
    """What cannot be met together, and can without any one of it."""

    model = Conflict
    placeholders = {"jobs": (), "racks": (), "pods": (), "drains": ()}  # noqa: RUF012

    jobs = Listing(Text(MAX_NAME), required=True, metadata=about("These jobs alone,"))
    racks = Listing(Text(MAX_NAME), required=True, metadata=about("with these racks within their bounds,"))
    pods = Listing(Text(MAX_NAME), required=True, metadata=about("these pods within theirs,"))
    drains = Listing(Text(MAX_NAME), required=True, metadata=about("and these nodes drained."))


class PredictedSchema(PlanPart):
    """What the plan is expected to save and to lose, in slots x seconds."""

    model = Predicted
    placeholders = {"saved_gpu_s": None, "lost_gpu_s": 0.0}  # noqa: RUF012

    saved_gpu_s = Amount(
        VALUE, required=True, allow_none=True, metadata=about("Null where the snapshot does not say enough.")
    )
    lost_gpu_s = Amount(VALUE, required=True, metadata=about("Slots x pause of the paused jobs."))


class UnguaranteedSchema(PlanPart):
    """A group whose isolation the plan does not claim."""

    model = Unguaranteed
    placeholders = {"job": NO_NAME, "group": NO_NAME, "kind": ""}  # noqa: RUF012

    job = Name(required=True)
    group = Name(required=True)
    kind = Text(MAX_NAME, required=True)


class UnsteeredSchema(PlanPart):
    """Flows that no source port puts on their uplinks."""

    model = Unsteered
    placeholders = {"reason": "", "flows": ()}  # noqa: RUF012

    reason = Text(MAX_NAME, required=True, metadata=about("See docs/steering.md."))
    flows = Ranks(INDEX, required=True, metadata=about("Indices into `flows`."))
