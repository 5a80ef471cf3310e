"""The process that holds a NIXL agent: one move long, then it leaves by ``os._exit``.

It is forked, so that the arena, which is shared memory, lies at the same address. Of what it inherits it
keeps its pipe alone: a mover that dies must not seem to live by its child's copies of its connections. It
leaves by ``os._exit`` as NIXL 1.5's bundled libnl crashes at a normal exit where the system's libibverbs is
there too.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import secrets
import signal
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

MODULES = ("nixl", "nixl_cu12", "nixl_cu13")
_HELLO, _NOTE = b"h", b"n"
_NAP_S = 2e-4
_PR_SET_PDEATHSIG = 1


def make_agent(name: str) -> Any:
    """A NIXL agent over UCX, with the thread that makes progress while nobody calls."""
    for module in MODULES:
        with contextlib.suppress(ModuleNotFoundError):
            api = importlib.import_module(f"{module}._api")
            return api.nixl_agent(name, api.nixl_agent_config(enable_prog_thread=True, backends=["UCX"]))
    raise ModuleNotFoundError(f"none of {', '.join(MODULES)} is installed")


def run(pipe: Connection, parent: int, agent: Callable[[str], Any]) -> None:
    """Answer commands until the pipe ends; never returns."""
    try:
        _leave_everything_but(pipe)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            _serve(pipe, End(agent))
    finally:
        os._exit(0)


def _leave_everything_but(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the mover decides
    os.closerange(3, pipe.fileno())
    os.closerange(pipe.fileno() + 1, os.sysconf("SC_OPEN_MAX"))


def _serve(pipe: Connection, end: End) -> None:
    while True:
        try:
            command, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = ("done", getattr(end, command)(*arguments))
        except Exception as error:  # noqa: BLE001  # whatever NIXL raises goes to the mover in words
            answer = (type(error).__name__, f"{command}: {error}")
        pipe.send(answer)


class End:
    """One end of a transfer over a NIXL agent; each method is a command of the parent's."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        self._make = make
        self._handles: dict[int, Any] = {}
        self._notes: deque[bytes] = deque()
        self._greeted = False
        self._writes = 0
        self._remote = ""

    def register(self, address: int, nbytes: int) -> tuple[str, bytes]:
        """Pin the arena; the agent's name and metadata."""
        self._address = address
        name = f"monkeytree-{secrets.token_hex(8)}"
        self._agent = self._make(name)
        self._regions = self._agent.register_memory([(address, nbytes, 0, "")], "DRAM")
        return name, bytes(self._agent.get_agent_metadata())

    def connect(self, name: str, metadata: bytes, address: int, greet: bool) -> None:
        """Load the peer's metadata and, with ``greet``, greet it."""
        remote = self._agent.add_remote_agent(metadata)
        self._remote = remote.decode() if isinstance(remote, bytes) else remote
        if self._remote != name:
            raise ValueError(f"the metadata are those of {self._remote!r}, not of {name!r}")
        self._remote_address = address
        if greet:
            self._agent.send_notif(self._remote, _HELLO)

    def greeted(self, limit_s: float) -> bool:
        """Whether the peer's greeting is here."""
        return self._until(lambda: self._take_notes() or self._greeted, limit_s)

    def write(self, local_offset: int, remote_offset: int, length: int) -> int:
        """Start a WRITE; its number."""
        here = self._agent.get_xfer_descs([(self._address + local_offset, length, 0)], "DRAM")
        there = self._agent.get_xfer_descs([(self._remote_address + remote_offset, length, 0)], "DRAM")
        handle = self._agent.initialize_xfer("WRITE", here, there, self._remote, b"")
        self._writes += 1
        self._handles[self._writes] = handle
        self._settle(self._writes, self._agent.transfer(handle))
        return self._writes

    def poll(self, number: int, limit_s: float) -> bool:
        """Whether that write is done."""
        return self._until(lambda: self._written(number), limit_s)

    def notify(self, message: bytes) -> None:
        """Send a notification."""
        self._agent.send_notif(self._remote, _NOTE + message)

    def notifications(self, limit_s: float) -> list[bytes]:
        """Notifications that came, in order."""
        self._until(lambda: self._take_notes() or bool(self._notes), limit_s)
        listed = list(self._notes)
        self._notes.clear()
        return listed

    def close(self) -> None:
        """Revoke the peer's access and part from it."""
        for handle in self._handles.values():
            with contextlib.suppress(Exception):  # a transfer in the air may not be released
                self._agent.release_xfer_handle(handle)
        if self._remote:
            with contextlib.suppress(Exception):  # it may have gone before
                self._agent.remove_remote_agent(self._remote)
        self._agent.deregister_memory(self._regions)

    def _written(self, number: int) -> bool:
        handle = self._handles.get(number)
        if handle is not None:
            self._settle(number, self._agent.check_xfer_state(handle))
        return number not in self._handles

    def _settle(self, number: int, state: str) -> None:
        if state == "ERR":
            raise RuntimeError("the transfer failed")
        if state == "DONE":
            self._agent.release_xfer_handle(self._handles.pop(number))

    def _take_notes(self) -> bool:
        """Sort what came; always False, to stand before an ``or``."""
        for message in self._agent.get_new_notifs().get(self._remote, []):
            if message[:1] == _NOTE:
                self._notes.append(bytes(message[1:]))
            else:
                self._greeted = True
        return False

    def _until(self, ready: Callable[[], bool], limit_s: float) -> bool:
        ends = time.monotonic() + limit_s
        while not ready():
            if time.monotonic() >= ends:
                return False
            time.sleep(_NAP_S)
        return True
