"""A double of a NIXL agent for one machine: names and parameters of NIXL 1.5.1, strict about their order.

Each agent lives in a forked child of the test, where all arenas lie at the same addresses, so a WRITE is a
copy. Notifications are datagrams between sockets in ``root``; every call is a line of ``root/NAME.calls``. A
file ``root/FAULT`` injects: ``hang`` (a transfer never ends), ``err`` (it fails), ``die`` (the process is
killed in mid-transfer), ``stuck`` (the call itself does not return), ``gone`` (as for a peer that left).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import time
from collections import defaultdict
from pathlib import Path
from typing import Any


class nixlRemoteDisconnectError(Exception):  # noqa: N801  # NIXL's own name
    """The peer left."""


class FakeAgent:
    """What :func:`monkeytree.agent.transports.nixl_child.make_agent` makes, without NIXL."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name = root, name
        self.regions: set[tuple[int, int]] = set()
        self.remotes: dict[str, list[tuple[int, int]]] = {}
        self.handles: dict[int, tuple[Any, ...]] = {}
        self.made = 0
        self.inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.inbox.bind(str(root / name))
        self.inbox.setblocking(False)
        self.called("nixl_agent")

    def called(self, call: str, *arguments: Any) -> None:
        with (self.root / f"{self.name}.calls").open("a") as stream:
            stream.write(json.dumps([call, *arguments]) + "\n")

    def fault(self) -> str:
        with contextlib.suppress(OSError):
            return (self.root / "FAULT").read_text()
        return ""

    def register_memory(self, reg_list: list[tuple[int, int, int, str]], mem_type: str) -> Any:
        assert mem_type == "DRAM"
        self.called("register_memory", [entry[1:] for entry in reg_list])
        self.regions |= {(address, length) for address, length, _, _ in reg_list}
        return reg_list

    def deregister_memory(self, dereg_list: Any) -> None:
        self.called("deregister_memory")
        self.regions -= {(address, length) for address, length, _, _ in dereg_list}
        (self.root / f"{self.name}.gone").touch()

    def get_agent_metadata(self) -> bytes:
        self.called("get_agent_metadata")
        return json.dumps([self.name, sorted(self.regions)]).encode()

    def add_remote_agent(self, metadata: bytes) -> bytes:
        name, regions = json.loads(metadata)
        self.remotes[name] = [tuple(region) for region in regions]
        self.called("add_remote_agent")
        return str(name).encode()

    def remove_remote_agent(self, agent: str) -> None:
        self.called("remove_remote_agent")
        del self.remotes[agent]

    def get_xfer_descs(self, descs: list[tuple[int, int, int]], mem_type: str) -> Any:
        assert mem_type == "DRAM"
        return descs

    def initialize_xfer(
        self, operation: str, local: Any, remote: Any, remote_agent: str, notif_msg: bytes
    ) -> int:
        assert operation == "WRITE"
        assert self._inside(local, self.regions), "the local range is not registered"
        assert self._inside(remote, self.remotes[remote_agent]), "the remote range is not registered"
        self.called("initialize_xfer", local[0][1])
        self.made += 1
        handle = self.made
        self.handles[handle] = (local[0], remote[0], remote_agent)
        return handle

    def transfer(self, handle: int) -> str:
        fault = self.fault()
        if fault == "stuck":
            time.sleep(60)
        if fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        return "PROC"

    def check_xfer_state(self, handle: int) -> str:
        (here, length, _), (there, _, _), remote = self.handles[handle]
        fault = self.fault()
        if fault == "gone" or (self.root / f"{remote}.gone").exists():
            raise nixlRemoteDisconnectError("NIXL_ERR_REMOTE_DISCONNECT")
        if fault in ("hang", "err"):
            return {"hang": "PROC", "err": "ERR"}[fault]
        ctypes.memmove(there, here, length)
        return "DONE"

    def release_xfer_handle(self, handle: int) -> None:
        del self.handles[handle]
        self.called("release_xfer_handle")

    def send_notif(self, remote_agent_name: str, notif_msg: bytes) -> None:
        assert remote_agent_name in self.remotes
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as outgoing:
            outgoing.sendto(
                json.dumps([self.name, notif_msg.hex()]).encode(), str(self.root / remote_agent_name)
            )

    def get_new_notifs(self) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = defaultdict(list)
        with contextlib.suppress(BlockingIOError):
            while True:
                name, message = json.loads(self.inbox.recv(65_536))
                found[name].append(bytes.fromhex(message))
        return found

    @staticmethod
    def _inside(ranges: Any, regions: Any) -> bool:
        address, length, _ = ranges[0]
        return any(first <= address and address + length <= first + size for first, size in regions)
