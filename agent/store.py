"""The job's own store: the few keys by which the ranks of a job agree, without any controller.

:class:`JobStore` is what the agent's client needs of it; torch's TCPStore can do it (monkeytree.agent.pytorch
wraps one). :class:`StoreServer` and :class:`SocketStore` are a small one for jobs that have none. Host it
outside of the ranks (in the launcher, or ``python -m monkeytree.agent.store``), so that rank 0 can move.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from monkeytree.errors import MonkeyTreeError

_HEADER = struct.Struct("!I")
_LONGEST = 2**24
_SLACK_S = 5.0  # on top of a wait's own time, for its answer to arrive


class StoreLost(MonkeyTreeError):
    """The job's store does not answer; the job cannot go on without it, with or without agents."""

    code = "store_lost"


class JobStore(Protocol):
    """Linearisable string keys and values; a missing key reads as ""."""

    def get(self, key: str) -> str:
        """The value, "" where there is none; never waits for one."""

    def set(self, key: str, value: str) -> None:
        """Write it."""

    def compare_set(self, key: str, expected: str, desired: str) -> str:
        """Write ``desired`` if the value is ``expected`` ("": no value yet); the value afterwards."""

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all of them have a value; never waits."""

    def wait(self, keys: Sequence[str], timeout_s: float) -> bool:
        """Wait until all of them have a value; False when ``timeout_s`` is over."""

    def delete(self, key: str) -> None:
        """Forget it; stores that cannot may keep it."""


class SocketStore:
    """A client of :class:`StoreServer`; threads may share it, a waiting one holds up no other."""

    def __init__(self, address: str, timeout_s: float = 10.0) -> None:
        """``address`` is HOST:PORT. Connects when first used, once per thread."""
        host, _, port = address.rpartition(":")
        self.address = address
        self._to = (host, int(port))
        self._timeout_s = timeout_s
        self._mine = threading.local()

    def get(self, key: str) -> str:
        return str(self._call({"op": "get", "key": key}))

    def set(self, key: str, value: str) -> None:
        self._call({"op": "set", "key": key, "value": value})

    def compare_set(self, key: str, expected: str, desired: str) -> str:
        return str(self._call({"op": "cas", "key": key, "expected": expected, "value": desired}))

    def check(self, keys: Sequence[str]) -> bool:
        return bool(self._call({"op": "wait", "keys": list(keys), "timeout": 0.0}))

    def wait(self, keys: Sequence[str], timeout_s: float) -> bool:
        return bool(self._call({"op": "wait", "keys": list(keys), "timeout": timeout_s}, timeout_s))

    def delete(self, key: str) -> None:
        self._call({"op": "delete", "key": key})

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._mine, "connection", None)
        if connection is not None:
            connection.close()
            self._mine.connection = None

    def _call(self, request: dict[str, Any], wait_s: float = 0.0) -> Any:
        """Send and receive.

        Raises:
            StoreLost: it does not answer. A call is not repeated: it may have been carried out.
        """
        try:
            connection = self._connection()
            connection.settimeout(self._timeout_s + wait_s + _SLACK_S)
            body = json.dumps(request).encode()
            connection.sendall(_HEADER.pack(len(body)) + body)
            (length,) = _HEADER.unpack(_read_exactly(connection, _HEADER.size))
            return json.loads(_read_exactly(connection, length))
        except (OSError, ValueError) as error:
            self.close()
            raise StoreLost(f"the job's store at {self.address} does not answer: {error}") from error

    def _connection(self) -> socket.socket:
        connection: socket.socket | None = getattr(self._mine, "connection", None)
        if connection is None:
            connection = socket.create_connection(self._to, self._timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._mine.connection = connection
        return connection


class StoreServer:
    """Holds the keys, on a thread of its own; :attr:`address` is HOST:PORT."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._values: dict[str, str] = {}
        self._waiting: list[tuple[set[str], asyncio.Future[bool]]] = []
        self._loop = asyncio.new_event_loop()
        self._socket = socket.create_server((host, port), backlog=1_024)
        bound = self._socket.getsockname()
        self.address = f"{bound[0]}:{bound[1]}"
        self._thread = threading.Thread(target=self._run, name="job-store", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop it; its keys are gone."""
        if self._loop.is_running():
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._socket))
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (length,) = _HEADER.unpack(await reader.readexactly(_HEADER.size))
                if length > _LONGEST:
                    break
                answer = await self._answer(json.loads(await reader.readexactly(length)))
                body = json.dumps(answer).encode()
                writer.write(_HEADER.pack(len(body)) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, ValueError, KeyError):
            pass  # gone, or not one of ours
        finally:
            writer.close()

    async def _answer(self, request: dict[str, Any]) -> Any:
        op, key = request["op"], request.get("key", "")
        if op == "get":
            return self._values.get(key, "")
        if op == "set":
            self._write(key, request["value"])
        elif op == "cas":
            if self._values.get(key, "") == request["expected"]:
                self._write(key, request["value"])
            return self._values.get(key, "")
        elif op == "delete":
            self._values.pop(key, None)
        elif op == "wait":
            return await self._wait(request["keys"], float(request["timeout"]))
        return None

    def _write(self, key: str, value: str) -> None:
        self._values[key] = value
        for missing, future in self._waiting:
            missing.discard(key)
            if not missing and not future.done():
                future.set_result(True)

    async def _wait(self, keys: list[str], timeout_s: float) -> bool:
        missing = {key for key in keys if key not in self._values}
        if not missing or timeout_s <= 0:
            return not missing
        waiter = (missing, self._loop.create_future())
        self._waiting.append(waiter)
        try:
            return await asyncio.wait_for(waiter[1], timeout_s)
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(waiter)


def _read_exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(length - len(parts))
        if not part:
            raise ConnectionResetError("closed by the store")
        parts += part
    return bytes(parts)


def main(arguments: Sequence[str]) -> None:
    """``python -m monkeytree.agent.store [HOST:PORT]``: serve until killed; prints the address."""
    host, _, port = (arguments[0] if arguments else "127.0.0.1:0").rpartition(":")
    server = StoreServer(host, int(port))
    sys.stdout.write(server.address + "\n")
    sys.stdout.flush()
    while True:
        time.sleep(3_600)


if __name__ == "__main__":
    main(sys.argv[1:])
