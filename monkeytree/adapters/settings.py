"""Everything a site may set, read once from the environment and passed on, never global.

``docs/settings.md`` is :func:`settings_page`; a test keeps the two equal.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from monkeytree.wire.agents import TRANSPORTS

from .agents_url import read_hosts
from .errors import BadSetting
from .executions_windows import read_windows
from .masking import masked

#: Query options that redis-py understands but the Celery transport refuses (``protocol`` makes it fail).
REDIS_PY_ONLY = frozenset({"protocol", "decode_responses", "client_name", "lib_name", "lib_version"})

_LIKE = "redis://host:6379/0"
_RATE_LIMIT = "6000 per minute"


def _setting(default: Any, env: str, doc: str, *, least: float | None = None, secret: bool = False) -> Any:
    """A setting; numbers must be above 0, or at least ``least`` where that is given."""
    return field(default=default, repr=not secret, metadata={"env": env, "doc": doc, "least": least})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the API, the workers and the reaper; times are seconds unless a name says else."""

    redis_url: str = _setting(
        MISSING,
        "REDIS_URL",
        "Valkey or Redis, e.g. `redis://host:6379/0`. It carries wake-ups only: losing it loses no plan.",
    )
    data: str = _setting("monkeytree-data", "MONKEYTREE_DATA", "Folder of the SQLite database.")
    database_url: str = _setting(
        "",
        "DATABASE_URL",
        "Store of plans: `sqlite:///...` (API, workers and reaper on one host) or `postgresql://...`. "
        "Empty: `monkeytree.db` in the data folder.",
    )
    lease_s: float = _setting(
        30.0, "MONKEYTREE_LEASE_S", "A worker silent for this long has lost its plan to the next."
    )
    max_attempts: int = _setting(3, "MONKEYTREE_MAX_ATTEMPTS", "Times a plan is tried before it is `failed`.")
    requeue_after_s: float = _setting(
        8.0, "MONKEYTREE_REQUEUE_AFTER_S", "A queued plan whose message was lost is sent again after this."
    )
    solve_grace_s: float = _setting(
        60.0,
        "MONKEYTREE_SOLVE_GRACE_S",
        "A solve that is not over this long after its `planning.time_limit_s` is killed, the plan `failed`; "
        "so is a replay after its `timeout_s`.",
    )
    max_wait_s: float = _setting(
        30.0, "MONKEYTREE_MAX_WAIT_S", "Longest `?wait=`; longer ones are cut to it."
    )
    max_waiters: int = _setting(
        48,
        "MONKEYTREE_MAX_WAITERS",
        "Requests that may wait at once (keep it below the server's threads); "
        "others are answered at once with Retry-After.",
    )
    max_body_bytes: int = _setting(
        16 * 2**20, "MONKEYTREE_MAX_BODY_BYTES", "Largest request body, as sent and after gunzip."
    )
    rate_limit: str = _setting(
        _RATE_LIMIT,
        "MONKEYTREE_RATE_LIMIT",
        "Calls of /v1 by token (by address without one); empty: no limit.",
    )
    heartbeat_s: float = _setting(
        5.0, "MONKEYTREE_HEARTBEAT_S", "A worker beats this often; /readyz wants a beat in the last three."
    )
    ready_queue_age_s: float = _setting(
        60.0,
        "MONKEYTREE_READY_QUEUE_AGE_S",
        "/readyz fails when a plan has waited in the queue for longer than this.",
    )
    idempotency_s: float = _setting(
        86400.0, "MONKEYTREE_IDEMPOTENCY_S", "An Idempotency-Key is kept for this long."
    )
    worker_concurrency: int = _setting(
        1, "MONKEYTREE_WORKER_CONCURRENCY", "Plans that one worker solves at once."
    )
    planner: str = _setting(
        "monkeytree.planner:make_plan", "MONKEYTREE_PLANNER", "The planning function, `module:function`."
    )
    validation_python: str = _setting(
        "",
        "MONKEYTREE_VALIDATION_PYTHON",
        "Python interpreter with `monkeytree[validation]` (ns-3) that replays run with; "
        "empty: the one of the process itself.",
    )
    executions: str = _setting(
        "",
        "MONKEYTREE_EXECUTIONS",
        "Clusters whose plans may be carried out by agents, separated by commas; `*`: all. "
        "Empty: none, the service only recommends.",
    )
    agent_token: str = _setting(
        "",
        "MONKEYTREE_AGENT_TOKEN",
        "Secret that calls to agents are made with; the same that they are started with.",
        secret=True,
    )
    agent_hosts: str = _setting(
        "",
        "MONKEYTREE_AGENT_HOSTS",
        "Hosts that agents may announce, separated by commas: names with `*` (`*.prod.example`) and "
        "networks (`10.0.0.0/8`). Empty: any.",
    )
    agent_transport: str = _setting(
        "stream", "MONKEYTREE_AGENT_TRANSPORT", "How states travel: `stream`, `verbs` or `nixl`."
    )
    agent_gone_s: float = _setting(
        30.0, "MONKEYTREE_AGENT_GONE_S", "An agent that has not beaten for this long is taken for gone."
    )
    agent_call_s: float = _setting(
        10.0, "MONKEYTREE_AGENT_CALL_S", "Time limit of a call to an agent, waiting left out."
    )
    agent_patience_s: float = _setting(
        60.0,
        "MONKEYTREE_AGENT_PATIENCE_S",
        "An agent that does not answer, or has no room, is asked again for this long.",
    )
    move_pause_s: float = _setting(
        60.0,
        "MONKEYTREE_MOVE_PAUSE_S",
        "Longest pause of a job for one turn of transfers; after it the job goes on where it was.",
    )
    moves_per_hour: int = _setting(
        0, "MONKEYTREE_MOVES_PER_HOUR", "Most moves an hour by cluster; 0: no limit.", least=0
    )
    cool_down_s: float = _setting(
        0.0, "MONKEYTREE_COOL_DOWN_S", "A job is left alone for this long after a pause; 0: not.", least=0
    )
    execution_windows: str = _setting(
        "",
        "MONKEYTREE_EXECUTION_WINDOWS",
        "When plans may be carried out, in UTC, like `mon-fri 22:00-06:00, sat 00:00-24:00`; empty: always.",
    )
    log_level: str = _setting("info", "MONKEYTREE_LOG_LEVEL", "`debug`, `info`, `warning` or `error`.")

    def __post_init__(self) -> None:
        for setting in fields(self):
            _check_number(setting, getattr(self, setting.name))
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise BadSetting(
                f"MONKEYTREE_LOG_LEVEL must be debug, info, warning or error, got {self.log_level!r}"
            )
        if self.agent_transport not in TRANSPORTS:
            raise BadSetting(
                f"MONKEYTREE_AGENT_TRANSPORT must be {' or '.join(TRANSPORTS)}, got {self.agent_transport!r}"
            )
        if not self.agent_token.isascii() or (self.agent_token and not self.agent_token.isprintable()):
            raise BadSetting("MONKEYTREE_AGENT_TOKEN must be printable ASCII (it is not shown here)")
        if not re.fullmatch(r"[\w.]+:[\w.]+", self.planner):
            raise BadSetting(f"MONKEYTREE_PLANNER must read module:function, got {self.planner!r}")
        for env, text, read in (
            ("MONKEYTREE_EXECUTION_WINDOWS", self.execution_windows, read_windows),
            ("MONKEYTREE_AGENT_HOSTS", self.agent_hosts, read_hosts),
            ("MONKEYTREE_RATE_LIMIT", self.rate_limit, _check_rate),
        ):
            try:
                read(text)
            except ValueError as error:
                raise BadSetting(f"{env} {error}") from None
        object.__setattr__(self, "redis_url", scrub_redis_url(self.redis_url))
        object.__setattr__(self, "database_url", self.database_url or _sqlite_url(self.data))

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Read settings from ``environ``.

        Raises:
            BadSetting: a value is missing or cannot be used; the message names the variable.
        """
        if not environ.get("REDIS_URL", "").strip():
            raise BadSetting(
                "REDIS_URL is not set: give the URL of a Valkey or Redis, e.g. redis://localhost:6379/0 "
                "(`monkeytree serve` brings its own)"
            )
        values = {
            setting.name: _read(setting, environ[setting.metadata["env"]])
            for setting in fields(cls)
            if environ.get(setting.metadata["env"], "").strip() or _may_be_empty(setting, environ)
        }
        return cls(**values)

    def environ(self) -> dict[str, str]:
        """The environment that :meth:`from_env` reads these settings from."""
        return {setting.metadata["env"]: str(getattr(self, setting.name)) for setting in fields(self)}


def _check_number(setting: Field[Any], value: Any) -> None:
    if not isinstance(value, (int, float)):
        return
    least = setting.metadata["least"]
    if not math.isfinite(value) or (value <= 0 if least is None else value < least):
        bound = "above 0" if least is None else f"from {least:g}"
        raise BadSetting(f"{setting.metadata['env']} must be a number {bound}, got {value!r}")


def _check_rate(text: str) -> None:
    if not text or text == _RATE_LIMIT:
        return
    from limits import parse_many  # takes long to import

    try:
        parse_many(text)
    except ValueError:
        raise ValueError(f"must read like '100 per minute', got {text!r}") from None


def scrub_redis_url(url: str) -> str:
    """``url`` without the query options that only redis-py knows.

    Raises:
        BadSetting: it is not the URL of a Redis, or one that the clients would refuse at their first command.
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # read to have it checked
    except ValueError:
        raise BadSetting(
            f"REDIS_URL must read like {_LIKE} (a port up to 65535, an IPv6 address in brackets, / ? # and @ "
            f"of a password percent-encoded), got {masked(url)!r}"
        ) from None
    if parts.scheme not in ("redis", "rediss", "redis+socket", "unix"):
        raise BadSetting(f"REDIS_URL must start with redis://, rediss:// or unix://, got {masked(url)!r}")
    options = [pair for pair in parse_qsl(parts.query) if pair[0] not in REDIS_PY_ONLY]
    if parts.scheme in ("redis", "rediss"):
        database, known = parts.path[1:], frozenset[str]()
    else:
        known = frozenset({"db", "virtual_host"})
        database = next((value for name, value in options if name in known), "")
    if not re.fullmatch("[0-9]{0,9}", database, re.ASCII):
        raise BadSetting(f"REDIS_URL must name its database by number, like {_LIKE}, got {masked(url)!r}")
    unknown = [name for name, _ in options if name not in known and not name.startswith("ssl_")]
    if unknown:
        raise BadSetting(f"REDIS_URL takes no option {', '.join(unknown)}; leave it out of {masked(url)!r}")
    query = urlencode(options)
    return url.partition("?")[0] + (f"?{query}" if query else "")


