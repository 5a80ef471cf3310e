"""Executions in this process: the store, the crew, and agents over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import FULL, ROOMY, Site, cluster, job, lose_lease, move, racks

Sites = Callable[..., Site]
TWO_WAVES = (move("A", 1, "r2n0", "r1n2"), move("B", 0, "r1n1", "r2n2", wave=1))


def test_two_waves_are_carried_out_one_after_the_other(site_of: Sites) -> None:
    site = site_of()
    execution = site.order(site.plan(*TWO_WAVES))
    assert site.run(execution) == "done"
    where = site.nodes.where()
    assert (where["A", "0", 1], where["B", "0", 0]) == ("r1n2", "r2n2")
    steps = site.store.executions.steps(execution)
    assert [step.state for step in steps] == ["done", "done"]
    assert steps[0].epoch is not None
    assert steps[1].epoch is not None
    assert steps[0].epoch < steps[1].epoch
    assert [its_id for _, its_id in site.nodes.named("start_pause")] == [
        f"{execution}-p0", f"{execution}-p0", f"{execution}-p1", f"{execution}-p1",
    ]  # fmt: skip
    assert steps[0].phases is not None
    assert steps[0].phases["pause_s"] == 0.1
    assert site.store.reservations() == ()
    # each agent may forget its side
    assert len(site.nodes.named("commit_move")) == 4


def test_a_swap_on_a_full_cluster_goes_through_host_memory(site_of: Sites) -> None:
    site = site_of(FULL)
    execution = site.order(site.plan())
    assert site.run(execution) == "done"
    moved = [step for step in site.store.executions.steps(execution) if step.kind == "move"]
    assert len(moved) == 2
    where = site.nodes.where()
    assert all(where[step.job, step.group, step.rank or 0] == step.target for step in moved)
    assert {len(here) for here in site.nodes.memory.workers.values()} == {1}
    names = [(name, its_id) for _, name, its_id in site.nodes.memory.calls]
    first_landing = next(
        index for index, (node, name, _) in enumerate(site.nodes.memory.calls)
        if name == "put_move" and node == moved[0].target and (node, name) != (moved[0].source, name)
    )  # fmt: skip
    assert first_landing < len(names)


def test_a_job_pauses_once_for_all_its_moves_of_a_wave(site_of: Sites) -> None:
    document = cluster(job("A", "r1n0", "r1n1", "r2n0"), of=racks("r1", "r2", "r3", nodes=2))
    site = site_of(document)
    plan = site.plan(move("A", 0, "r1n0", "r3n0"), move("A", 1, "r1n1", "r3n1"))
    execution = site.order(plan)
    assert site.run(execution) == "done"
    assert {its_id for _, its_id in site.nodes.named("put_pause")} == {f"{execution}-p0"}
    # both cross the uplinks of r1 and r3: the second waits parked
    staged = [request.staged for (_, _), (request, _) in site.nodes.memory.moves.items()]
    assert sorted(staged) == [False, False, True, True]


def test_rings_are_reordered_by_a_pause_alone(site_of: Sites) -> None:
    document = cluster(job("A", "r1n0", "r2n0", "r1n1", "r2n1"), of=racks("r1", "r2"))
    site = site_of(document)
    plan = site.plan(
        moves=[], rings=[{"job": "A", "group": "0", "order": [0, 2, 1, 3], "changed": True}], moves_needed=0
    )
    execution = site.order(plan)
    assert site.run(execution) == "done"
    (step,) = site.store.executions.steps(execution)
    assert (step.kind, step.state) == ("reorder", "done")
    request, status = site.nodes.memory.pauses["r1n0", f"{execution}-p0"]
    assert (dict(request.orders), request.moves, status.state) == ({"0": (0, 2, 1, 3)}, (), "RELEASED")
    assert len(site.nodes.named("put_pause")) == 4
    assert site.nodes.named("put_move") == []


def test_a_moved_group_takes_its_new_order_on_with_its_first_move(site_of: Sites) -> None:
    site = site_of()
    rings = [{"job": "B", "group": "0", "order": [1, 0], "changed": True}]
    execution = site.order(site.plan(*TWO_WAVES, rings=rings))
    assert site.run(execution) == "done"
    assert len(site.store.executions.steps(execution)) == 2
    assert dict(site.nodes.memory.pauses["r2n1", f"{execution}-p1"][0].orders) == {"0": (1, 0)}
    assert dict(site.nodes.memory.pauses["r1n0", f"{execution}-p0"][0].orders) == {}


def test_a_failed_move_ends_it_and_leaves_the_job_where_it_was(site_of: Sites) -> None:
    site = site_of()
    execution = site.order(site.plan(*TWO_WAVES))
    site.nodes.memory.verdicts[f"{execution}-p0"] = "abort"
    assert site.run(execution) == "failed"
    row = site.store.executions.find(execution)
    assert row.failure_code == "move_failed"
    assert [step.state for step in site.store.executions.steps(execution)] == ["failed", "skipped"]
    assert site.nodes.where()["A", "0", 1] == "r2n0"
    assert len(site.nodes.named("commit_move")) == 2, "the failed move is acknowledged too"


def test_with_continue_the_others_go_on_and_what_rests_on_it_is_skipped(site_of: Sites) -> None:
    document = cluster(
        job("A", "r1n0", "r2n0"), job("B", "r1n1", "r2n1"), job("C", "r3n0", "r3n1"),
        of=racks("r1", "r2", "r3"),
        racks=[*racks("r1", "r2", "r3"), {"id": "r4", "uplinks": 1, "nodes": {"r4n0": 1, "r4n1": 1}}],
    )  # fmt: skip
    site = site_of(document)
    plan = site.plan(
        move("A", 1, "r2n0", "r4n0"),
        move("B", 0, "r1n1", "r2n0", wave=1),
        move("C", 1, "r3n1", "r4n1", wave=1),
    )
    execution = site.order(plan, "continue")
    site.nodes.memory.verdicts[f"{execution}-p0"] = "undo"
    assert site.run(execution) == "failed"
    steps = site.store.executions.steps(execution)
    assert [step.state for step in steps] == ["failed", "skipped", "done"]
    assert "slot was not freed" in (steps[1].error or "")
    assert site.nodes.where()["C", "0", 1] == "r4n1"
    assert "2 of 3 steps" in (site.store.executions.find(execution).failure_message or "")


def test_an_agent_that_dies_before_the_pause_costs_nothing(site_of: Sites) -> None:
    site = site_of()
    execution = site.order(site.plan(*TWO_WAVES))

    def die(node: str, name: str, _: str) -> None:
        if (node, name) == ("r1n2", "prepare_move"):
            site.nodes.memory.down.add("r1n2")

    site.nodes.before = die
    assert site.run(execution) == "failed"
    row = site.store.executions.find(execution)
    assert row.failure_code == "move_failed"
    assert "agent_unreachable" in (row.failure_message or "")
    assert site.nodes.named("start_pause") == []
    assert ("r2n0", f"{execution}-m0") in site.nodes.named("abort_move")


def test_a_full_agent_is_asked_again(site_of: Sites) -> None:
    site = site_of()
    site.nodes.memory.refuse("r1n2", "put_move", "moves_full", status=429, retry_after_s=0.1)
    execution = site.order(site.plan(TWO_WAVES[0]))
    assert site.run(execution) == "done"
    assert len([1 for node, _ in site.nodes.named("put_move") if node == "r1n2"]) == 2


def test_where_no_agent_can_tell_the_end_it_stops_and_says_so(site_of: Sites) -> None:
    site = site_of(move_pause_s=0.1)
    execution = site.order(site.plan(*TWO_WAVES), "continue")

    site.nodes.memory.holding = True

    def die(node: str, name: str, _: str) -> None:
        if name == "pause":
            site.nodes.memory.down.update(site.nodes.memory.workers)

    site.nodes.before = die
    assert site.run(execution) == "failed"
    assert site.store.executions.find(execution).failure_code == "outcome_unknown"
    assert [step.state for step in site.store.executions.steps(execution)] == ["failed", "skipped"]


def test_a_newer_snapshot_that_differs_stops_it_before_the_next_wave(site_of: Sites) -> None:
    site = site_of()
    execution = site.order(site.plan(*TWO_WAVES))

    def arrive(node: str, name: str, _: str) -> None:
        if name == "start_pause":
            jobs = [*ROOMY["jobs"], job("N", "r3n0", "r3n1")]
            site.send({**ROOMY, "jobs": jobs, "sequence": 8})

    site.nodes.before = arrive
    assert site.run(execution) == "failed"
    row = site.store.executions.find(execution)
    assert row.failure_code == "cluster_changed"
    assert row.difference == ({"subject": "group N/0", "expected": "not there", "found": "2 workers"},)
    assert [step.state for step in site.store.executions.steps(execution)] == ["done", "skipped"]


def test_a_newer_snapshot_that_shows_what_was_done_does_not(site_of: Sites) -> None:
    site = site_of()
    execution = site.order(site.plan(*TWO_WAVES))

    def arrive(node: str, name: str, its_id: str) -> None:
        if name == "start_pause" and its_id.endswith("p0"):
            site.send({**ROOMY, "jobs": [job("A", "r1n0", "r1n2"), ROOMY["jobs"][1]], "sequence": 8})

    site.nodes.before = arrive
    assert site.run(execution) == "done"


def test_a_worker_that_is_elsewhere_stops_it(site_of: Sites) -> None:
    site = site_of()
    execution = site.order(site.plan(*TWO_WAVES))
    workers = site.nodes.memory.workers
    workers["r3n1"].append(workers["r2n0"].pop())
    assert site.run(execution) == "failed"
    row = site.store.executions.find(execution)
    assert row.failure_code == "cluster_changed"
    assert row.difference[0]["subject"] == "worker A/0/1"
    assert site.nodes.named("put_move") == []


def test_it_is_cancelled_between_waves(site_of: Sites) -> None:
    site = site_of()
    execution = site.order(site.plan(*TWO_WAVES))

    def stop(node: str, name: str, its_id: str) -> None:
        if name == "start_pause":
            site.store.executions.cancel(execution)

    site.nodes.before = stop
    assert site.run(execution) == "cancelled"
    assert [step.state for step in site.store.executions.steps(execution)] == ["done", "skipped"]
    assert site.store.executions.find(execution).failure_code is None
    queued = site_of()
    waiting = queued.order(queued.plan(*TWO_WAVES))
    assert queued.store.executions.cancel(waiting).state == "cancelled"
    assert queued.run(waiting) == "cancelled"
    assert queued.nodes.memory.calls == []


@pytest.mark.parametrize("at", ["put_move", "start_move", "start_pause", "pause"])
def test_what_one_worker_began_the_next_goes_on_with(site_of: Sites, at: str) -> None:
    site = site_of()
    execution = site.order(site.plan(*TWO_WAVES))
    lose_lease(site, execution, lambda node, name, its_id: name == at)
    assert site.store.executions.find(execution).state == "queued"
    assert site.run(execution) == "done"
    assert site.store.executions.find(execution).attempt == 2
    where = site.nodes.where()
    assert (where["A", "0", 1], where["B", "0", 0]) == ("r1n2", "r2n2")
    assert len(site.nodes.memory.moves) == 4, "each move was made once at each side"
    assert len(site.nodes.memory.pauses) == 4


@pytest.mark.parametrize(("at", "count"), [("move", 1), ("prepare_move", 1), ("start_move", 3)])
def test_a_swap_is_taken_up_while_its_states_lie_in_host_memory(site_of: Sites, at: str, count: int) -> None:
    site = site_of(FULL)
    execution = site.order(site.plan())
    seen: list[str] = []

    def while_parked(node: str, name: str, its_id: str) -> bool:
        if name == at and any(status.parked for _, status in site.nodes.memory.moves.values()):
            seen.append(name)
        return len(seen) == count

    lose_lease(site, execution, while_parked)
    assert site.run(execution) == "done"
    moved = [step for step in site.store.executions.steps(execution) if step.kind == "move"]
    where = site.nodes.where()
    assert all(where[step.job, step.group, step.rank or 0] == step.target for step in moved)
    assert len(site.nodes.memory.moves) == 4
    assert {status.state for _, status in site.nodes.memory.moves.values()} == {"RELEASED"}


def test_deaths_count_from_the_last_step_that_ended(site_of: Sites) -> None:
    site: Any = site_of()
    execution = site.order(site.plan(*TWO_WAVES))
    rows = site.store.executions
    for attempt in (1, 2):
        row = rows.claim(execution, 5.0, 3)
        rows.expire(execution, attempt)
        rows.requeue_expired(3)
    row = rows.claim(execution, 5.0, 3)
    rows.begin_steps(row, {"A": [0]})
    rows.end_steps(row, [0], "done")
    rows.expire(execution, 3)
    assert rows.requeue_expired(3)[0], "the third death, but one since a step ended"
    for attempt in (4, 5, 6):
        rows.claim(execution, 5.0, 3)
        rows.expire(execution, attempt)
        rows.requeue_expired(3)
    assert rows.find(execution).failure_code == "execution_crashed"
