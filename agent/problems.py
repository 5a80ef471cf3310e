"""What an agent refuses, as RFC 9457 problem documents with stable codes (docs/agents.md lists them)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from monkeytree.errors import MonkeyTreeError


class Refused(MonkeyTreeError):
    """A call is refused; ``status`` is its HTTP status, ``more`` goes into the document."""

    code = "bad_request"
    status: ClassVar[int] = 400
    title: ClassVar[str] = "The request is malformed"

    def __init__(
        self, detail: str, *, retry_after_s: int | None = None, more: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s
        self.more = dict(more or {})


class Unauthenticated(Refused):
    code = "unauthenticated"
    status = 401
    title = "A valid token or signature is needed"


class Replayed(Refused):
    code = "replayed_request"
    status = 401
    title = "The signed request was sent before, or its time is off"


class NotFound(Refused):
    code = "not_found"
    status = 404
    title = "There is no such thing here"


class WrongNode(Refused):
    code = "wrong_node"
    status = 409
    title = "The request is for another node"


class Conflict(Refused):
    code = "conflict"
    status = 409
    title = "It was made with another body"


class StaleEpoch(Refused):
    code = "stale_epoch"
    status = 409
    title = "A later controller has spoken"


class UnknownWorker(Refused):
    code = "unknown_worker"
    status = 409
    title = "The worker is not on this node"


class WrongMembers(Refused):
    code = "wrong_members"
    status = 409
    title = "The job's ranks here are others"


class NotPrepared(Refused):
    code = "not_prepared"
    status = 409
    title = "It is not ready for that yet"


class NotDecided(Refused):
    code = "not_decided"
    status = 409
    title = "The job has not decided yet"


class AlreadyDecided(Refused):
    code = "already_decided"
    status = 409
    title = "The job has decided, there is nothing left to abort"


class Busy(Refused):
    code = "busy"
    status = 409
    title = "The job is in another pause"


class MovesFull(Refused):
    code = "moves_full"
    status = 429
    title = "As many moves as this node takes at once are under way"


class ArenaFull(Refused):
    code = "arena_full"
    status = 429
    title = "The memory for arriving and parked states is used up"


class TransportUnavailable(Refused):
    code = "transport_unavailable"
    status = 409
    title = "The transport cannot be used on this node"
