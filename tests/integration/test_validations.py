"""Replays through the service: a real Valkey, API and validator, with the real simulator."""

from __future__ import annotations

import os
import signal
import venv
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

import monkeytree
from monkeytree.adapters.simulator import why_not
from tests.validation.cases import document, job

from .rig import Rig, eventually, rig

MISSING = why_not()
needs_ns3 = pytest.mark.skipif(
    MISSING is not None and os.environ.get("MONKEYTREE_REQUIRE_NS3") != "1",
    reason=f"ns-3 is not here ({MISSING}); MONKEYTREE_REQUIRE_NS3=1 makes this a failure",
)
#: Two racks of one uplink with two jobs across both: over, and one swap heals it.
CROWDED = document(job("A", "0.0 1.0"), job("B", "0.1 1.1"), uplinks=1, nodes=2)
PLANNER = "monkeytree.planner:make_plan"
SHORT, LONG = {"flow_mb": 0.5}, {"flow_mb": 4000, "steps": 4}


def planned(api: httpx.Client) -> dict[str, Any]:
    """The plan of CROWDED."""
    answer = api.post("/v1/snapshots?wait=30", json=CROWDED)
    assert answer.status_code == 201, answer.text
    plan: dict[str, Any] = answer.json()
    return plan


def snapshot_id(made: Rig) -> str:
    """CROWDED, stored without a worker to plan it."""
    answer = made.client().post("/v1/snapshots", json=CROWDED)
    return str(answer.json()["snapshot_id"])


def validation_in(api: httpx.Client, where: str, *states: str) -> dict[str, Any]:
    """The validation once it is in one of ``states``."""

    def there() -> dict[str, Any] | None:
        found: dict[str, Any] = api.get(where, params={"wait": 1}).json()
        return found if found["state"] in states else None

    found: dict[str, Any] = eventually(there, f"{where} is {states}", 150)
    return found


