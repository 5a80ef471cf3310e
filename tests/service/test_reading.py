"""Lists, pages, entity tags, waiting."""

from __future__ import annotations

import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable

import pytest
from flask import Flask

from tests.integration.documents import snapshot

from .client import Client
from .conftest import Clients

#: What this service would write for a row whose id holds a NUL.
NUL = urlsafe_b64encode(b'[1.0,"\\u0000"]').decode().rstrip("=")


def submit(api: Client, cluster: str, count: int = 1) -> list[str]:
    marks = (
        snapshot(cluster, mark=str(at)) | {"taken_at": f"2026-01-0{at + 1}T00:00:00Z"} for at in range(count)
    )
    return [api.post("/v1/snapshots", json=document).json["plan_id"] for document in marks]


def pages(api: Client, path: str) -> list[list[str]]:
    found, cursor = [], ""
    while True:
        page = api.get(f"{path}{cursor}").json
        found.append([item["id"] for item in page["items"]])
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


def test_pages_hold_every_plan_once_newest_first(api: Client, cluster: str) -> None:
    ids = submit(api, cluster, 5)
    assert pages(api, f"/v1/plans?cluster={cluster}&limit=2") == [ids[:2:-1], ids[2:0:-1], ids[:1]]
    snapshots = pages(api, f"/v1/snapshots?cluster={cluster}&limit=3")
    assert list(map(len, snapshots)) == [3, 2]


def test_filters(api: Client, cluster: str, finish: Callable[..., None]) -> None:
    first, second, third = submit(api, cluster, 3)
    finish(third, moves=4)

    def listed(query: str) -> list[str]:
        return [plan["id"] for plan in api.get(f"/v1/plans?cluster={cluster}&{query}").json["items"]]

    assert listed("state=superseded") == [second, first]
    assert listed("status=optimal") == [third]
    assert listed("min_moves=4") == [third]
    assert listed("min_moves=5") == []
    assert listed("since=2000-01-01T00:00:00Z") == [third, second, first]
    assert listed("until=2000-01-01T00:00:00.5Z") == []
    times = api.get(f"/v1/snapshots?cluster={cluster}&since=2026-01-02T00:00:00Z&until=2026-01-03T00:00:00Z")
    assert [one["taken_at"] for one in times.json["items"]] == ["2026-01-02T00:00:00.000Z"]


@pytest.mark.parametrize(
    "query",
    [
        "state=done", "status=good", "min_moves=-1", "min_moves=1.5", "min_moves=%D9%A1", "limit=0",
        "limit=201", "limit=1_0", "since=yesterday", "until=2026-02-30T00:00:00Z", "since=2026-01-01",
        "cluster=", "cluster=%00", "colour=red",
    ],
)  # fmt: skip
def test_wrong_parameters_are_named(api: Client, query: str) -> None:
    answer = api.get(f"/v1/plans?{query}")
    assert (answer.status_code, answer.json["code"]) == (422, "invalid_query")
    assert answer.json["errors"][0]["parameter"] == query.partition("=")[0]


@pytest.mark.parametrize(
    "text", ["x", "!!!", "AAAA", urlsafe_b64encode(b"[1,2]").decode(), NUL, "W10", "bnVsbA"]
)
def test_a_cursor_of_ones_own_is_refused(api: Client, text: str) -> None:
    answer = api.get(f"/v1/plans?cursor={text}")
    assert (answer.status_code, answer.json["code"]) == (422, "invalid_cursor")


@pytest.mark.parametrize("wait", ["-1", "nan", "inf", "soon", "1e99", "1000000000", "1e999", ""])
def test_wait_is_a_number_of_seconds(api: Client, wait: str) -> None:
    answer = api.get(f"/v1/plans/x?wait={wait}").json
    assert answer["code"] == "invalid_query"
    assert "from 0 to 999,999,999" in answer["detail"]