def settings_page() -> str:
    """The table of docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Read from the environment by the API, the workers and the reaper; `monkeytree serve` sets them.",
        "This page is written by `python -m monkeytree.adapters.settings`.",
        "",
        "| variable | default | meaning |",
        "|---|---|---|",
    ]
    for setting in fields(Settings):
        default = "empty" if setting.default == "" else f"`{setting.default}`"
        if setting.name == "redis_url":
            default = "required"
        lines.append(f"| `{setting.metadata['env']}` | {default} | {setting.metadata['doc']} |")
    return "\n".join(lines) + "\n"


def _may_be_empty(setting: Field[Any], environ: Mapping[str, str]) -> bool:
    """An empty MONKEYTREE_RATE_LIMIT means no limit; any other empty variable means its default."""
    return setting.name == "rate_limit" and setting.metadata["env"] in environ


def _read(setting: Field[Any], text: str) -> Any:
    kind: type = str if setting.name == "redis_url" else type(setting.default)
    try:
        return kind(text.strip())
    except ValueError:
        noun = "a whole number" if kind is int else "a number"
        raise BadSetting(f"{setting.metadata['env']} must be {noun}, got {text!r}") from None


def _sqlite_url(data: str) -> str:
    return f"sqlite:///{Path(data).absolute() / 'monkeytree.db'}"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
