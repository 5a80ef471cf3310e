"""From POST to plan, through real processes."""

from __future__ import annotations

import os
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from .documents import snapshot
from .rig import Rig, eventually


@pytest.fixture
def api(running: Rig) -> httpx.Client:
    return running.client()


@pytest.fixture
def cluster() -> str:
    """A cluster of the test's own."""
    return f"c-{uuid.uuid4().hex[:8]}"


def plan_in(api: httpx.Client, plan_id: str, *states: str) -> dict[str, Any]:
    """The plan once it is in one of ``states``."""

    def there() -> dict[str, Any] | None:
        plan: dict[str, Any] = api.get(f"/v1/plans/{plan_id}?wait=1").json()
        return plan if plan["state"] in states else None

    found: dict[str, Any] = eventually(there, f"plan {plan_id} is {states}")
    return found


def test_a_plan_that_is_ready_in_time_comes_with_the_answer(api: httpx.Client, cluster: str) -> None:
    answer = api.post("/v1/snapshots?wait=20", json=snapshot(cluster))
    assert answer.status_code == 201
    plan = answer.json()
    assert (plan["state"], plan["status"]) == ("ready", "compliant")
    assert answer.headers["Location"] == f"/v1/plans/{plan['id']}"
    assert plan["over"] == {"r1": 1, "r2": 1}
    read = api.get(answer.headers["Location"]).json()
    assert read == {name: value for name, value in plan.items() if name not in ("plan_id", "over")}


def test_without_wait_the_answer_is_a_receipt(api: httpx.Client, cluster: str) -> None:
    answer = api.post("/v1/snapshots", json=snapshot(cluster))
    assert answer.status_code == 202
    receipt = answer.json()
    assert set(receipt) == {"snapshot_id", "plan_id", "over"}
    assert answer.headers["Location"] == f"/v1/plans/{receipt['plan_id']}"
    plan = plan_in(api, receipt["plan_id"], "ready")
    assert plan["snapshot_id"] == receipt["snapshot_id"]


def test_the_same_snapshot_twice_gets_the_same_plan(api: httpx.Client, cluster: str) -> None:
    first = api.post("/v1/snapshots?wait=20", json=snapshot(cluster, sequence=1)).json()
    later = snapshot(cluster, sequence=2) | {"taken_at": "2026-11-30T00:00:00Z"}
    again = api.post("/v1/snapshots", json=later)
    assert again.status_code == 200
    assert again.json()["plan_id"] == first["id"]
    assert again.json()["state"] == "ready"
    assert again.headers["Location"] == f"/v1/plans/{first['id']}"
    other = api.post("/v1/snapshots", json=later | {"planning": {"time_limit_s": 3}})
    assert other.status_code == 202, "other planning is another question"


def test_a_failed_plan_is_planned_anew(api: httpx.Client, cluster: str) -> None:
    document = snapshot(cluster, does="fail:no luck")
    first = plan_in(api, api.post("/v1/snapshots", json=document).json()["plan_id"], "failed")
    assert first["failure"]["code"] == "solver_failed"
    assert "no luck" in first["failure"]["message"]
    again = api.post("/v1/snapshots", json=document)
    assert again.status_code == 202
    assert again.json()["plan_id"] != first["id"]


def test_a_bug_in_the_planner_is_internal_and_only_the_log_tells(
    running: Rig, api: httpx.Client, cluster: str
) -> None:
    document = snapshot(cluster, does="bug:the secret")
    request_id = f"bug-{cluster}"
    receipt = api.post("/v1/snapshots", json=document, headers={"X-Request-ID": request_id}).json()
    plan = plan_in(api, receipt["plan_id"], "failed")
    assert plan["failure"]["code"] == "internal"
    assert "the secret" not in str(plan)
    log = (running.folder / "worker.log").read_text()
    line = next(line for line in log.splitlines() if "solve_failed" in line and receipt["plan_id"] in line)
    assert "ZeroDivisionError" in line
    assert request_id in line, "the request's id follows the plan into the worker"


def test_a_what_if_plans_a_stored_snapshot_with_other_options(api: httpx.Client, cluster: str) -> None:
    first = api.post("/v1/snapshots?wait=20", json=snapshot(cluster)).json()
    question = {
        "snapshot_id": first["snapshot_id"],
        "planning": {"max_moves": 1, "previous_plan_id": first["id"]},
    }
    answer = api.post("/v1/plans?wait=20", json=question)
    assert answer.status_code == 201
    assert answer.json()["id"] != first["id"]
    assert answer.json()["certificate"] == {"previous": first["id"]}, "the previous plan is handed on"
    assert api.post("/v1/plans", json=question).status_code == 200
    own = api.post("/v1/plans", json={"snapshot_id": first["snapshot_id"]})
    assert own.json()["plan_id"] == first["id"], "no planning: the snapshot's own"