def replays(data: str) -> list[psutil.Process]:
    """Processes of replays of the service whose data lie in ``data``, the simulations too."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("MONKEYTREE_DATA") == data
            if ours and "monkeytree.validation" in " ".join(process.cmdline()[1:4]):
                found.append(process)
        except psutil.Error:
            continue
    return found


@needs_ns3
@pytest.mark.slow
def test_a_plan_is_replayed_and_its_report_read(tmp_path: Path) -> None:
    with rig(tmp_path / "rig", planner=PLANNER) as made:
        made.api()
        made.worker()
        made.validator()
        api = made.client()
        plan = planned(api)
        answer = api.post("/v1/validations", json={"plan_id": plan["id"], **SHORT})
        assert answer.status_code == 202, answer.text
        where = answer.headers["Location"]
        assert where == f"/v1/validations/{answer.json()['id']}"
        assert answer.json()["options"]["flow_mb"] == 0.5
        ready = validation_in(api, where, "ready", "failed")
        assert ready["state"] == "ready", ready["failure"]
        assert (ready["isolated"], ready["attempt"]) == (True, 1)
        assert ready["progress"]["stage"]
        report = ready["report"]
        assert (report["format"], report["isolated"], report["plan_id"]) == (1, True, plan["id"])
        assert set(report["runs"]) == {"plan", "ecmp", "before"}
        assert report["runs"]["before"]["isolated"] is False

        again = api.post("/v1/validations", json={"plan_id": plan["id"], **SHORT})
        assert (again.status_code, again.json()["id"]) == (200, ready["id"])
        as_it_stands = {"snapshot_id": plan["snapshot_id"], **SHORT}
        over = api.post("/v1/validations?wait=60", json=as_it_stands).json()
        assert (over["state"], over["isolated"], over["plan_id"]) == ("ready", False, None)
        listed = api.get("/v1/validations", params={"cluster": plan["cluster"]}).json()["items"]
        assert [one["id"] for one in listed] == [over["id"], ready["id"]]
        assert "report" not in listed[0]
        of_plan = api.get("/v1/validations", params={"plan_id": plan["id"]}).json()["items"]
        assert [one["id"] for one in of_plan] == [ready["id"]]

        assert api.post("/v1/validations", json={**as_it_stands, "routing": "hash"}).status_code == 422
        unknown = {"leaf": {"algorithm": "crc32", "fields": ["src", "dst", "dst_qp"]}}
        hashed = api.post(
            "/v1/snapshots", json={**CROWDED, "fabric": {**CROWDED.get("fabric", {}), "hash": unknown}}
        ).json()
        by_hash = {**as_it_stands, "snapshot_id": hashed["snapshot_id"], "routing": "hash"}
        wrong = api.post("/v1/validations?wait=60", json=by_hash).json()
        assert wrong["state"] == "failed"
        assert "/fabric/hash" in wrong["failure"]["message"]
        text = api.get("/metrics").text
        assert "monkeytree_validation_queue_depth 0.0" in text
        assert 'monkeytree_validations{state="ready"} 2.0' in text


@needs_ns3
@pytest.mark.slow
def test_progress_is_seen_and_a_cancel_stops_every_process(tmp_path: Path) -> None:
    with rig(tmp_path / "rig") as made:
        made.api()
        made.validator()
        api, data = made.client(), made.settings.data
        asked = {"snapshot_id": snapshot_id(made), **LONG}
        where = api.post("/v1/validations", json=asked).headers["Location"]
        stages: set[str] = set()

        def moves() -> bool:
            progress = api.get(where).json()["progress"] or {}
            stages.add(progress.get("stage", ""))
            return (progress.get("done") or 0) > 0

        eventually(moves, "progress moves", 150)
        assert any("simulating" in stage for stage in stages)
        assert len(replays(data)) >= 2
        answer = api.delete(where)
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
        eventually(lambda: not replays(data), "all is gone", 10)
        again = api.delete(where)
        assert (again.status_code, again.json()["code"]) == (409, "not_cancellable")
        short = api.post("/v1/validations?wait=60", json={"snapshot_id": asked["snapshot_id"], **SHORT})
        eventually(
            lambda: api.get(short.headers["Location"]).json()["state"] == "ready", "the worker goes on"
        )


@needs_ns3
@pytest.mark.slow
def test_a_validator_killed_in_mid_run_loses_nothing(tmp_path: Path) -> None:
    with rig(tmp_path / "rig") as made:
        made.api()
        first = made.validator()
        api, data = made.client(), made.settings.data
        asked = {"snapshot_id": snapshot_id(made), "flow_mb": 400}
        where = api.post("/v1/validations", json=asked).headers["Location"]
        validation_in(api, where, "running")
        eventually(lambda: len(replays(data)) >= 2, "it simulates", 150)
        os.killpg(first.pid, signal.SIGKILL)
        eventually(lambda: not replays(data), "nothing outlives it", 10)
        made.validator(wait=False)
        made.reaper()
        ready = validation_in(api, where, "ready", "failed")
        assert ready["state"] == "ready", ready["failure"]
        assert ready["attempt"] == 2
        assert len(api.get("/v1/validations").json()["items"]) == 1


@pytest.mark.slow
def test_without_ns3_the_answer_names_the_cure_and_plans_are_made(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    bare = str(tmp_path / "bare" / "bin" / "python")
    with rig(tmp_path / "rig", planner=PLANNER, validation_python=bare) as made:
        made.api()
        made.worker()
        api = made.client()
        plan = planned(api)
        for _ in range(2):  # as this process sees it, then as the validator says
            answer = api.post("/v1/validations", json={"plan_id": plan["id"]})
            assert (answer.status_code, answer.json()["code"]) == (503, "validation_unavailable")
            assert "pip install 'monkeytree[validation]'" in answer.json()["detail"]
            made.validator()
        row, _ = made.store.validations.ask(
            made.store.snapshot(plan["snapshot_id"]), None, _options(), "asked before ns-3 went"
        )
        made.reaper()
        failed = validation_in(api, f"/v1/validations/{row.id}", "failed")
        assert failed["failure"]["code"] == "validation_unavailable"
        assert bare in failed["failure"]["message"]
        assert monkeytree.check(monkeytree.load_snapshot(CROWDED), plan) == []


def _options() -> Any:
    from monkeytree.adapters.replay_options import ReplayOptions

    return ReplayOptions()
