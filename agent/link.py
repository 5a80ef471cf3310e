"""A worker's connection to its node's agent: kept by a thread, made anew when the agent comes back."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .arena import Arena
from .channel import Channel, Closed, Message, connect_local
from .page import Page

log = logging.getLogger(__name__)
_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 1.0
_KEPT = 8
"""Epochs whose outcome is told again to an agent that has restarted."""


class AgentLink:
    """Registers the worker, hears of pauses and tells how they go."""

    def __init__(self, path: str, identity: Mapping[str, Any], arena: Arena, page: Page) -> None:
        """``path`` "" means there is no agent."""
        self._path = Path(path) if path else None
        self._identity = dict(identity)
        self._arena = arena
        self._page = page
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._armed: dict[int, dict[str, Any]] = {}
        self._called_off: set[int] = set()
        self._reports: dict[int, dict[str, Any]] = {}
        self._leaving = threading.Event()
        if self._path is not None:
            threading.Thread(target=self._keep, name="agent-link", daemon=True).start()

    def pause(self, epoch: int) -> dict[str, Any] | None:
        """What the agent said about it: members ``id``, ``request``, ``movers`` (move id -> socket)."""
        return self._armed.get(epoch)

    def called_off(self, epoch: int) -> bool:
        """Whether the agent asks to abort it."""
        return epoch in self._called_off

    def report(self, epoch: int, **told: Any) -> None:
        """Tell the agent how the pause goes: ``state``, and what is known by now. Never waits long."""
        with self._lock:
            report = self._reports.setdefault(epoch, {"epoch": epoch})
            figures = {**report.get("figures", {}), **told.pop("figures", {})}
            report.update(told, figures=figures)
            for old in sorted(self._reports)[:-_KEPT]:
                del self._reports[old]
            channel, copy = self._channel, dict(report)
        if channel is not None:
            with contextlib.suppress(Closed):  # it hears all when it is back
                channel.send("report", report=copy)

    def done(self, epoch: int) -> None:
        """Forget what was said about the pause, and disarm."""
        self._armed.pop(epoch, None)
        if self._page.armed == epoch:
            self._page.armed = 0

    def leave(self) -> None:
        """Say goodbye and end the thread."""
        self._leaving.set()
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            with contextlib.suppress(Closed):
                channel.send("leaving")
            channel.close()

    def _keep(self) -> None:
        delay_s = _FIRST_DELAY_S
        while not self._leaving.is_set():
            try:
                self._serve()
                delay_s = _FIRST_DELAY_S
            except (OSError, Closed) as error:
                if delay_s == _FIRST_DELAY_S and not self._leaving.is_set():  # once for each silence
                    log.warning(
                        "no agent answers at %s (%s): the worker trains on, and registers once one does",
                        self._path,
                        error,
                    )
                self._leaving.wait(delay_s)
                delay_s = min(2 * delay_s, _LONGEST_DELAY_S)

    def _serve(self) -> None:
        assert self._path is not None
        channel = connect_local(self._path)
        try:
            with self._lock:
                reports = [dict(report) for report in self._reports.values()]
            channel.send(
                "register",
                fds=(self._page.fd, self._arena.fd),
                pid=os.getpid(),
                layout=self._arena.layout().document(),
                reports=reports,
                **self._identity,
            )
            with self._lock:
                self._channel = channel
                # What was reported between the two is told again; the agent takes a report twice.
                later = [dict(report) for report in self._reports.values()]
            for report in later if later != reports else ():
                channel.send("report", report=report)
            while (message := channel.receive(None)) is not None:
                self._hear(message, channel)
        finally:
            with self._lock:
                self._channel = None
            channel.close()

    def _hear(self, message: Message, channel: Channel) -> None:
        epoch = int(message.body.get("epoch", 0))
        if message.kind == "arm" and epoch not in self._reports:
            self._armed[epoch] = message.body
            self._page.armed = epoch
            channel.send("armed", epoch=epoch)
        elif message.kind == "call_off":
            self._called_off.add(epoch)
