"""Jobs that change places through host memory: landings that fail, and circles that only half come about."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monkeytree.adapters.executions_documents import execution_document
from tests.agent.rig import Job, Rig, eventually

from .conftest import FULL, Site, cluster, job, lose_lease, move, racks
from .nodes import SECRET

Sites = Callable[..., Site]
SWAP = (move("A", 1, "r2n0", "r1n1", staged=True), move("B", 0, "r1n1", "r2n0", staged=True))
#: A goes to where B is, B to where C is, C to where A was.
RING = cluster(
    job("A", "r1n0", "r2n0"), job("B", "r2n1", "r1n1"), job("C", "r3n0", "r3n1"), of=racks("r1", "r2", "r3")
)
ROUND = (
    move("A", 1, "r2n0", "r1n1", staged=True),
    move("B", 1, "r1n1", "r3n1", staged=True),
    move("C", 1, "r3n1", "r2n0", staged=True),
)


class Late:
    """Lets the first job of a circle land, and the others abort after it."""

    def __init__(self, site: Site, execution: str, *, fails_again: bool = False) -> None:
        self.site, self.execution, self.fails_again = site, execution, fails_again
        self.landed: list[str] = []
        self._lock = threading.Lock()
        site.nodes.before = self

    def __call__(self, node: str, name: str, its_id: str) -> None:
        memory = self.site.nodes.memory
        if name == "put_pause" and "-r" in its_id and self.fails_again:
            memory.verdicts[its_id] = "abort"
        if name != "start_move" or "-r" in its_id:
            return
        with self._lock:
            _, status = memory.moves[node, its_id]
            if not status.parked:
                return
            self.landed.append(its_id)
            if len(self.landed) > 1:
                memory.verdicts[its_id.replace("-m", "-p")] = "abort"


def states(site: Site, execution: str) -> list[str]:
    """Of its steps."""
    return [step.state for step in site.store.executions.steps(execution)]


def full(site: Site) -> set[int]:
    """How many workers nodes hold."""
    return {len(here) for here in site.nodes.memory.workers.values()}


@pytest.mark.parametrize(("document", "moves"), [(FULL, SWAP), (RING, ROUND)], ids=["swap", "ring"])
@pytest.mark.parametrize("on_failure", ["stop", "continue"])
def test_what_aborts_after_another_has_landed_is_made_once_more(
    site_of: Sites, document: Any, moves: Any, on_failure: str
) -> None:
    site = site_of(document)
    execution = site.order(site.plan(*moves), on_failure)
    late = Late(site, execution)
    assert site.run(execution) == "done", site.store.executions.find(execution).failure_message
    assert len(late.landed) == len(moves)
    assert set(states(site, execution)) == {"done"}
    where = site.nodes.where()
    assert all(where[one["job"], "0", one["rank"]] == one["to"] for one in moves)
    assert full(site) <= {0, 1}
    again = [step for step in site.store.executions.steps(execution) if (step.phases or {}).get("again")]
    assert len(again) == len(moves) - 1


def test_where_that_fails_too_it_names_the_node(site_of: Sites) -> None:
    site = site_of(FULL)
    execution = site.order(site.plan(*SWAP), "continue")
    late = Late(site, execution, fails_again=True)
    assert site.run(execution) == "failed"
    row = site.store.executions.find(execution)
    assert row.failure_code == "oversubscribed"
    where = site.nodes.where()
    (node,) = [name for name, here in site.nodes.memory.workers.items() if len(here) == 2]
    told = execution_document(row, site.store.executions.steps(execution))
    assert told["oversubscribed"] == [node]
    assert f"node {node}" in (row.failure_message or "")
    lost = next(step for step in site.store.executions.steps(execution) if step.state == "failed")
    assert where[lost.job, "0", lost.rank or 0] == lost.source == node
    assert len(site.nodes.named("start_pause")) == 2 * 2 + 2, "it is tried again once"
    assert len(late.landed) == 2


@pytest.mark.parametrize("at", ["put_move", "start_pause", "pause"])
def test_a_second_try_is_taken_up_by_the_next_worker(site_of: Sites, at: str) -> None:
    site = site_of(FULL)
    execution = site.order(site.plan(*SWAP))
    late = Late(site, execution)

    def in_second_try(node: str, name: str, its_id: str) -> bool:
        late(node, name, its_id)
        return "-r" in its_id and name == at

    lose_lease(site, execution, in_second_try)
    assert site.run(execution) == "done"
    assert full(site) == {1}
    assert len(site.nodes.memory.moves) == 2 * 3, "each is made once at each side"


def test_a_landing_that_fails_is_tried_again_from_where_it_lies(site_of: Sites) -> None:
    site = site_of(FULL)
    execution = site.order(site.plan(*SWAP))
    memory = site.nodes.memory
    failed: list[tuple[str, str]] = []

    def fail(node: str, name: str, its_id: str) -> None:
        if name == "start_move" and its_id.endswith("-m1") and node == "r1n1":
            if memory.moves[node, its_id][1].parked and not failed:
                failed.append((node, its_id))
                memory.holding = True
        elif name == "move" and failed == [(node, its_id)]:
            failed.append(("", ""))
            request, status = memory.moves[node, its_id]
            told = {"code": "peer_lost", "message": "the destination's mover went away"}
            again = replace(status, state="PAUSED", parked=True, error=told, figures={"failed_landings": 1})
            memory.moves[node, its_id] = (request, again)
            request, status = memory.moves["r2n0", its_id]
            memory.moves["r2n0", its_id] = (request, replace(status, state="ABORTED", error=told))
            memory.holding = False

    site.nodes.before = fail
    assert site.run(execution) == "done", site.store.executions.find(execution).failure_message
    assert full(site) == {1}
    assert ("r2n0", f"{execution}-m1-l1") in site.nodes.named("put_move")
    assert len(site.nodes.named("start_pause")) == 4, "no job paused twice"


# -- with agents and workers as they are -------------------------------------------------------------------


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    folder = tmp_path / "nodes"
    folder.mkdir()
    made = Rig(folder)
    yield made
    made.close()


def real(site: Site, rig: Rig, more: dict[str, list[str]]) -> dict[str, Job]:
    """Agents of the site's nodes in this process, and its jobs as processes; ``more`` options by job."""
    for rack in site.document["racks"]:
        for node in rack["nodes"]:
            data = rig.folder / node
            data.mkdir(mode=0o700)
            (data / "token").write_text(SECRET)
            (data / "token").chmod(0o600)
            rig.agent(node)
            url = (data / "url").read_text().strip()
            site.store.agents.announce(site.document["cluster"], node, url, 2, {})
    jobs = {}
    for one in site.document["jobs"]:
        nodes = one["replica_groups"][0]["workers"]
        jobs[one["id"]] = rig.job(nodes, job=one["id"], more=more.get(one["id"], []))
    for made in jobs.values():
        made.ready()
    return jobs


