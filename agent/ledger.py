"""The moves and pauses of a node: one table each, every change on disk before anything acts on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from monkeytree.errors import InvalidDocument
from monkeytree.limits import NAME_MESSAGE, is_name
from monkeytree.wire.agent_schemas import read_document
from monkeytree.wire.agents import MoveRequest, MoveStatus, PauseRequest, PauseStatus, Phase, dump

from .journal import Journal
from .logs import logger
from .problems import Conflict, NotFound, Refused, StaleEpoch

Req = TypeVar("Req", MoveRequest, PauseRequest)
Stat = TypeVar("Stat", MoveStatus, PauseStatus)

log = logger(__name__)


class Fences:
    """Highest epoch seen by job: who comes with a lower one is a controller of the past."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._seen = journal.fences()

    def pass_through(self, job: str, epoch: int) -> None:
        """Let the call in and raise the fence.

        Raises:
            StaleEpoch: the epoch is lower than one seen.
        """
        seen = self._seen.get(job, 0)
        if epoch < seen:
            raise StaleEpoch(
                f"epoch {epoch} of job {job!r} is lower than {seen}, which was seen here: draw a new one",
                more={"seen": seen},
            )
        if epoch > seen:
            self._journal.raise_fence(job, epoch)
            self._seen[job] = epoch


@dataclass
class Entry(Generic[Req, Stat]):
    """A move or a pause: what was asked, and how it stands."""

    request: Req
    status: Stat
    made_at: float = field(default_factory=time.monotonic)


class Ledger(Generic[Req, Stat]):
    """All of one kind. Use it under :attr:`changed`, whose lock is the node's."""

    def __init__(
        self,
        kind: str,
        request_class: type[Req],
        status_class: type[Stat],
        journal: Journal,
        changed: threading.Condition,
        on_change: Callable[[str, Entry[Req, Stat]], None],
    ) -> None:
        self.kind = kind
        self.changed = changed
        self._journal = journal
        self._on_change: Callable[[str, Entry[Req, Stat]], None] = on_change
        self._entries: dict[str, Entry[Req, Stat]] = {}
        for its_id, request, status in journal.read(kind):
            try:
                read = Entry(read_document(request_class, request), read_document(status_class, status))
            except InvalidDocument as error:  # of another release: no reason not to start
                log.error("journal entry left out", kind=kind, id=its_id, why=str(error))
            else:
                self._entries[its_id] = read

    def __iter__(self) -> Iterator[tuple[str, Entry[Req, Stat]]]:
        return iter(list(self._entries.items()))

    def get(self, its_id: str) -> Entry[Req, Stat]:
        """Raises NotFound."""
        try:
            return self._entries[its_id]
        except KeyError:
            raise NotFound(f"no {self.kind} here has the id {its_id!r}: PUT it first") from None

    def known(self, its_id: str, request: Req) -> Entry[Req, Stat] | None:
        """The entry if it was made with the same body; None where there is none.

        Raises:
            Conflict: it was made with another body.
            Refused: nothing can have that id.
        """
        if not is_name(its_id):
            raise Refused(f"the id of a {self.kind} {NAME_MESSAGE}, got {its_id[:200]!r}")
        entry = self._entries.get(its_id)
        if entry is not None and entry.request != request:
            raise Conflict(f"{self.kind} {its_id!r} was made with another body: take another id")
        return entry

    def add(self, its_id: str, request: Req, status: Stat) -> Entry[Req, Stat]:
        """A new one."""
        entry = Entry(request, status)
        self._entries[its_id] = entry
        self._write(its_id, entry)
        return entry

    def supersede(self, job: str, epoch: int) -> None:
        """What an earlier epoch of the job has made and not begun is off: the fence lets nobody begin it."""
        for its_id, entry in self:
            if entry.status.state == "NEW" and entry.request.job == job and entry.request.epoch < epoch:
                self.change(its_id, state="ABORTED", error=error_of("superseded", f"epoch {epoch} has come"))

    def sweep(self) -> None:
        """What was made and not begun for long is off: its controller is gone, and it must not bar others."""
        now = time.monotonic()
        for its_id, entry in self:
            limits = entry.request.deadlines
            longest = 2 * limits.prepare_s + limits.arm_s + limits.pause_s
            if entry.status.state == "NEW" and now - entry.made_at > longest:
                error = error_of("abandoned", f"nobody went on with it for {longest:g} s")
                self.change(its_id, state="ABORTED", error=error)

    def forget(self, before: float) -> None:
        """Drop what came to its end before that Unix time."""
        for its_id, entry in self:
            if entry.status.final and entry.status.phases and entry.status.phases[-1].started_at < before:
                del self._entries[its_id]

    def change(self, its_id: str, **told: Any) -> Stat:
        """Write down how it stands now; whoever waits for it wakes. A final one stays as it is."""
        entry = self._entries[its_id]
        if entry.status.final:
            return entry.status
        known = {name: value for name, value in told.items() if getattr(entry.status, name) != value}
        if "state" in known and "phases" not in told:
            known["phases"] = _phases(entry.status.phases, known["state"])
        if known:
            entry.status = replace(entry.status, version=entry.status.version + 1, **known)
            self._write(its_id, entry)
        return entry.status

    def wait(self, its_id: str, since: int, timeout_s: float) -> Stat:
        """The status, as soon as its version is above ``since`` or it is final, at the latest in time."""

        def there() -> bool:
            status = self.get(its_id).status
            return status.final or status.version > since

        self.changed.wait_for(there, timeout_s)
        return self.get(its_id).status

    def _write(self, its_id: str, entry: Entry[Req, Stat]) -> None:
        self._journal.write(self.kind, its_id, dump(entry.request), dump(entry.status), time.time())
        self._on_change(its_id, entry)
        self.changed.notify_all()


def _phases(phases: tuple[Phase, ...], state: str) -> tuple[Phase, ...]:
    now = time.time()
    if phases:
        phases = (*phases[:-1], replace(phases[-1], seconds=round(now - phases[-1].started_at, 6)))
    return (*phases, Phase(state, now))


def error_of(code: str, message: str) -> Mapping[str, str]:
    """The ``error`` of a status."""
    return {"code": code, "message": message}
