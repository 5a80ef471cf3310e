"""Every reason not to carry a plan out, each by its name."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from monkeytree.adapters import executions_errors as errors
from monkeytree.adapters.errors import PlanNotReady
from monkeytree.adapters.executions_windows import read_windows

from .conftest import ROOMY, Site, cluster, job, move, racks

Sites = Callable[..., Site]
MOVE = move("A", 1, "r2n0", "r1n2")


def test_without_the_setting_it_only_recommends(site_of: Sites) -> None:
    for changes in ({"executions": ""}, {"executions": "west, north"}):
        site = site_of(**changes)
        with pytest.raises(errors.ExecutionsDisabled, match="MONKEYTREE_EXECUTIONS"):
            site.order(site.plan(MOVE))
    site = site_of(executions="*", agent_token="")
    with pytest.raises(errors.ExecutionsDisabled, match="MONKEYTREE_AGENT_TOKEN"):
        site.order(site.plan(MOVE))
    every = site_of(executions="*")
    assert every.order(every.plan(MOVE))


def test_a_plan_must_be_ready_and_do_something(site_of: Sites) -> None:
    site = site_of()
    queued = site.send(ROOMY)
    with pytest.raises(PlanNotReady, match="'queued'"):
        site.order(queued.id)
    with pytest.raises(errors.NothingToExecute):
        site.order(site.plan(moves=[], rings=[]))


def test_what_is_not_worthwhile_is_left_where_the_snapshot_says_so(site_of: Sites) -> None:
    site = site_of({**ROOMY, "planning": {"trigger": "worthwhile"}})
    with pytest.raises(errors.NotWorthwhile):
        site.order(site.plan(MOVE, worthwhile=False))
    assert site.order(site.plan_again(MOVE, worthwhile=None))
    always = site_of()
    assert always.order(always.plan(MOVE, worthwhile=False))


@pytest.mark.parametrize(
    ("more", "refusal"),
    [
        ({"mobility": "restart"}, errors.NotExecutable),
        ({"labels": {"monkeytree.execute": "never"}}, errors.JobOptedOut),
    ],
)
def test_jobs_may_stay_out_of_it(site_of: Sites, more: dict[str, Any], refusal: type[Exception]) -> None:
    document = cluster(job("A", "r1n0", "r2n0", **more), job("B", "r1n1", "r2n1"), of=ROOMY["racks"])
    site = site_of(document)
    with pytest.raises(refusal, match="'A'"):
        site.order(site.plan(MOVE))
    other = site_of(document)
    assert other.order(other.plan(move("B", 1, "r2n1", "r1n2")))


def test_the_newest_snapshot_must_be_the_expected_one(site_of: Sites) -> None:
    site = site_of()
    plan = site.plan(MOVE)
    with pytest.raises(errors.SequenceMismatch, match=r"is 6.*has 7"):
        site.order(plan, sequence=6)
    site.send({**ROOMY, "sequence": 8})
    with pytest.raises(errors.SequenceMismatch, match=r"is 7.*has 8"):
        site.order(plan, sequence=7)
    assert site.order(plan, sequence=8), "the same placement under another number will do"


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        ({"jobs": [ROOMY["jobs"][0]]}, "group B/0"),
        ({"jobs": [job("A", "r1n0", "r2n2"), ROOMY["jobs"][1]]}, "worker A/0/1"),
        ({"jobs": [job("A", "r1n0", "r2n0", "r3n0"), ROOMY["jobs"][1]]}, "group A/0"),
        ({"racks": racks("r1", "r2", "r3", nodes=3, uplinks=2)}, "rack r1"),
        (
            {"racks": [{"id": "r1", "uplinks": 1, "nodes": {"r1n0": 1, "r1n1": 1,
                        "r1n2": {"slots": 1, "drain": True}}}, *ROOMY["racks"][1:]]},
            "node r1n2",
        ),
    ],
)  # fmt: skip
def test_a_cluster_that_has_changed_is_told_with_the_difference(
    site_of: Sites, change: dict[str, Any], subject: str
) -> None:
    site = site_of()
    plan = site.plan(MOVE)
    site.send({**ROOMY, **change, "sequence": 8})
    with pytest.raises(errors.ClusterChanged) as refused:
        site.order(plan)
    assert refused.value.errors[0]["value"]["subject"] == subject


def test_every_node_of_the_jobs_needs_an_agent_that_beats(site_of: Sites) -> None:
    site = site_of(agent_gone_s=0.2)
    plan = site.plan(MOVE)
    time.sleep(0.3)
    with pytest.raises(errors.AgentMissing) as refused:
        site.order(plan)
    assert {one["value"] for one in refused.value.errors} == {"r1n0", "r2n0", "r1n2"}
    site.change(agent_gone_s=60.0)
    site.beat()
    assert site.order(plan)


def test_what_overlaps_is_refused_and_names_who_holds_it(site_of: Sites) -> None:
    document = cluster(
        job("A", "r1n0", "r2n0"), job("B", "r1n1", "r2n1"), job("C", "r3n0", "r4n0"),
        of=racks("r1", "r2", "r3", "r4", nodes=3),
    )  # fmt: skip
    site = site_of(document)
    first = site.order(site.plan(MOVE))
    assert [(one.node, one.slots) for one in site.store.reservations({"east"})] == [("r1n2", 1)]
    for other in (MOVE, move("B", 1, "r2n1", "r3n1"), move("C", 1, "r4n0", "r1n1")):
        with pytest.raises(errors.ExecutionOverlaps, match=first):
            site.order(site.plan_again(other))
    assert site.order(site.plan_again(move("C", 1, "r4n0", "r3n1")))
    site.store.executions.cancel(first)
    assert site.order(site.plan_again(move("B", 1, "r2n1", "r1n2")))


def test_moves_per_hour(site_of: Sites) -> None:
    site = site_of(moves_per_hour=2)
    with pytest.raises(errors.MoveLimit, match="MOVES_PER_HOUR=2"):
        site.order(site.plan(MOVE, move("B", 0, "r1n1", "r2n2"), move("B", 1, "r2n1", "r3n0")))
    execution = site.order(site.plan_again(MOVE))
    assert site.run(execution) == "done"
    site.send({**ROOMY, "sequence": 8, "jobs": [job("A", "r1n0", "r1n2"), ROOMY["jobs"][1]]})
    site.document = {**ROOMY, "sequence": 9, "jobs": [job("A", "r1n0", "r1n2"), ROOMY["jobs"][1]]}
    with pytest.raises(errors.MoveLimit, match="1 of the last hour"):
        site.order(site.plan(move("B", 0, "r1n1", "r2n2"), move("B", 1, "r2n1", "r3n0")))
    assert site.order(site.plan_again(move("B", 0, "r1n1", "r2n2")))


def test_a_job_cools_down(site_of: Sites) -> None:
    site = site_of(cool_down_s=600.0)
    assert site.run(site.order(site.plan(MOVE))) == "done"
    moved = {**ROOMY, "sequence": 8, "jobs": [job("A", "r1n0", "r1n2"), ROOMY["jobs"][1]]}
    site.document = moved
    with pytest.raises(errors.JobCoolingDown, match="'A'"):
        site.order(site.plan(move("A", 1, "r1n2", "r3n0")))
    assert site.order(site.plan_again(move("B", 1, "r2n1", "r3n0")))


def test_windows(site_of: Sites) -> None:
    site = site_of()
    plan = site.plan(MOVE)
    today = datetime.now(UTC)
    other_day = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")[(today.weekday() + 3) % 7]
    site.change(execution_windows=f"{other_day} 00:00-12:00")
    with pytest.raises(errors.OutsideWindow, match="the next opens at"):
        site.order(plan)
    site.change(execution_windows="mon-sun 00:00-24:00")
    assert site.order(plan)


def test_windows_are_read_and_wrong_ones_shown() -> None:
    monday_night = 345600.0 - 3600.0  # 1970-01-04, Sunday 23:00
    windows = read_windows("sun-mon 22:00-06:00, sat 00:00-24:00")
    assert windows.open_at(monday_night)
    assert windows.open_at(monday_night + 6 * 3600)
    assert not windows.open_at(monday_night + 8 * 3600)
    assert windows.next_opening(monday_night + 8 * 3600).hour == 22
    assert read_windows(" ").open_at(0.0)
    for wrong in ("always", "mon 25:00-26:00", "mon 10:00-10:00", "moo 10:00-11:00"):
        with pytest.raises(ValueError, match=wrong):
            read_windows(wrong)


def test_settings_are_checked(site_of: Sites) -> None:
    site = site_of()
    for wrong in ({"execution_windows": "noon"}, {"agent_hosts": "10.0.0.0/99"}, {"moves_per_hour": -1}):
        with pytest.raises(Exception, match="MONKEYTREE_"):
            dataclasses.replace(site.settings, **wrong)
