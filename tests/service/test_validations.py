"""Validations over HTTP, without a validator: bodies, refusals, reading, listing, cancelling."""

from __future__ import annotations

from typing import Any

import pytest

from monkeytree.adapters.replay_options import PORTS, PROFILES, ROUTING, ReplayOptions
from monkeytree.validation.options import parse
from monkeytree.validation.profiles import PROFILES as THEIRS
from tests.integration.documents import snapshot
from tests.integration.rig import Rig

from .client import Answer, Client
from .conftest import Clients


@pytest.fixture
def snapshot_id(api: Client, cluster: str) -> str:
    return str(api.post("/v1/snapshots", json=snapshot(cluster)).json["snapshot_id"])


def ask(parts: Rig, api: Client, **body: Any) -> Answer:
    """POST it, with a validator that beats."""
    parts.store.beat("validator:tests:1")
    return api.post("/v1/validations", json=body)


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({}, "", "either plan_id (a ready plan) or snapshot_id"),
        ({"plan_id": "p", "snapshot_id": "s"}, "", "either plan_id"),
        ({"snapshot_id": "s", "scale": 0}, "/scale", "above 0"),
        ({"snapshot_id": "s", "seed": -1}, "/seed", "from 0"),
        ({"snapshot_id": "s", "ecmp_share": 1.5}, "/ecmp_share", "from 0 to 1"),
        ({"snapshot_id": "s", "steps": 0}, "/steps", "from 1"),
        ({"snapshot_id": "s", "profile": "infiniband"}, "/profile", "dcqcn, pfc_only"),
        ({"snapshot_id": "s", "routing": "ecmp"}, "/routing", "steered, hash"),
        ({"snapshot_id": "s", "ports": 4791}, "/ports", "plan, default"),
        ({"snapshot_id": "s", "fail_link": ["r1:0", "r1"]}, "/fail_link/1", "RACK:SPINE"),
        ({"snapshot_id": "s", "fail_link": ["r:0"] * 1001}, "/fail_link", "at most 1000"),
        ({"snapshot_id": "s", "fail_link": "r1:0"}, "/fail_link", "array"),
        ({"snapshot_id": "s", "flow_gb": 1}, "/flow_gb", "not a known member"),
    ],
)
def test_a_wrong_request_is_refused_by_pointer(
    parts: Rig, api: Client, body: dict[str, Any], pointer: str, says: str
) -> None:
    answer = ask(parts, api, **body)
    assert (answer.status_code, answer.json["code"]) == (422, "invalid_request")
    (error,) = answer.json["errors"]
    assert error["pointer"] == pointer
    assert says in error["detail"]


def test_only_ready_plans_and_stored_snapshots_are_replayed(
    parts: Rig, api: Client, snapshot_id: str, finish: Any
) -> None:
    (plan,) = [one for one in api.get("/v1/plans").json["items"] if one["snapshot_id"] == snapshot_id]
    early = ask(parts, api, plan_id=plan["id"])
    assert (early.status_code, early.json["code"]) == (409, "plan_not_ready")
    assert "'queued'" in early.json["detail"]
    finish(plan["id"])
    taken = ask(parts, api, plan_id=plan["id"], fail_link=["r1:0"])
    assert taken.status_code == 202
    assert (taken.json["plan_id"], taken.json["snapshot_id"]) == (plan["id"], snapshot_id)
    for body, code in (
        ({"plan_id": "nowhere"}, "unknown_plan"),
        ({"snapshot_id": "0" * 64}, "unknown_snapshot"),
    ):
        unknown = ask(parts, api, **body)
        assert (unknown.status_code, unknown.json["code"]) == (404, code)


def test_what_the_snapshot_has_not_got_is_refused_at_once(parts: Rig, api: Client, snapshot_id: str) -> None:
    answer = ask(parts, api, snapshot_id=snapshot_id, fail_link=["r1:0", "zzz:9", "r1:99"], routing="hash")
    assert (answer.status_code, answer.json["code"]) == (422, "invalid_request")
    told = {error["pointer"]: error["value"] for error in answer.json["errors"]}
    assert told == {"/fail_link/1": "zzz:9", "/fail_link/2": "r1:99", "/routing": "hash"}
    assert "fabric.hash" in answer.json["errors"][2]["detail"]
    stored = api.get("/v1/validations?limit=200").json["items"]
    assert snapshot_id not in [one["snapshot_id"] for one in stored]


