"""What a worker's child process does whatever the kind of its work: open the store, claim, hold the lease."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from monkeytree.adapters.holder import this_holder
from monkeytree.adapters.leased import Leased, Row, Work
from monkeytree.adapters.logs import logger
from monkeytree.adapters.notify import Announcer
from monkeytree.adapters.settings import Settings
from monkeytree.adapters.store import Store

from .lease import Lease

log = logger(__name__)


class Station:
    """Where a worker's child process does work of one kind, one piece after the other."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def store(self) -> Store:
        """Opened at first use, which is in the child: connections must not cross a fork."""
        return Store(self._settings.database_url)

    @cached_property
    def announcer(self) -> Announcer:
        """Tells the API that work has got on, or is at its end."""
        return Announcer(self._settings.redis_url)

    def claim(self, rows: Leased[Row], its_id: str) -> Row | None:
        """Take the work of ``rows`` up; None when there is nothing to take."""
        settings = self._settings
        row = rows.claim(its_id, settings.lease_s, settings.max_attempts, this_holder())
        if row is None:
            log.info("nothing_to_claim")
        return row

    def lease(self, rows: Leased[Any], work: Work) -> Lease:
        """What holds the claimed work while it is done."""
        return Lease(rows, self.announcer, work, self._settings)


def internal(error: Exception, doing: str) -> tuple[str, str]:
    """Failure code and message of an error that nothing foresaw, met while ``doing``."""
    return "internal", f"unexpected {type(error).__name__} while {doing}; see the worker's log"
