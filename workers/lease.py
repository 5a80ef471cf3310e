"""The worker's hold on its work: a thread prolongs it, and ends this process when it is lost."""

from __future__ import annotations

import os
import signal
import threading
from time import monotonic
from types import TracebackType
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from monkeytree.adapters.leased import Leased, Work
from monkeytree.adapters.logs import logger
from monkeytree.adapters.notify import Announcer
from monkeytree.adapters.settings import Settings

#: The process of cancelled work notices within this, also when the queue cannot tell it.
LOOK_S = 1.0


class Lease:
    """Holds ``work``, a row of ``store``, while the ``with`` block runs.

    The thread looks at the row each second and prolongs the lease each third of it. When the row is
    no longer this attempt's (cancelled, or taken over), or the work overran its fence, the process
    kills itself: that is the only way to stop a solver at once. Processes it started die with it.
    """

    def __init__(self, store: Leased[Any], announcer: Announcer, work: Work, settings: Settings) -> None:
        self._store = store
        self._announcer = announcer
        self._work = work
        self._settings = settings
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._hold, name="lease", daemon=True)
        self._log = logger(__name__).bind(id=work.id, attempt=work.attempt)

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _hold(self) -> None:
        every = self._settings.lease_s / 3
        fence = monotonic() + self._work.limit_s + self._settings.solve_grace_s
        next_extension = monotonic() + every
        while not self._over.wait(min(LOOK_S, every)):
            if monotonic() > fence:
                self._give_up()
            extend = monotonic() >= next_extension
            if not self._still_held(extend):
                self._die("lease_lost")
            if extend:
                next_extension = monotonic() + every

    def _still_held(self, extend: bool) -> bool:
        """A store that cannot be reached for the moment is no reason to stop."""
        work = self._work
        try:
            if extend:
                return self._store.extend(work.id, work.attempt, self._settings.lease_s)
            return self._store.holds(work.id, work.attempt)
        except SQLAlchemyError as error:
            self._log.warning("lease_check_failed", error=repr(error))
            return True

    def _give_up(self) -> None:
        kind = self._store.kind
        message = (
            f"{kind.doing} was not over {self._settings.solve_grace_s:g} s after its time limit of "
            f"{self._work.limit_s:g} s and was killed; {kind.cure}"
        )
        try:
            self._store.fail(self._work.id, self._work.attempt, kind.overran, message)
            self._announcer.announce(self._work.id)
        finally:
            self._die(kind.overran)

    def _die(self, why: str) -> None:
        if not self._over.is_set():
            self._log.warning(why, note="this process ends now")
            os.kill(os.getpid(), signal.SIGKILL)
