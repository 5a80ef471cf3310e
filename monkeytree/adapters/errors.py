"""What the store, the queue and the settings may refuse, each with a stable code."""

from __future__ import annotations

from typing import Any

from monkeytree.errors import MonkeyTreeError


class BadSetting(MonkeyTreeError):
    """A setting is missing or cannot be used; the message names the variable and its value."""

    code = "bad_setting"


class StoreVersionMismatch(MonkeyTreeError):
    """The database was made by another release."""

    code = "store_version_mismatch"


class UnknownPlan(MonkeyTreeError):
    """No plan of that id."""

    code = "unknown_plan"

    def __init__(self, plan_id: str) -> None:
        super().__init__(f"no plan has the id {plan_id!r}; GET /v1/plans lists them")


class UnknownSnapshot(MonkeyTreeError):
    """No snapshot of that id."""

    code = "unknown_snapshot"

    def __init__(self, snapshot_id: str) -> None:
        super().__init__(f"no snapshot has the id {snapshot_id!r}; GET /v1/snapshots lists them")


class StaleSnapshot(MonkeyTreeError):
    """The cluster already sent a snapshot with a higher ``sequence``."""

    code = "stale_snapshot"

    def __init__(self, cluster: str, sequence: int, newest: int) -> None:
        super().__init__(
            f"sequence {sequence} of cluster {cluster!r} is older than {newest}, the newest received; "
            "take a fresh snapshot and number it higher"
        )


class UnknownValidation(MonkeyTreeError):
    """No validation of that id."""

    code = "unknown_validation"

    def __init__(self, validation_id: str) -> None:
        super().__init__(f"no validation has the id {validation_id!r}; GET /v1/validations lists them")


class PlanNotReady(MonkeyTreeError):
    """Only a ready plan can be replayed."""

    code = "plan_not_ready"

    def __init__(self, plan_id: str, state: str) -> None:
        super().__init__(f"plan {plan_id} is {state!r}; only a ready plan has flows to replay")


class NotCancellable(MonkeyTreeError):
    """Only what is queued or being worked on can be cancelled."""

    code = "not_cancellable"

    def __init__(self, noun: str, its_id: str, state: str, doing: str) -> None:
        super().__init__(f"{noun} {its_id} is {state!r}; only a queued or {doing} {noun} can be cancelled")


class IdempotencyKeyReused(MonkeyTreeError):
    """An Idempotency-Key came back with another request."""

    code = "idempotency_key_reused"

    def __init__(self, key: str) -> None:
        super().__init__(f"Idempotency-Key {key!r} was used for another request; send a fresh key with each")


class IdempotencyInProgress(MonkeyTreeError):
    """The first request with this Idempotency-Key has not been answered yet."""

    code = "idempotency_in_progress"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the first request with Idempotency-Key {key!r} is still running; retry in a second"
        )


class UnknownRole(MonkeyTreeError):
    """A token was asked for with a role that does not exist, or with none."""

    code = "unknown_role"


class InvalidTokenName(MonkeyTreeError):
    """The name of a token, or of a cluster to bind it to, is empty, too long or not printable."""

    code = "invalid_token_name"


class TokenNameTaken(MonkeyTreeError):
    """A token of that name exists."""

    code = "token_name_taken"

    def __init__(self, name: str) -> None:
        super().__init__(f"a token named {name!r} exists; revoke it first or choose another name")


class UnknownToken(MonkeyTreeError):
    """No token has that prefix or name."""

    code = "unknown_token"

    def __init__(self, wanted: Any) -> None:
        super().__init__(f"no token has the prefix or name {wanted!r}; `monkeytree token list` shows them")