def test_an_unknown_plan_or_snapshot(api: Client) -> None:
    for path in ("/v1/plans/x", "/v1/plans/00000000-0000-0000-0000-000000000000"):
        for answer in (api.get(path), api.delete(path)):
            assert (answer.status_code, answer.json["code"]) == (404, "unknown_plan")
    for path in ("/v1/snapshots/x", f"/v1/snapshots/{'0' * 64}"):
        assert (api.get(path).status_code, api.get(path).json["code"]) == (404, "unknown_snapshot")
    assert api.post("/v1/plans", json={"snapshot_id": "x"}).json["code"] == "unknown_snapshot"


def test_a_plan_is_not_sent_again_unless_it_changed(
    api: Client, cluster: str, finish: Callable[..., None]
) -> None:
    (plan_id,) = submit(api, cluster)
    path = f"/v1/plans/{plan_id}"
    queued = api.get(path)
    same = api.get(path, headers={"If-None-Match": queued.headers["ETag"]})
    assert (same.status_code, same.data) == (304, b"")
    finish(plan_id)
    ready = api.get(path, headers={"If-None-Match": queued.headers["ETag"]})
    assert (ready.status_code, ready.json["state"]) == (200, "ready")
    assert api.get(path, headers={"If-None-Match": ready.headers["ETag"]}).status_code == 304


def test_the_snapshot_comes_back_as_it_was_sent(api: Client, cluster: str) -> None:
    document = snapshot(cluster, sequence=3)
    receipt = api.post("/v1/snapshots", json=document).json
    answer = api.get(f"/v1/snapshots/{receipt['snapshot_id']}")
    assert answer.json == document
    tag = answer.headers["ETag"]
    again = api.get(f"/v1/snapshots/{receipt['snapshot_id']}", headers={"If-None-Match": tag})
    assert again.status_code == 304


def test_a_waiting_reader_is_woken(api: Client, cluster: str, finish: Callable[..., None]) -> None:
    (plan_id,) = submit(api, cluster)
    threading.Timer(0.2, finish, (plan_id,)).start()
    assert api.get(f"/v1/plans/{plan_id}?wait=1000000").json["state"] == "ready"


def test_too_many_waiters_are_answered_at_once(
    app: Flask, client_of: Clients, cluster: str, api: Client
) -> None:
    (plan_id,) = submit(api, cluster)
    answers = []

    def wait() -> None:
        answers.append(client_of("researcher").get(f"/v1/plans/{plan_id}?wait=1"))

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status_code for answer in answers] == [200] * 5
    assert sum("Retry-After" in answer.headers for answer in answers) == 3


def test_times_at_both_ends_of_the_calendar_are_listed(api: Client, cluster: str) -> None:
    ends = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z")
    for mark, taken_at in enumerate(ends):
        sent = api.post("/v1/snapshots", json=snapshot(cluster, mark=str(mark)) | {"taken_at": taken_at})
        assert sent.status_code == 202
    listed = api.get(f"/v1/snapshots?cluster={cluster}").json["items"]
    assert [one["taken_at"] for one in listed] == ["9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00.000Z"]


def test_if_match_that_does_not_hold(api: Client, cluster: str) -> None:
    (plan_id,) = submit(api, cluster)
    path = f"/v1/plans/{plan_id}"
    tag = api.get(path).headers["ETag"]
    assert api.get(path, headers={"If-Match": tag}).status_code == 200
    answer = api.get(path, headers={"If-Match": '"old"'})
    assert (answer.status_code, answer.json["code"]) == (412, "precondition_failed")
    assert tag in answer.json["detail"]


@pytest.mark.parametrize("path", ["/v1/plans/%00", "/v1/plans/a%0Ab", f"/v1/plans/{'x' * 200}"])
def test_what_can_be_no_id_is_unknown(api: Client, path: str) -> None:
    for answer in (api.get(path), api.delete(path)):
        assert (answer.status_code, answer.json["code"]) == (404, "unknown_plan")