def test_only_the_newest_of_a_burst_is_planned_and_soon(api: httpx.Client, cluster: str) -> None:
    blocker = api.post("/v1/snapshots", json=snapshot(f"{cluster}-other", does="sleep:3")).json()
    plan_in(api, blocker["plan_id"], "solving")
    ids = []
    for sequence in range(200):
        answer = api.post("/v1/snapshots", json=snapshot(cluster, sequence=sequence, mark=str(sequence)))
        assert answer.status_code == 202, answer.text
        ids.append(answer.json()["plan_id"])
    newest = plan_in(api, ids[-1], "ready")
    assert newest["state"] == "ready"
    states = [api.get(f"/v1/plans/{plan_id}").json()["state"] for plan_id in ids]
    assert set(states[:-1]) <= {"superseded", "ready"}
    assert states.count("superseded") > 100
    stale = api.post("/v1/snapshots", json=snapshot(cluster, sequence=7, mark="late"))
    assert (stale.status_code, stale.json()["code"]) == (409, "stale_snapshot")
    assert "7" in stale.json()["detail"]
    assert "199" in stale.json()["detail"]


def test_what_ifs_are_not_superseded(api: httpx.Client, cluster: str) -> None:
    first = api.post("/v1/snapshots?wait=20", json=snapshot(cluster, sequence=1)).json()
    blocker = api.post("/v1/snapshots", json=snapshot(f"{cluster}-other", does="sleep:2")).json()
    plan_in(api, blocker["plan_id"], "solving")
    question = {"snapshot_id": first["snapshot_id"], "planning": {"max_moves": 5}}
    what_if = api.post("/v1/plans", json=question).json()
    api.post("/v1/snapshots", json=snapshot(cluster, sequence=2, mark="newer"))
    assert plan_in(api, what_if["plan_id"], "ready", "superseded")["state"] == "ready"


def test_cancelling_a_solving_plan_kills_its_solver(api: httpx.Client, cluster: str, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    receipt = api.post("/v1/snapshots", json=snapshot(cluster, does=f"child:{file}")).json()
    plan_in(api, receipt["plan_id"], "solving")
    eventually(lambda: file.exists() and len(file.read_text().split()) == 2, "the solver runs")
    pids = [int(pid) for pid in file.read_text().split()]
    answer = api.delete(f"/v1/plans/{receipt['plan_id']}")
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    eventually(lambda: not any(map(_lives, pids)), "worker child and solver are gone", seconds=5)
    again = api.delete(f"/v1/plans/{receipt['plan_id']}")
    assert (again.status_code, again.json()["code"]) == (409, "not_cancellable")
    after = api.post("/v1/snapshots?wait=30", json=snapshot(cluster, mark="after"))
    assert after.status_code == 201, "the worker goes on"
    assert api.get(f"/v1/plans/{receipt['plan_id']}").json()["state"] == "cancelled"


def test_cancelling_a_queued_plan(api: httpx.Client, cluster: str) -> None:
    blocker = api.post("/v1/snapshots", json=snapshot(f"{cluster}-other", does="sleep:1.5")).json()
    plan_in(api, blocker["plan_id"], "solving")
    receipt = api.post("/v1/snapshots", json=snapshot(cluster)).json()
    assert api.delete(f"/v1/plans/{receipt['plan_id']}").json()["state"] == "cancelled"
    plan_in(api, blocker["plan_id"], "ready")
    assert api.get(f"/v1/plans/{receipt['plan_id']}").json()["state"] == "cancelled"


def test_a_waiting_reader_is_woken_by_a_cancel(api: httpx.Client, running: Rig, cluster: str) -> None:
    receipt = api.post("/v1/snapshots", json=snapshot(cluster, does="sleep:30")).json()
    threading.Timer(0.5, lambda: running.client().delete(f"/v1/plans/{receipt['plan_id']}")).start()
    plan = api.get(f"/v1/plans/{receipt['plan_id']}?wait=25").json()
    assert plan["state"] == "cancelled"


def test_readiness_and_metrics_tell_of_work(api: httpx.Client, cluster: str) -> None:
    api.post("/v1/snapshots?wait=20", json=snapshot(cluster))
    ready = api.get("/readyz")
    assert (ready.status_code, ready.json()["ready"]) == (200, True), ready.text
    text = api.get("/metrics").text
    assert 'monkeytree_solve_seconds_count{solver="none",status="compliant"}' in text
    assert 'monkeytree_plans{state="ready"}' in text


def _lives(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat")
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_answers_wait_no_longer_than_asked(api: httpx.Client, cluster: str) -> None:
    receipt = api.post("/v1/snapshots?wait=0.3", json=snapshot(cluster, does="sleep:4"))
    assert receipt.status_code == 202
    plan = api.get(f"/v1/plans/{receipt.json()['plan_id']}?wait=0.2").json()
    assert plan["state"] in ("queued", "solving")
    assert plan["moves"] is None
    api.delete(f"/v1/plans/{receipt.json()['plan_id']}")
