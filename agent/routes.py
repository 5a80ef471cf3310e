"""The node's table of flows and their source ports, and the files that shims and libraries read.

``routes.json`` is the whole table; ``routes.txt`` has a line ``srcIP,dstIP=port[,port...]`` a pair, the form
that HCCL reads from ``HCCL_RDMA_QP_PORT_CONFIG_PATH`` (at most 32 ports a line);
IPv6 addresses, which that library does not know, stand as they are, without brackets.
"""

from __future__ import annotations

import json
from pathlib import Path

from monkeytree.errors import InvalidDocument, Offence
from monkeytree.wire.agent_schemas import read_document
from monkeytree.wire.agents import RouteTable, dump

from .labels import shortest
from .problems import StaleEpoch
from .published import Published
from .shim_log import Proof

_MOST_PORTS = 32


class Routes:
    """The table, on disk."""

    def __init__(self, folder: Path, published: Published | None = None) -> None:
        self._json = folder / "routes.json"
        self._text = folder / "routes.txt"
        self.table = RouteTable(0)
        if self._json.exists():
            self.table = read_document(RouteTable, self._json.read_bytes())
        self._published = published
        self._publish()

    def put(self, table: RouteTable) -> RouteTable:
        """Replace it.

        Raises:
            StaleEpoch: its epoch is lower than that of the table in place.
            InvalidDocument: a route whose ends are not two IP addresses of one family; published, it would
                make readers discard the whole table.
        """
        _check_ends(table)
        if table.epoch < self.table.epoch:
            raise StaleEpoch(
                f"epoch {table.epoch} is lower than {self.table.epoch}, that of the table in place",
                more={"seen": self.table.epoch},
            )
        if table != self.table or not self._json.exists():
            _replace(self._text, lines(table))
            _replace(self._json, json.dumps(dump(table), indent=1) + "\n")
            self.table = table
            self._publish()
        return self.table

    def proof(self, since: float) -> Proof:
        """Which pairs of addresses jobs have steered from ``since`` (Unix time) on, by the shim's logs."""
        if self._published is not None:
            return self._published.proof(since)
        pairs = dict.fromkeys((shortest(r.src_ip), shortest(r.dst_ip)) for r in self.table.routes)
        return Proof((), (), tuple(pairs))

    def _publish(self) -> None:
        if self._published is not None:
            self._published.publish(lines(self.table))


def _check_ends(table: RouteTable) -> None:
    offences = []
    for index, route in enumerate(table.routes):
        ends = {"src_ip": route.src_ip, "dst_ip": route.dst_ip}
        wrong = [name for name, address in ends.items() if not shortest(address)]
        message = "must be an IP address"
        if not wrong and (":" in shortest(route.src_ip)) != (":" in shortest(route.dst_ip)):
            wrong, message = ["dst_ip"], "must be of the family of src_ip"
        offences += [Offence(f"/routes/{index}/{name}", message, ends[name]) for name in wrong]
    if offences:
        raise InvalidDocument(offences)


def lines(table: RouteTable) -> str:
    """``srcIP,dstIP=port,port`` a line, in the order of the routes."""
    ports: dict[tuple[str, str], list[str]] = {}
    for route in table.routes:
        listed = ports.setdefault((shortest(route.src_ip), shortest(route.dst_ip)), [])
        if len(listed) < _MOST_PORTS:  # twice the same, too: the ring's number is the place in the list
            listed.append(str(route.port))
    return "".join(f"{src},{dst}={','.join(listed)}\n" for (src, dst), listed in ports.items())


def _replace(path: Path, text: str) -> None:
    """Readers see the old file or the new one, never a half."""
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.write_text(text, "utf-8")
    fresh.replace(path)
