"""Where the agent's process starts: ``monkeytree agent``."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, cast

from waitress.server import create_server

from .announce import Announcer
from .auth import Doorkeeper
from .http import MAX_BODY_BYTES, MAX_WAITERS, make_app
from .logs import configure_logs, logger
from .node import Node
from .option_checks import BadOption, check_options
from .options import Options

_THREADS = MAX_WAITERS + 8
#: The application words the refusal of what is a little too long; longer bodies are not even taken in,
#: as nobody has said yet who sends them.
_LONGEST_BODY = 2 * MAX_BODY_BYTES
#: Callers that say nothing must not keep others out.
_CONNECTIONS, _IDLE_S = 1_000, 30


class Agent:
    """A running agent: the node and its HTTP server. Several may run in one process, in tests say."""

    def __init__(self, options: Options) -> None:
        """Binds the sockets.

        Raises:
            BadOption: the address is none, or the folder is used by another agent.
            OSError: it cannot be bound, or the folder not be written.
        """
        check_options(options)
        host, _, port = options.listen.rpartition(":")
        options.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _only_one(options.data)
        self.node = Node(options)
        app = make_app(self.node, Doorkeeper(options.secret, options.node))
        made = create_server(
            app, host=host.strip("[]"), port=int(port), threads=_THREADS, ident="monkeytree-agent",
            max_request_body_size=_LONGEST_BODY, connection_limit=_CONNECTIONS, channel_timeout=_IDLE_S,
            asyncore_use_poll=True,
        )  # fmt: skip
        self._server = cast(Any, made)  # its type differs with the number of addresses
        named = f"[{options.host}]" if ":" in options.host else options.host
        self.url = f"http://{named}:{self._server.effective_port}"
        self._announcer = Announcer(self.node, self.url)

    def start(self) -> None:
        """Serve, on threads of its own."""
        self.node.start()
        threading.Thread(target=self._server.run, name="http", daemon=True).start()
        self._announcer.start()
        _replace(self.node.options.data / "url", self.url + "\n")

    def stop(self) -> None:
        """Stop serving; what is under way goes on without it."""
        self._announcer.stop()
        self._server.close()
        self.node.stop()
        os.close(self._lock)


def run(options: Options, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; ``on_ready`` hears the URL."""
    configure_logs()
    agent = Agent(options)
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, end)
    agent.start()
    logger(__name__).info("agent", node=options.node, url=agent.url, epoch=agent.node.epoch)
    on_ready(agent.url)
    ended.wait()
    agent.stop()


def read_secret(path: Path | None, data: Path) -> str:
    """The token in a file; without a file, that of the data folder, made when it is not there.

    Raises:
        BadOption: the file is empty, or others may read it.
        OSError: it cannot be read.
    """
    if path is None:
        path = data / "token"
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(handle, f"mta_{secrets.token_urlsafe(32)}\n".encode())
            os.close(handle)
    if path.stat().st_mode & 0o077:
        raise BadOption(f"others may read the token in {path}: chmod 600 {path}")
    secret = path.read_text("utf-8", "replace").strip()
    if not secret or not secret.isascii() or not secret.isprintable():
        raise BadOption(f"the token file {path} holds no token: one line of printable ASCII")
    return secret


def _only_one(data: Path) -> int:
    """Two agents in one folder would fight: the second is refused."""
    import fcntl

    handle = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise BadOption(f"another agent runs in {data}: take another --data") from None
    return handle


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(text, "utf-8")
    fresh.replace(path)


if __name__ == "__main__":
    sys.exit("start it by: monkeytree agent")
