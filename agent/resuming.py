"""Parked states whose mover has died: another one is started, and what nobody needs any more is removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from monkeytree.wire.agents import MoveRequest, MoveStatus

from .ledger import Entry, Ledger
from .logs import logger
from .mover import Config
from .mover_process import MoverLink, start_mover
from .options import Options
from .parked import age, folder_of, sizes, sweep, young
from .registry import Registry

_MOST_MOVERS = 8
"""Movers that are started for one parked state, or more while its job has patience."""
_REST_S, _LONGEST_REST_S = 0.25, 5.0
"""Before the second of them, and before any."""
_STRANDED = ("standby_failed", "parked_lost")
"""Ends of moves whose worker is gone while its state may lie there still."""

log = logger(__name__)


class Resuming:
    """The part of the node's moves that looks after parked states. Under the node's lock, as all of it."""

    def __init__(self, options: Options, ledger: Ledger[MoveRequest, MoveStatus], registry: Registry) -> None:
        self._options = options
        self.ledger = ledger
        self._registry = registry
        self._links: dict[str, MoverLink] = {}
        self.stopped = False
        """Set when the agent stops: what movers say then is for the next one."""
        self._aborted: dict[str, str] = {}
        """Aborts of parked moves, by reason: a next mover is to hear of them."""
        self._parked_in = folder_of(options.data, options.memory)
        self._resumed: dict[str, int] = {}
        self._coming: set[str] = set()

    def _config(self, move_id: str, request: MoveRequest) -> Config:
        raise NotImplementedError

    def _follow(self, move_id: str, link: MoverLink) -> None:
        raise NotImplementedError

    def _end(self, move_id: str, words: Mapping[str, Any] | None) -> None:
        raise NotImplementedError

    def _resume(self, move_id: str, entry: Entry[MoveRequest, MoveStatus]) -> bool:
        """Start another mover for a parked state; False where there is none, or no use in it."""
        if entry.request.role != "source" or not entry.request.staged or move_id in self._coming:
            return move_id in self._coming
        config = replace(self._config(move_id, entry.request), resume=True)
        record, times = config.parked_file.read(), self._resumed.get(move_id, 0)
        if record is None:
            return False
        # A node that can start nothing for a while must not cost the only copy of the state.
        if times >= _MOST_MOVERS and age(record) > entry.request.deadlines.pause_s:
            return False
        self._resumed[move_id] = times + 1
        self._coming.add(move_id)
        wait_s = min(_REST_S * times, _LONGEST_REST_S)
        threading.Thread(target=self._take_up, args=(move_id, config, wait_s), daemon=True).start()
        return True

    def _take_up(self, move_id: str, config: Config, wait_s: float) -> None:
        """Start it, tell it what the one before may not have heard, and follow it."""
        time.sleep(wait_s)
        link = MoverLink(config, None)
        with self.ledger.changed:
            if self.stopped:
                return
            try:
                link.process = start_mover(config)
            except OSError as error:
                log.warning("no mover", move=move_id, why=str(error))
        there = link.process is not None and link.connect()
        with self.ledger.changed:
            self._coming.discard(move_id)
            if there and not self.stopped:
                log.info("parked state taken up", move=move_id, times=self._resumed[move_id])
                self._links[move_id] = link
                self._tell_again(move_id, link)
        if there:
            self._follow(move_id, link)
        else:
            link.end()
            with self.ledger.changed:
                self._end(move_id, None)

    def _tell_again(self, move_id: str, link: MoverLink) -> None:
        entry = self.ledger.get(move_id)
        request = entry.request
        worker = self._registry.any(request.job, f"{request.group}/{request.rank}")
        report = worker.reports.get(request.epoch, {}) if worker is not None else {}
        if report.get("state") == "ABORTED":
            link.tell("settled", error=report.get("error"))
        elif (reason := self._aborted.get(move_id)) is not None:
            link.tell("abort", reason=reason)
        elif entry.status.descriptor is not None:
            link.tell("start", descriptor=entry.status.descriptor)

    def sweep(self) -> None:
        """Remove states in the host's memory, and records of them, that nobody needs any more.

        Needed are those of open moves; for a day also those that could not go home, and those of moves that
        the journal does not tell of, or not in words of this release: nobody has said that they are over.
        """
        folder = self._options.data / "moves"
        needed, done = set(), set()
        for move_id, entry in self.ledger:
            if entry.request.staged:
                parked = self._config(move_id, entry.request).parked_file
                if not entry.status.final:
                    needed |= {parked.file, parked.record}
                elif (entry.status.error or {}).get("code") not in _STRANDED:
                    done.add(parked.record)
        for record in young(folder.glob("*.parked"), time.time()) - done:
            needed |= {record, self._parked_in / f"{record.stem}.state"}
        sweep(self._parked_in, needed)
        for record in folder.glob("*.parked"):
            if record not in needed:
                record.unlink(missing_ok=True)

    def kept_bytes(self) -> int:
        """Memory of the host in states that no open move accounts for: they could not go home."""
        lying = sizes(self._parked_in)
        for move_id, entry in self.ledger:
            if entry.request.staged and not entry.status.final and lying:
                lying.pop(self._config(move_id, entry.request).parked_file.file, None)
        return sum(lying.values())

    def _lost(self, move_id: str, request: MoveRequest) -> str:
        """What to say of a parked state that no mover takes up any more."""
        return self._config(move_id, request).parked_file.why_lost()
