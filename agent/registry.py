"""The workers on this node, as they have registered over the agent's socket."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from monkeytree.errors import MonkeyTreeError
from monkeytree.wire.agent_schemas import read_document
from monkeytree.wire.agents import WorkersAnswer, WorkerStatus, dump

from .arena import Layout
from .channel import Channel, Closed, Message
from .page import Page

_BUSY = frozenset({"PAUSED", "DECIDED"})


@dataclass
class LocalWorker:
    """A registered worker.

    Attributes:
        identity: what it said about itself.
        pid: of the process at the other end of its socket.
        page: shared with it.
        arena_fd, layout: its arena.
        channel: to it; None while it is not connected.
        reports: by epoch, how its pauses went; the last one counts.
        armed: epochs it has confirmed.
    """

    identity: dict[str, Any]
    pid: int
    page: Page
    arena_fd: int
    layout: Layout
    channel: Channel | None
    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    armed: set[int] = field(default_factory=set)

    @property
    def job(self) -> str:
        return str(self.identity["job"])

    @property
    def member(self) -> str:
        """``GROUP/RANK``."""
        return f"{self.identity['group']}/{self.identity['rank']}"

    @property
    def moved(self) -> bool:
        """Whether its rank lives elsewhere now."""
        return bool(self.reports) and bool(self.reports[max(self.reports)].get("moved"))

    @property
    def alive(self) -> bool:
        """Whether its process is there; of one in another container only its connection tells."""
        if self.pid == 0:
            return self.channel is not None
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as stat:
                return stat.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
        except OSError:
            return False

    def status(self) -> WorkerStatus:
        """As ``GET /v1/workers`` lists it."""
        last = self.reports[max(self.reports)] if self.reports else {}
        return WorkerStatus(
            job=self.job,
            group=str(self.identity["group"]),
            rank=int(self.identity["rank"]),
            state="paused" if last.get("state") in _BUSY else "training",
            pid=self.pid,
            step=self.page.step,
            world_size=int(self.identity["world_size"]),
            slots=int(self.identity.get("slots", 1)),
            state_bytes=self.layout.nbytes,
            standby_command=tuple(self.identity.get("standby_command", ())),
            standby_env=dict(self.identity.get("standby_env", {})),
            epoch=max(self.reports, default=0),
        )

    def tell(self, kind: str, **body: Any) -> bool:
        """Send it something; False where it is not connected."""
        if self.channel is None:
            return False
        try:
            self.channel.send(kind, **body)
        except Closed:
            return False
        return True

    def release(self) -> None:
        """Give back what it lent us."""
        if self.channel is not None:
            self.channel.close()
        self.page.close()
        os.close(self.arena_fd)


class Registry:
    """All of them. The node's lock guards it; callbacks run under that lock."""

    def __init__(self) -> None:
        self._workers: dict[tuple[str, str, int], LocalWorker] = {}
        self.on_report: Callable[[LocalWorker, dict[str, Any]], None] = lambda worker, report: None
        self.on_gone: Callable[[LocalWorker], None] = lambda worker: None

    def register(self, message: Message, channel: Channel, pid: int) -> LocalWorker:
        """A worker has connected, for the first time or again.

        Raises:
            Closed: what it said cannot be right.
        """
        worker = _read(message, channel, pid)
        key = (worker.job, str(worker.identity["group"]), int(worker.identity["rank"]))
        old = self._workers.pop(key, None)
        if old is not None:
            if old.pid != pid:
                self.on_gone(old)
            old.release()
        self._workers[key] = worker
        for report in worker.reports.values():
            self.on_report(worker, report)
        return worker

    def hear(self, worker: LocalWorker, message: Message) -> None:
        """A registered worker says something."""
        if message.kind == "report":
            report = message.body["report"]
            worker.reports[int(report["epoch"])] = report
            self.on_report(worker, report)
        elif message.kind == "armed":
            worker.armed.add(int(message.body["epoch"]))
        elif message.kind == "leaving":
            self.drop(worker)

    def drop(self, worker: LocalWorker) -> None:
        """It is gone for good."""
        for key, known in list(self._workers.items()):
            if known is worker:
                del self._workers[key]
                self.on_gone(worker)
                worker.release()

    def sweep(self) -> None:
        """Drop those whose process has ended."""
        for worker in list(self._workers.values()):
            if not worker.alive:
                self.drop(worker)

    def find(self, job: str, group: str, rank: int) -> LocalWorker | None:
        """The worker of that rank, if it is here."""
        worker = self._workers.get((job, group, rank))
        return None if worker is None or worker.moved else worker

    def of(self, job: str) -> list[LocalWorker]:
        """The job's workers here."""
        return [worker for worker in self if worker.job == job]

    def __iter__(self) -> Iterator[LocalWorker]:
        return iter([worker for worker in self._workers.values() if not worker.moved])

    def any(self, job: str, member: str) -> LocalWorker | None:
        """As :meth:`find`, and also where the rank has left already."""
        group, _, rank = member.rpartition("/")
        return self._workers.get((job, group, int(rank)))


def _read(message: Message, channel: Channel, pid: int) -> LocalWorker:
    """The worker that a registration tells of; its descriptors are closed where it tells of none.

    Raises:
        Closed: what it says cannot be right, or could not be listed: that would hide the node's others too.
    """
    try:
        page_fd, arena_fd = message.fds
        layout = Layout.read(message.body["layout"])
        reports = {int(report["epoch"]): report for report in message.body.get("reports", ())}
        worker = LocalWorker(message.body, pid, Page(page_fd), arena_fd, layout, channel, reports)
        read_document(WorkersAnswer, dump(WorkersAnswer("-", 0, (worker.status(),))))
    except (ValueError, KeyError, TypeError, OSError, MonkeyTreeError) as error:
        for fd in message.fds:
            os.close(fd)
        raise Closed(f"a registration that cannot be right: {error!r}") from None
    return worker
