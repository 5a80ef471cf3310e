"""A store with a plan in it, agents over HTTP, and a crew that carries executions out in this process."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

import monkeytree
from monkeytree.adapters.documents import parse_utc
from monkeytree.adapters.executions_journal import LeaseLost
from monkeytree.adapters.notify import Announcer
from monkeytree.adapters.rows import PlanRow, SnapshotRow
from monkeytree.adapters.settings import Settings
from monkeytree.adapters.solving import Outcome
from monkeytree.adapters.store import Store
from monkeytree.service.desk import Desk
from monkeytree.service.execution_desk import Request, order
from monkeytree.wire.snapshot import parse_snapshot, snapshot_id
from monkeytree.workers.execute import Crew, Run, Stop
from tests.databases import own_database

from .nodes import SECRET, Nodes, nodes_of

Document = Mapping[str, Any]
_OTHER = itertools.count(1)


@dataclasses.dataclass
class Site:
    """One cluster with its service, without HTTP, and without processes."""

    settings: Settings
    store: Store
    nodes: Nodes
    document: Document

    def change(self, **changes: Any) -> None:
        """Other settings from now on."""
        self.settings = dataclasses.replace(self.settings, **changes)

    @property
    def desk(self) -> Desk:
        return Desk(self.settings, self.store)

    def beat(self, *left_out: str) -> None:
        """All agents announce themselves."""
        for rack in self.document["racks"]:
            for node in rack["nodes"]:
                if node not in left_out:
                    self.store.agents.announce(self.document["cluster"], node, self.nodes.url(node), 1, {})

    def send(self, document: Document) -> PlanRow:
        """Take a snapshot in; its queued plan."""
        text = orjson.dumps(document)
        snapshot = parse_snapshot(text)
        row = SnapshotRow(
            snapshot_id(snapshot), snapshot.cluster, parse_utc(snapshot.taken_at), snapshot.sequence,
            self.store.now(),
        )  # fmt: skip
        return self.store.submit(row, text, snapshot.planning).plan

    def plan(self, *moves: Mapping[str, Any], **members: Any) -> str:
        """The id of a ready plan of the site's snapshot with these moves, or those of the planner."""
        return self._ready(self.send(self.document), *moves, **members)

    def _ready(self, queued: PlanRow, *moves: Mapping[str, Any], **members: Any) -> str:
        claimed = self.store.claim(queued.id, 30.0, 3)
        assert claimed is not None
        if moves or "moves" in members:
            document = {"id": queued.id, "status": "optimal", "moves": list(moves), "rings": [], **members}
        else:
            made = monkeytree.make_plan(monkeytree.load_snapshot(self.document))
            document = monkeytree.dump_plan(made) | {"id": queued.id, **members}
        outcome = Outcome(orjson.dumps(document), document["status"], len(document["moves"]), "none", 0.1)
        assert self.store.finish(queued.id, claimed.attempt, outcome)
        return queued.id

    def plan_again(self, *moves: Mapping[str, Any], **members: Any) -> str:
        """Another plan of the same snapshot: a what-if with other options."""
        row = self.send(self.document)
        planning = dataclasses.replace(row.planning, time_limit_s=row.planning.time_limit_s + next(_OTHER))
        queued = self.store.ask(row.snapshot_id, planning).plan
        return self._ready(queued, *moves, **members)

    def order(self, plan_id: str, on_failure: Any = "stop", sequence: int | None = None) -> str:
        """The id of a queued execution."""
        request = Request(plan_id, sequence, on_failure)
        return str(order(self.desk, request, lambda _: None, "tests").id)

    def run_unheld(self, execution_id: str) -> Stop | None:
        """One attempt without the thread that kills this process when its lease is lost."""
        row = self.store.executions.claim(execution_id, 30.0, 3)
        assert row is not None
        return Run(self.settings, self.store, Announcer(self.settings.redis_url), row).to_the_end()

    def run(self, execution_id: str) -> str:
        """Carry it out; the state it ends in."""
        Crew(self.settings).execute(execution_id)
        state: str = self.store.executions.find(execution_id).state
        return state


def lose_lease(site: Site, execution_id: str, when: Callable[[str, str, str], bool]) -> None:
    """Run an attempt that is taken for dead in mid-call: its journal is closed to it, and it is queued again.

    ``when`` is asked with the node, the name and the id of each call; the first that it says yes to it is.
    """
    lost: list[str] = []

    def before(node: str, name: str, its_id: str) -> None:
        if when(node, name, its_id) and not lost:
            lost.append(name)
            site.store.executions.expire(execution_id, 1)
            site.store.executions.requeue_expired(9)

    site.nodes.before = before
    with pytest.raises(LeaseLost):
        site.run_unheld(execution_id)
    site.nodes.before = lambda *_: None


def racks(*names: str, nodes: int = 2, slots: int = 1, uplinks: int = 1) -> list[dict[str, Any]]:
    """Racks of equal nodes ``r1n0``..."""
    return [
        {"id": name, "uplinks": uplinks, "nodes": {f"{name}n{node}": slots for node in range(nodes)}}
        for name in names
    ]


def job(name: str, *workers: str, **more: Any) -> dict[str, Any]:
    """A job of one group."""
    return {"id": name, "replica_groups": [{"id": "0", "workers": list(workers)}], **more}


def cluster(*jobs: dict[str, Any], of: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A snapshot document."""
    return {
        "format": 1, "cluster": "east", "taken_at": "2026-11-29T18:00:00Z", "racks": of, "jobs": list(jobs),
        **more,
    }  # fmt: skip


#: A full cluster of two racks: the way out is a swap.
FULL = cluster(job("A", "r1n0", "r2n0"), job("B", "r1n1", "r2n1"), of=racks("r1", "r2"))
#: Room to move: two jobs across racks, with a free rack.
ROOMY = cluster(
    job("A", "r1n0", "r2n0"), job("B", "r1n1", "r2n1"), of=racks("r1", "r2", "r3", nodes=3), sequence=7
)


def move(
    job: str, rank: int, source: str, target: str, wave: int = 0, staged: bool = False
) -> dict[str, Any]:
    """A move of a plan document."""
    return {
        "job": job, "group": "0", "rank": rank, "from": source, "to": target, "wave": wave, "staged": staged,
        "because": [],
    }  # fmt: skip


@pytest.fixture
def site_of(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Makes sites."""
    with ExitStack() as stack:

        def make(document: Document = ROOMY, **changes: Any) -> Site:
            folder = tmp_path / f"site{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            quick: dict[str, Any] = {
                "redis_url": "redis://127.0.0.1:1", "data": str(folder), "executions": "east",
                "agent_token": SECRET, "agent_patience_s": 1.0, "lease_s": 5.0, "agent_call_s": 2.0,
                "database_url": stack.enter_context(own_database(folder)),
            }  # fmt: skip
            settings = Settings(**quick | changes)
            store = Store(settings.database_url)
            store.create()
            stack.callback(store.close)
            site = Site(settings, store, stack.enter_context(nodes_of(document)), document)
            site.beat()
            return site

        yield make
