"""Planning works around promised slots: the pure part, and the store's, and a real solve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

import monkeytree
from monkeytree.adapters.executions_rows import StepState
from monkeytree.adapters.reservations import Reservation, hold
from monkeytree.workers.solve import Bench

from .conftest import ROOMY, Site, cluster, job, move, racks

Sites = Callable[..., Site]
MOVE = move("A", 1, "r2n0", "r1n2")


def reservation(job: str, rank: int, node: str, slots: int = 1, state: StepState = "waiting") -> Reservation:
    return Reservation("e", "east", 0, job, "0", rank, node, slots, state)


def test_promised_slots_are_held_unless_filled_or_still_occupied() -> None:
    document = cluster(job("A", "r1n0", "r2n0"), job("B", "r1n0", "r2n1"), of=racks("r1", "r2", slots=2))
    snapshot = monkeytree.load_snapshot(document)
    filled = reservation("B", 1, "r2n1", state="done")
    free, busy = reservation("A", 0, "r1n1", 2), reservation("A", 1, "r1n0")
    held, told = hold(
        snapshot, [filled, free, busy, reservation("A", 1, "r2n1"), reservation("X", 0, "r9n9")]
    )
    assert told == {"r1n1": 2, "r2n1": 1}
    assert {node.id: node.held for node in held.node_by_id.values() if node.held} == told
    assert hold(snapshot, [filled]) == (snapshot, {})


def test_a_done_move_that_the_snapshot_does_not_show_yet_stays_held() -> None:
    snapshot = monkeytree.load_snapshot(ROOMY)
    _, told = hold(snapshot, [reservation("A", 1, "r1n2", state="done")])
    assert told == {"r1n2": 1}


def solve(site: Site, plan_id: str) -> dict[str, Any]:
    """Solve it as a worker does; its document."""
    Bench(site.settings).solve(plan_id)
    document: dict[str, Any] = orjson.loads(site.store.plan_body(plan_id) or b"null")
    return document


def test_a_solve_works_around_them_and_says_so(site_of: Sites) -> None:
    site = site_of()
    crowd = cluster(
        job("A", "r1n0", "r2n0"), job("B", "r1n1", "r2n1"), of=racks("r1", "r2", nodes=3), sequence=7
    )
    site.document = crowd
    free = solve(site, site.send(crowd).id)
    assert "reserved" not in free
    # one move to either rack's free slot heals it; the other one is promised
    (wanted,) = free["moves"]
    other = {"r1n2": "r2n2", "r2n2": "r1n2"}[wanted["to"]]
    stranger = move("B", 1, "r2n1", wanted["to"]) if wanted["to"] == "r1n2" else move("B", 0, "r1n1", "r2n2")
    site.beat()
    execution = site.order(site.plan_again(stranger))
    again = site.send(crowd)
    assert again.state == "queued", "made under other reservations, it is planned anew"
    around = solve(site, again.id)
    assert around["reserved"] == {wanted["to"]: 1}
    assert [one["to"] for one in around["moves"]] == [other]
    assert around["snapshot_id"] == free["snapshot_id"]
    assert monkeytree.check(crowd, monkeytree.load_plan(around)) == []
    assert site.send(crowd).id == again.id, "while they last it answers"
    site.store.executions.cancel(execution)
    assert site.send(crowd).id == free["id"], "afterwards the first answers again"


def test_a_plan_whose_reservations_changed_before_its_solve_answers_nobody_else(site_of: Sites) -> None:
    site = site_of()
    plan = site.plan(MOVE)
    waiting = site.store.ask(site.store.plan(plan).snapshot_id, site.store.plan(plan).planning)
    assert waiting.plan.id == plan
    later = site.send({**ROOMY, "sequence": 8, "labels": {"x": "y"}})
    execution = site.order(plan)
    assert solve(site, later.id)["reserved"] == {"r1n2": 1}
    fresh = site.send({**ROOMY, "sequence": 8, "labels": {"x": "y"}})
    assert fresh.id != later.id, "asked for without reservations, made with them: neither answers"
    site.store.executions.cancel(execution)
    assert site.send({**ROOMY, "sequence": 8, "labels": {"x": "y"}}).id not in (later.id, fresh.id)