def unharmed(jobs: dict[str, Job], moves: Any) -> None:
    """They end where they were to go, bit by bit as if they had never moved."""
    for one in moves:
        jobs[one["job"]].nodes[one["rank"]] = one["to"]
    for made in jobs.values():
        for rank in range(len(made.nodes)):
            assert made.worker(rank).state == "training"
        made.assert_unharmed(made.stop())


def test_a_job_that_returns_to_a_slot_that_is_taken_moves_once_more(site_of: Sites, rig: Rig) -> None:
    site = site_of(FULL, agent_patience_s=20.0, agent_call_s=10.0, lease_s=60.0)
    jobs = real(site, rig, {"B": ["--drill"]})
    jobs["B"].store.set("plain/hold", "1")
    execution = site.order(site.plan(*SWAP))
    carried = threading.Thread(target=site.run, args=(execution,))
    carried.start()

    def landed() -> bool:
        here = rig.agents["r1n1"].client.workers().workers
        return ("A", 1, "training") in [(worker.job, worker.rank, worker.state) for worker in here]

    eventually(landed, why="A has landed where B was")

    def reformed() -> bool:
        there = rig.agents["r2n0"].client.workers().workers  # a standby has no pid before it is in its group
        return ("B", 0) in [(worker.job, worker.rank) for worker in there if worker.pid]

    eventually(reformed, why="B is in its first iteration")
    (standby,) = [child for mover in rig.agents["r2n0"].movers() for child in mover.children()]
    standby.kill()
    jobs["B"].store.set("plain/hold", "")
    carried.join(200)
    row = site.store.executions.find(execution)
    assert row.state == "done", row.failure_message
    again = [step.job for step in site.store.executions.steps(execution) if (step.phases or {}).get("again")]
    assert again == ["B"]
    unharmed(jobs, SWAP)


def test_movers_of_parked_states_may_be_killed(site_of: Sites, rig: Rig) -> None:
    site = site_of(FULL, agent_patience_s=20.0, agent_call_s=10.0, lease_s=60.0)
    jobs = real(site, rig, {})
    execution = site.order(site.plan(*SWAP))
    carried = threading.Thread(target=site.run, args=(execution,))
    carried.start()
    for node, its_id in (("r2n0", f"{execution}-m0"), ("r1n1", f"{execution}-m1")):
        client = rig.agents[node].client

        def parked(client: Any = client, its_id: str = its_id) -> bool:
            made = [w for w in client.workers().workers if w.state == "parked"]
            return bool(made) and bool(client.move(its_id).parked)

        eventually(parked, why="the state is parked")
        for mover in rig.agents[node].movers():
            if "source" in _role(mover):
                mover.kill()
    carried.join(200)
    row = site.store.executions.find(execution)
    assert row.state == "done", row.failure_message
    unharmed(jobs, SWAP)


def _role(mover: Any) -> str:
    """Of a mover: sources have no child, unless the state goes home."""
    return "destination" if mover.children() else "source"
