"""Reads the documents of the agents' HTTP API into the classes of :mod:`.agents`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar, get_args

from marshmallow import EXCLUDE, fields

from monkeytree import limits
from monkeytree.errors import InvalidDocument, Offence
from monkeytree.hash_offences import SOURCE_PORT
from monkeytree.limits import Real, Whole
from monkeytree.offence_log import OffenceLog, Path, cut_short

from . import agents
from .fields import Amount, Choice, Count, Flag, Labels, Listing, Name, OnePass, Ranks, refuse
from .free import Fault, Figures, FreeJson
from .plan_parts import Text
from .reading import merge, read_json
from .schema import Part, PartSchema, Rows

EPOCH: Final = Whole(1, 2**63 - 1)
NUMBER: Final = Whole(0, 2**63 - 1)
BYTES: Final = Whole(0, 2**60)
LABEL: Final = Whole(0, 2**20 - 1)
WAIT_S: Final = Real(0.0, 86_400.0, open=True)
MOMENT: Final = Real(0.0, 1e12)
_LONGEST_COMMAND = 65_536
#: Bytes of what agents hand on: a transport's descriptor lists every region of memory that it registered.
MOST_FREE: Final = 2**20
#: Members of what an agent tells of itself; more is no description.
MAX_CAPABILITIES: Final = 32


class Orders(OnePass, fields.Dict):
    """Group id to its ring order."""

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if not isinstance(value, Mapping):
            return refuse(log, at, "must be an object of arrays", value)
        ranks, orders = Ranks(limits.RANK), {}
        for group, order in value.items():
            if not limits.is_name(group):
                log.add((*at, str(group)), f"its name {limits.NAME_MESSAGE}", group)
                continue
            orders[group] = ranks.read(order, log, (*at, group))
        return orders


class Argument(Text):
    """An argument of a program."""

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if isinstance(value, str) and "\0" in value:
            return refuse(log, at, "must not hold NUL, which ends an argument", value)
        return super().read(value, log, at)


class Environment(Labels):
    """Environment variables of a program."""

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        for name, text in value.items() if isinstance(value, Mapping) else ():
            if "=" in str(name):
                log.add((*at, str(name)), "its name must not hold =, which ends the name of a variable", name)
            if isinstance(text, str) and "\0" in text:
                log.add((*at, str(name)), "must not hold NUL, which ends a variable", text)
        return super().read(value, log, at)


class Request(PartSchema):
    """A request: unknown members are offences."""


class Answer(PartSchema):
    """An answer: members of a newer agent are passed over."""

    class Meta:
        unknown = EXCLUDE


class DeadlinesSchema(Request):
    model = agents.Deadlines
    prepare_s = Amount(WAIT_S)
    arm_s = Amount(WAIT_S)
    pause_s = Amount(WAIT_S)
    first_iteration_s = Amount(WAIT_S)


class MoveRequestSchema(Request):
    model = agents.MoveRequest
    placeholders = {  # noqa: RUF012
        "epoch": 0, "job": "-", "group": "-", "rank": 0, "role": "source", "source": "-", "target": "-"
    }  # fmt: skip
    epoch = Count(EPOCH, required=True)
    execution_id = Text()
    plan_id = Text()
    job = Name(required=True)
    group = Name(required=True)
    rank = Count(limits.RANK, required=True)
    role = Choice(get_args(agents.Role), required=True)
    source = Name(required=True, data_key="from")
    target = Name(required=True, data_key="to")
    slots = Count(limits.SLOTS_PER_WORKER)
    state_bytes = Count(BYTES, allow_none=True)
    transport = Choice(agents.TRANSPORTS)
    uplink_port = Count(SOURCE_PORT, allow_none=True)
    warm = Flag()
    staged = Flag()
    standby_command = Listing(Argument(_LONGEST_COMMAND))
    standby_env = Environment()
    deadlines = Part(DeadlinesSchema)


class CommandSchema(Request):
    model = agents.Command
    placeholders = {"epoch": 0}  # noqa: RUF012
    epoch = Count(EPOCH, required=True)
    descriptor = FreeJson(MOST_FREE, allow_none=True)
    reason = Text()


class SeatSchema(Request):
    model = agents.Seat
    placeholders = {"group": "-", "rank": 0, "node": "-"}  # noqa: RUF012
    group = Name(required=True)
    rank = Count(limits.RANK, required=True)
    node = Name(required=True)


class PauseMoveSchema(Request):
    model = agents.PauseMove
    placeholders = {"id": "-", "group": "-", "rank": 0, "source": "-", "target": "-"}  # noqa: RUF012
    id = Name(required=True)
    group = Name(required=True)
    rank = Count(limits.RANK, required=True)
    source = Name(required=True, data_key="from")
    target = Name(required=True, data_key="to")
    staged = Flag()


class PauseRequestSchema(Request):
    model = agents.PauseRequest
    placeholders = {"epoch": 0, "job": "-", "members": ()}  # noqa: RUF012
    epoch = Count(EPOCH, required=True)
    execution_id = Text()
    plan_id = Text()
    job = Name(required=True)
    members = Rows(SeatSchema, required=True)
    moves = Rows(PauseMoveSchema)
    orders = Orders()
    deadlines = Part(DeadlinesSchema)


class RouteSchema(Request):
    model = agents.Route
    placeholders = {"src_ip": "-", "dst_ip": "-", "port": 49_152}  # noqa: RUF012
    src_ip = Name(required=True)
    dst_ip = Name(required=True)
    port = Count(SOURCE_PORT, required=True)
    flow_label = Count(LABEL, allow_none=True)
    job = Text()
    uplink = Count(limits.SPINE, allow_none=True)


class RouteTableSchema(Request):
    model = agents.RouteTable
    placeholders = {"epoch": 0}  # noqa: RUF012
    epoch = Count(NUMBER, required=True)
    routes = Rows(RouteSchema)


class PhaseSchema(Answer):
    model = agents.Phase
    placeholders = {"name": "-", "started_at": 0.0}  # noqa: RUF012
    name = Name(required=True)
    started_at = Amount(MOMENT, required=True)
    seconds = Amount(MOMENT, allow_none=True)


class _Status(Answer):
    id = Name(required=True)
    epoch = Count(NUMBER, required=True)
    job = Name(required=True)
    state = Name(required=True)
    version = Count(NUMBER, required=True)
    error = Fault(MOST_FREE, allow_none=True)
    phases = Rows(PhaseSchema)
    figures = Figures(MOST_FREE)


class MoveStatusSchema(_Status):
    model = agents.MoveStatus
    placeholders = {  # noqa: RUF012
        "id": "-", "epoch": 0, "job": "-", "group": "-", "rank": 0, "role": "-", "state": "-", "version": 0
    }  # fmt: skip
    group = Name(required=True)
    rank = Count(limits.RANK, required=True)
    role = Name(required=True)
    source = Text(data_key="from")
    target = Text(data_key="to")
    descriptor = FreeJson(MOST_FREE, allow_none=True)
    parked = Flag()
    bytes_sent = Count(BYTES)
    wire_s = Amount(MOMENT, allow_none=True)


class PauseStatusSchema(_Status):
    model = agents.PauseStatus
    placeholders = {"id": "-", "epoch": 0, "job": "-", "state": "-", "version": 0}  # noqa: RUF012
    decision = Text(allow_none=True)
    step = Count(NUMBER, allow_none=True)
    pause_s = Amount(MOMENT, allow_none=True)


class WorkerStatusSchema(Answer):
    model = agents.WorkerStatus
    placeholders = {  # noqa: RUF012
        "job": "-", "group": "-", "rank": 0, "state": "-", "pid": 0, "step": 0, "world_size": 1
    }  # fmt: skip
    job = Name(required=True)
    group = Name(required=True)
    rank = Count(limits.RANK, required=True)
    state = Name(required=True)
    pid = Count(NUMBER, required=True)
    step = Count(NUMBER, required=True)
    world_size = Count(NUMBER, required=True)
    slots = Count(limits.SLOTS)
    state_bytes = Count(BYTES, allow_none=True)
    standby_command = Listing(Text(_LONGEST_COMMAND))
    standby_env = Labels()
    epoch = Count(NUMBER)


class WorkersAnswerSchema(Answer):
    model = agents.WorkersAnswer
    placeholders = {"node": "-", "epoch": 0, "workers": ()}  # noqa: RUF012
    node = Name(required=True)
    epoch = Count(NUMBER, required=True)
    workers = Rows(WorkerStatusSchema, required=True)


class AnnouncementSchema(Answer):
    model = agents.Announcement
    placeholders = {"node": "-", "url": "-", "epoch": 0}  # noqa: RUF012
    node = Name(required=True)
    url = Text(required=True)
    epoch = Count(EPOCH, required=True)
    capabilities = FreeJson(members=MAX_CAPABILITIES)
    cluster = Text()


SCHEMAS: Final[Mapping[type, type[PartSchema]]] = {
    schema.model: schema
    for schema in (
        MoveRequestSchema, CommandSchema, PauseRequestSchema, RouteTableSchema, MoveStatusSchema,
        PauseStatusSchema, WorkersAnswerSchema, AnnouncementSchema,
    )
}  # fmt: skip

Model = TypeVar("Model")


def read_document(model: type[Model], source: bytes | str | Mapping[str, Any]) -> Model:
    """Read JSON text, or a mapping, as ``model``, a class of :mod:`.agents`.

    Raises:
        InvalidDocument: with every offence, by JSON pointer.
    """
    text: list[Offence] = []
    document: Any = source
    if not isinstance(source, Mapping):
        document, text = read_json(source)
    log = OffenceLog()
    value = SCHEMAS[model].read(document, log, ())
    if text or log.listed:
        raise InvalidDocument(cut_short(merge(text, log.listed), log.more))
    assert isinstance(value, model)
    return value
