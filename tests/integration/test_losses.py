"""Nothing is lost, nothing is done twice: workers, messages and the broker die."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import httpx

from .documents import snapshot
from .rig import Rig, eventually


def settled(api: httpx.Client, plan_id: str) -> dict[str, Any]:
    """The plan at its end."""

    def ended() -> dict[str, Any] | None:
        plan: dict[str, Any] = api.get(f"/v1/plans/{plan_id}?wait=1").json()
        return None if plan["state"] in ("queued", "solving") else plan

    found: dict[str, Any] = eventually(ended, f"plan {plan_id} is at its end")
    return found


def test_a_worker_killed_in_mid_solve_loses_nothing(fresh: Rig, tmp_path: Path) -> None:
    api, starts = fresh.client(), tmp_path / "starts"
    first = fresh.worker()
    plan_id = api.post("/v1/snapshots", json=snapshot(does=f"note:{starts},sleep:2")).json()["plan_id"]
    eventually(starts.exists, "the solve starts")
    os.killpg(first.pid, signal.SIGKILL)
    fresh.worker(wait=False)
    fresh.reaper()
    plan = settled(api, plan_id)
    assert plan["state"] == "ready"
    assert starts.read_text().count("start") == 2, "one start that died, one that ended"
    (row,) = api.get("/v1/plans").json()["items"]
    assert row["attempt"] == 2


def test_a_worker_on_another_host_is_given_up_when_its_lease_ends(fresh: Rig, tmp_path: Path) -> None:
    api, starts = fresh.client(), tmp_path / "starts"
    plan_id = api.post("/v1/snapshots", json=snapshot(does=f"note:{starts}")).json()["plan_id"]
    assert fresh.store.claim(plan_id, 1.0, 3, "far-away/pid:[1] 7 7")
    fresh.worker()
    fresh.reaper()
    assert settled(api, plan_id)["state"] == "ready"
    (row,) = api.get("/v1/plans").json()["items"]
    assert row["attempt"] == 2


def test_a_plan_that_kills_its_worker_fails_after_three_attempts(fresh: Rig, tmp_path: Path) -> None:
    api, starts = fresh.client(), tmp_path / "starts"
    fresh.worker()
    fresh.reaper()
    plan_id = api.post("/v1/snapshots", json=snapshot(does=f"note:{starts},kill")).json()["plan_id"]
    plan = settled(api, plan_id)
    assert plan["state"] == "failed"
    assert plan["failure"]["code"] == "solver_crashed"
    assert "3 times" in plan["failure"]["message"]
    assert starts.read_text().count("start") == 3
    healthy = api.post("/v1/snapshots?wait=30", json=snapshot(mark="healthy"))
    assert healthy.status_code == 201, "the worker lives on"


def test_flushall_loses_no_plan(fresh: Rig) -> None:
    api = fresh.client()
    fresh.worker()
    fresh.reaper()
    running = api.post("/v1/snapshots", json=snapshot("one", does="sleep:1.5")).json()["plan_id"]
    eventually(lambda: api.get(f"/v1/plans/{running}").json()["state"] == "solving", "it solves")
    waiting = api.post("/v1/snapshots", json=snapshot("two")).json()["plan_id"]
    fresh.valkey.client().flushall()
    assert settled(api, running)["state"] == "ready"
    assert settled(api, waiting)["state"] == "ready"


def test_with_the_broker_down_a_post_is_taken_and_planned_later(fresh: Rig) -> None:
    api = fresh.client()
    fresh.worker()
    fresh.reaper()
    fresh.valkey.kill()
    answer = api.post("/v1/snapshots", json=snapshot())
    assert answer.status_code == 202
    assert api.get("/readyz").json()["checks"]["broker"]["ok"] is False
    cancelled = api.post("/v1/snapshots", json=snapshot("other")).json()["plan_id"]
    assert api.delete(f"/v1/plans/{cancelled}").json()["state"] == "cancelled"
    fresh.valkey.start()
    assert settled(api, answer.json()["plan_id"])["state"] == "ready"
    assert api.get(f"/v1/plans/{cancelled}").json()["state"] == "cancelled"


def test_messages_that_come_again_plan_nothing_again(fresh: Rig, tmp_path: Path) -> None:
    from monkeytree.adapters.queue import SolveQueue

    api, starts = fresh.client(), tmp_path / "starts"
    fresh.worker()
    plan = api.post("/v1/snapshots?wait=30", json=snapshot(does=f"note:{starts}")).json()
    queue = SolveQueue(fresh.settings)
    for _ in range(3):
        assert queue.publish(fresh.store.plan(plan["id"]))
    assert api.post("/v1/snapshots?wait=30", json=snapshot(mark="after")).status_code == 201
    assert starts.read_text().count("start") == 1


def test_a_solve_that_overruns_its_limit_is_killed(tmp_path: Path) -> None:
    from .rig import rig

    with rig(tmp_path / "rig", solve_grace_s=0.5) as made:
        made.api()
        made.worker()
        document = snapshot(does="sleep:60", planning={"time_limit_s": 0.5})
        plan = settled(made.client(), made.client().post("/v1/snapshots", json=document).json()["plan_id"])
        assert plan["failure"]["code"] == "solve_overran"
        assert "0.5 s" in plan["failure"]["message"]
