"""What a site sets for an agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """Options of ``monkeytree agent``; see there.

    Attributes:
        node: id of the node, as in snapshots.
        data: folder of the agent: journal, sockets, logs of standbys, routes.
        listen: HOST:PORT of the HTTP API; port 0 takes a free one.
        secret: the token that callers must know.
        advertise: host that other nodes reach this one at; by default that of ``listen``.
        service: base URL of the MonkeyTree service to announce to; "" announces to none.
        cluster: id of the cluster, for a service that has several with this node; "" leaves it out.
        service_token: bearer token (role agent) for it.
        beat_s: seconds between two announcements.
        slots: of the node, told to the service.
        max_sources, max_destinations: pauses whose moves may leave, and arrive, at once.
        arena_bytes: for arriving and parked states together; 0: half of the memory.
        memory: folder in the host's memory (tmpfs) that parked states lie in.
        chunk_timeout_s: longest that nothing may happen on the wire of a move.
        public: folder that jobs may read, with the table of source ports (:mod:`.published`); None: no.
        device: of RDMA transports.
        faults: for tests.
    """

    node: str
    data: Path
    listen: str = "127.0.0.1:0"
    secret: str = ""
    advertise: str = ""
    service: str = ""
    service_token: str = ""
    cluster: str = ""
    beat_s: float = 5.0
    slots: int = 0
    max_sources: int = 1
    max_destinations: int = 1
    arena_bytes: int = 0
    memory: Path = Path("/dev/shm")
    chunk_timeout_s: float = 10.0
    device: str = ""
    faults: tuple[str, ...] = ()
    public: Path | None = None

    @property
    def host(self) -> str:
        """Address at which movers of other nodes reach this one."""
        return (self.advertise or self.listen.rpartition(":")[0]).strip("[]")
