"""Follows a cluster: looks now and then, sooner when called, and sends a snapshot when it changed.

Looks are ``interval_s`` apart, at once after a notice (a hook touches a file), yet never closer than
``floor_s``. After a failure the distance doubles up to ``longest_s``. So slurmctld gets at most
60 / floor_s looks a minute, and 60 / interval_s without notices; what a look costs is measured in
docs/slurm.md. Every call has a time limit of its own.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from monkeytree.errors import MonkeyTreeError
from monkeytree.identity import placement_id, snapshot_id
from monkeytree.snapshot import Snapshot

from .build import Build, Reading, build_snapshot
from .memory import Memory, recall, remember
from .posting import Receipt, Service, Stale
from .site import Site, WatchSite

RECHECK_S = 600.0
"""Seconds after which the service is asked whether it still has the last snapshot."""
TICK_S = 0.25
"""Seconds between two looks at the notice file."""

Outcome = Literal["sent", "same", "slurm_failed", "service_failed"]


class Source(Protocol):
    """Something that reads a cluster."""

    def read(self) -> Reading: ...


def fingerprint(snapshot: Snapshot) -> str:
    """What must change before a snapshot is sent again: the placement, what waits, and the planning.

    Times, the sequence, labels and what only foretells (``remaining_s``) do not count.
    """
    told = hashlib.sha256(repr((snapshot.pending, snapshot.planning)).encode("utf-8", "replace"))
    return f"{placement_id(snapshot)} {told.hexdigest()[:16]}"


@dataclass
class Pace:
    """When to look next; all times are those of one clock, in seconds.

    Attributes:
        failures: looks that failed since the last good one.
    """

    site: WatchSite
    failures: int = 0
    last: float = float("-inf")

    def due(self, now: float, *, called: bool) -> bool:
        """Whether it is time; ``called``: a notice came since the last look."""
        wait = self.site.floor_s if called and not self.failures else self.delay
        return now - self.last >= wait

    @property
    def delay(self) -> float:
        """Seconds from one look to the next without a notice."""
        doubled = self.site.interval_s * 2.0 ** min(self.failures, 30)
        return min(self.site.longest_s, doubled)

    def looked(self, now: float, *, good: bool) -> None:
        """A look ended at ``now``."""
        self.last = now
        self.failures = 0 if good else self.failures + 1


class Notice:
    """A file that a hook touches (prolog, epilog, strigger); its time of change is the notice."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen = self._stamp()

    def came(self) -> bool:
        """Whether it was touched since :meth:`seen` was called last."""
        return self._stamp() != self._seen

    def seen(self) -> None:
        """What came so far is being looked at."""
        self._seen = self._stamp()

    def _stamp(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size


@dataclass
class Watcher:
    """One watch over one cluster.

    Attributes:
        memory_file: where the sequence survives a restart.
        say: told of what happens, one line each.
    """

    source: Source
    service: Service
    site: Site
    memory_file: Path
    say: Callable[[str], None]
    notice: Notice = field(default_factory=lambda: Notice(None))
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.pace = Pace(self.site.watch)
        self.memory = recall(self.memory_file)
        self._checked = float("-inf")
        self._told: tuple[str, ...] = ()

    def run(self, stopped: Callable[[float], bool]) -> None:
        """Watch until ``stopped(seconds)``, which waits so long, says so."""
        while not stopped(TICK_S):
            if self.pace.due(self.clock(), called=self.notice.came()):
                self.look()

    def look(self) -> Outcome:
        """One look: read, and send where something changed. Failures are told, never raised."""
        self.notice.seen()
        outcome = self._look()
        self.pace.looked(self.clock(), good=outcome in ("sent", "same"))
        return outcome

    def _look(self) -> Outcome:
        try:
            build = build_snapshot(self.source.read(), self.site)
        except (MonkeyTreeError, OSError) as error:
            self.say(f"cannot read the cluster, next look in {self._next():g} s: {error}")
            return "slurm_failed"
        self._tell(build)
        try:
            return self._send(build.snapshot)
        except (MonkeyTreeError, Stale) as error:
            self._checked = float("-inf")  # it may have been replaced by one that knows nothing
            words = str(error) or "the service keeps knowing a newer sequence: is there a second watch?"
            self.say(f"cannot send the snapshot, next look in {self._next():g} s: {words}")
            return "service_failed"
        except OSError as error:
            self.say(f"cannot keep {self.memory_file}: {error.strerror or error}")
            return "service_failed"

    def _next(self) -> float:
        return replace(self.pace, failures=self.pace.failures + 1).delay

    def _send(self, snapshot: Snapshot) -> Outcome:
        mark = fingerprint(snapshot)
        same = self.memory.cluster == snapshot.cluster and self.memory.sent == mark
        if same and not self._forgotten():
            return "same"
        sequence, receipt = self._submit(snapshot, self.memory.sequence + 1)
        self.memory = Memory(snapshot.cluster, sequence, mark, snapshot_id(snapshot), receipt.plan_id)
        self._checked = self.clock()
        remember(self.memory_file, self.memory)
        over = ", ".join(f"{rack} by {excess}" for rack, excess in receipt.over.items())
        self.say(f"sent snapshot {sequence}, plan {receipt.plan_id}; over their bounds: {over or 'no racks'}")
        return "sent"

    def _forgotten(self) -> bool:
        """Whether the service lost what it was sent; asked now and then, and after a failure."""
        if self.clock() - self._checked < RECHECK_S:
            return False
        known = self.service.knows(self.memory.snapshot_id)
        self._checked = self.clock()
        return not known

    def _submit(self, snapshot: Snapshot, sequence: int) -> tuple[int, Receipt]:
        """Send it; where the service knows a higher sequence, from there on."""
        try:
            return sequence, self.service.submit(replace(snapshot, sequence=sequence))
        except Stale:
            higher = max(sequence, self.service.newest_sequence(snapshot.cluster)) + 1
            return higher, self.service.submit(replace(snapshot, sequence=higher))

    def _tell(self, build: Build) -> None:
        """What was odd, once as long as it does not change."""
        news = tuple(line for line in build.warnings if line not in self._told)
        self._told = build.warnings
        for line in news[:20]:
            self.say(line)