def test_a_validation_is_read_listed_and_cancelled(
    parts: Rig, api: Client, snapshot_id: str, cluster: str
) -> None:
    answer = ask(parts, api, snapshot_id=snapshot_id, seed=3)
    where, document = answer.headers["Location"], answer.json
    assert (document["state"], document["report"], document["options"]["seed"]) == ("queued", None, 3)
    read = api.get(where)
    assert read.json == document
    assert api.get(where, headers={"If-None-Match": read.headers["ETag"]}).status_code == 304
    parts.store.validations.claim(document["id"], 30.0, 3)
    parts.store.validations.note_progress(document["id"], 1, "simulating", 0.25)
    running = api.get(where, headers={"If-None-Match": read.headers["ETag"]}).json
    assert (running["state"], running["progress"]) == ("running", {"stage": "simulating", "done": 0.25})
    (listed,) = api.get(f"/v1/validations?cluster={cluster}&state=running").json["items"]
    assert listed == {name: value for name, value in running.items() if name != "report"}
    assert api.delete(where).json["state"] == "cancelled"
    assert api.delete(where).json["code"] == "not_cancellable"
    anew = ask(parts, api, snapshot_id=snapshot_id, seed=3)
    assert (anew.status_code, anew.json["id"] == document["id"]) == (202, False)
    for unknown in (api.get("/v1/validations/nowhere"), api.delete("/v1/validations/%00")):
        assert (unknown.status_code, unknown.json["code"]) == (404, "unknown_validation")


def test_routing_by_hash_is_asked_for_and_told(parts: Rig, api: Client, cluster: str) -> None:
    document = snapshot(cluster)
    document["fabric"] = {**document.get("fabric", {}), "hash": {"leaf": {"algorithm": "crc32"}}}
    snapshot_id = api.post("/v1/snapshots", json=document).json["snapshot_id"]
    usual = ask(parts, api, snapshot_id=snapshot_id).json
    assert (usual["options"]["routing"], usual["options"]["ports"]) == ("steered", "plan")
    hashed = ask(parts, api, snapshot_id=snapshot_id, routing="hash", ports="default").json
    assert (hashed["options"]["routing"], hashed["options"]["ports"]) == ("hash", "default")
    assert hashed["id"] != usual["id"]
    assert parts.store.validations.find(hashed["id"]).options == ReplayOptions(
        routing="hash", ports="default"
    )


def test_the_replay_takes_what_the_service_lets_in() -> None:
    assert tuple(THEIRS) == PROFILES
    for routing, ports in zip(ROUTING, PORTS, strict=True):
        told = parse(["s.json", *ReplayOptions(routing=routing, ports=ports).arguments()])
        assert (told.routing, told.ports) == (routing, ports)
    older = '{"fail_link": [], "profile": "dcqcn", "seed": 3}'
    assert ReplayOptions.from_text(older) == ReplayOptions(seed=3)


def test_a_ready_validation_comes_with_its_report(parts: Rig, api: Client, snapshot_id: str) -> None:
    asked = ask(parts, api, snapshot_id=snapshot_id, steps=2).json
    rows = parts.store.validations
    rows.claim(asked["id"], 30.0, 3)
    rows.finish(asked["id"], 1, b'{"format": 1, "isolated": false}', isolated=False, claims_hold=True)
    again = ask(parts, api, snapshot_id=snapshot_id, steps=2)
    assert again.status_code == 200
    assert again.json["report"] == {"format": 1, "isolated": False}
    assert (again.json["isolated"], again.json["claims_hold"]) == (False, True)


def test_a_token_of_other_clusters_sees_none(
    parts: Rig, api: Client, client_of: Clients, snapshot_id: str
) -> None:
    where = ask(parts, api, snapshot_id=snapshot_id).headers["Location"]
    stranger = client_of("researcher", clusters=("elsewhere",))
    assert stranger.get(where).json["code"] == "forbidden_cluster"
    assert stranger.delete(where).json["code"] == "forbidden_cluster"
    assert ask(parts, stranger, snapshot_id=snapshot_id).json["code"] == "forbidden_cluster"
    assert stranger.get("/v1/validations").json["items"] == []


def test_what_validators_say_decides(parts: Rig, api: Client, snapshot_id: str) -> None:
    def posted(seed: int) -> Answer:
        return api.post("/v1/validations", json={"snapshot_id": snapshot_id, "seed": seed})

    parts.store.beat("validator:tests:1", "no ns-3 here: get it")
    refused = posted(11)
    assert (refused.status_code, refused.json["code"]) == (503, "validation_unavailable")
    assert refused.json["detail"] == "no ns-3 here: get it"
    parts.store.beat("validator:tests:2")
    assert posted(11).status_code == 202, "one that can is enough"
    parts.store.beat("validator:tests:1")


def test_a_ready_one_is_all_done(parts: Rig, api: Client, snapshot_id: str) -> None:
    its_id = ask(parts, api, snapshot_id=snapshot_id).json["id"]
    rows = parts.store.validations
    claimed = rows.claim(its_id, 30.0, 3)
    assert claimed is not None
    assert rows.note_progress(its_id, claimed.attempt, "replaying", 0.7554)
    assert api.get(f"/v1/validations/{its_id}").json["progress"]["done"] == 0.7554
    assert rows.finish(its_id, claimed.attempt, b"{}", isolated=True, claims_hold=True)
    answer = api.get(f"/v1/validations/{its_id}").json
    assert (answer["state"], answer["progress"]["done"]) == ("ready", 1.0)
