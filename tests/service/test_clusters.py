"""Tokens bound to clusters see those only."""

from __future__ import annotations

import pytest

from tests.integration.documents import snapshot

from .client import Client
from .conftest import Clients


@pytest.fixture
def bound(client_of: Clients, cluster: str) -> Client:
    return client_of("scheduler", clusters=(cluster,))


def test_its_own_cluster(bound: Client, cluster: str) -> None:
    receipt = bound.post("/v1/snapshots", json=snapshot(cluster)).json
    assert bound.get(f"/v1/plans/{receipt['plan_id']}").status_code == 200
    assert [plan["id"] for plan in bound.get("/v1/plans").json["items"]] == [receipt["plan_id"]]
    assert [one["id"] for one in bound.get("/v1/snapshots").json["items"]] == [receipt["snapshot_id"]]


def test_others_are_forbidden(bound: Client, api: Client, cluster: str) -> None:
    other = f"{cluster}-other"
    receipt = api.post("/v1/snapshots", json=snapshot(other)).json
    refused = [
        bound.post("/v1/snapshots", json=snapshot(other)),
        bound.post("/v1/plans", json={"snapshot_id": receipt["snapshot_id"]}),
        bound.get(f"/v1/plans/{receipt['plan_id']}"),
        bound.delete(f"/v1/plans/{receipt['plan_id']}"),
        bound.get(f"/v1/snapshots/{receipt['snapshot_id']}"),
        bound.get(f"/v1/plans?cluster={other}"),
        bound.get(f"/v1/snapshots?cluster={other}"),
    ]
    for answer in refused:
        assert (answer.status_code, answer.json["code"]) == (403, "forbidden_cluster")
        assert other in answer.json["detail"]
