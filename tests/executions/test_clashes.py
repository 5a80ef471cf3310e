"""Several at once about the same execution, slots or key: one gets it, the others are told, none fails."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from monkeytree.adapters.errors import IdempotencyInProgress
from monkeytree.adapters.executions_journal import LeaseLost
from monkeytree.adapters.notify import Announcer
from monkeytree.adapters.replays import Answer
from monkeytree.adapters.tokens import ROLES
from monkeytree.service.main import create_app
from monkeytree.workers.execute import Run
from tests.service.client import client_without_token

from .conftest import Site, cluster, job, move, racks

Sites = Callable[..., Site]
#: Two that want the same slot, and a third that wants the worker of the first.
RIVALS = (
    move("A", 1, "r2n0", "r1n2"),
    move("B", 1, "r2n1", "r1n2"),
    move("A", 1, "r2n0", "r3n0"),
)
AT_ONCE = 8


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What ``work`` gave, or raised, in each of as many threads that start at once."""
    gate, found = threading.Barrier(count), list[Any]([None] * count)

    def one(index: int) -> None:
        gate.wait()
        try:
            found[index] = work(index)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            found[index] = error

    threads = [threading.Thread(target=one, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_of_many_workers_one_takes_an_execution(site_of: Sites) -> None:
    site = site_of()
    execution = site.order(site.plan(RIVALS[0]))
    rows = together(AT_ONCE, lambda _: site.store.executions.claim(execution, 30.0, 3))
    taken = [row for row in rows if row is not None]
    assert [row.attempt for row in taken] == [1]


def test_two_crews_that_are_told_of_it_make_every_call_once(site_of: Sites) -> None:
    site = site_of()
    execution = site.order(site.plan(RIVALS[0]))
    together(2, lambda _: site.run(execution))
    assert site.store.executions.find(execution).state == "done"
    calls = site.store.executions.calls(execution)
    assert {call.attempt for call in calls} == {1}
    journalled = Counter((call.node, call.name) for call in calls if not call.name.startswith("look"))
    assert set(journalled.values()) == {1}
    assert len(site.nodes.named("put_move")) == 2, "each side of the move once"


def test_of_two_attempts_the_older_does_nothing_more(site_of: Sites) -> None:
    site = site_of()
    execution = site.order(site.plan(RIVALS[0]))
    rows = site.store.executions
    older = rows.claim(execution, 30.0, 3)
    assert older is not None
    assert rows.expire(execution, older.attempt)
    (queued,), _ = rows.requeue_expired(3)
    newer = rows.claim(queued.id, 30.0, 3)
    assert newer is not None

    def run(row: Any) -> Any:
        return Run(site.settings, site.store, Announcer(site.settings.redis_url), row).to_the_end()

    lost, ended = together(2, lambda index: run((older, newer)[index]))
    assert isinstance(lost, LeaseLost)
    assert ended is None
    assert {call.attempt for call in rows.calls(execution)} == {2}
    assert not rows.end(older, "failed")
    assert rows.end(newer, "done")


def test_of_orders_that_overlap_one_is_taken_and_the_others_refused_by_name(site_of: Sites) -> None:
    site = site_of()
    app = create_app(site.settings)
    token = site.store.add_token("orders", ROLES)
    plans = [site.plan(RIVALS[0]), *(site.plan_again(rival) for rival in RIVALS[1:])]

    def post(index: int) -> Any:
        api = client_without_token(app)
        api.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
        return api.post("/v1/executions", json={"plan_id": plans[index % len(plans)]})

    answers = together(AT_ONCE, post)
    assert sorted(answer.status_code for answer in answers) == [202] + [409] * (AT_ONCE - 1)
    (taken,) = (answer.json["id"] for answer in answers if answer.status_code == 202)
    for answer in answers:
        if answer.status_code == 409:
            assert answer.json["code"] == "execution_overlaps", answer.text
            assert taken in answer.json["detail"]
    assert {one.execution_id for one in site.store.reservations()} == {taken}


def test_epochs_of_two_executions_of_a_cluster_never_meet(site_of: Sites) -> None:
    apart = cluster(job("A", "r1n0", "r2n0"), job("B", "r3n0", "r4n0"), of=racks("r1", "r2", "r3", "r4"))
    site = site_of(apart)
    first = site.order(site.plan(move("A", 1, "r2n0", "r1n1")))
    second = site.order(site.plan_again(move("B", 1, "r4n0", "r3n1")))
    rows = site.store.executions
    taken = [row for its_id in (first, second) if (row := rows.claim(its_id, 30.0, 3)) is not None]
    drawn = together(AT_ONCE, lambda index: rows.begin_steps(taken[index % 2], {"": [0]})[""])
    assert len(set(drawn)) == AT_ONCE, drawn


def test_an_agent_that_announces_itself_at_once_is_new_once(site_of: Sites) -> None:
    site = site_of()
    agents, url = site.store.agents, "http://127.0.0.9:7000"
    found = together(AT_ONCE, lambda _: agents.announce("east", "r1n0", url, 9, {}))
    assert sorted(fresh for _, fresh in found) == [False] * (AT_ONCE - 1) + [True]
    assert len([agent for agent in site.store.agents.list_agents({"east"}) if agent.node == "r1n0"]) == 1


def test_a_key_that_is_let_go_while_others_ask_for_it_is_taken_or_in_use(site_of: Sites) -> None:
    store = site_of().store

    def ask(_: int) -> int:
        taken = 0
        for _ in range(25):
            try:
                assert store.reserve_key("t", "k", "h") is None
            except IdempotencyInProgress:
                continue
            taken += 1
            store.release_key("t", "k")
        return taken

    found = together(4, ask)
    assert all(isinstance(count, int) for count in found), found
    assert sum(found) > 0
    assert store.reserve_key("t", "k", "h") is None
    store.keep_answer("t", "k", Answer(202, {}, b"{}"))
    answer = store.reserve_key("t", "k", "h")
    assert answer is not None
    assert answer.status == 202


def test_what_an_agent_says_is_written_down_whatever_it_is(site_of: Sites) -> None:
    site = site_of()
    execution = site.order(site.plan(RIVALS[0]))
    row = site.store.executions.claim(execution, 30.0, 3)
    assert row is not None
    number = site.store.executions.begin_call(row, 0, "r1n2", "make moves/x")
    site.store.executions.end_call(number, "refused: \0 and \udcff")
    site.store.executions.end_steps(row, [0], "failed", error="it said \0")
    assert site.store.executions.end(row, "failed", ("move_failed", "it said \0"))
    assert site.store.executions.find(execution).failure_message == "it said \ufffd"
    assert site.store.executions.calls(execution)[0].outcome == "refused: \ufffd and \ufffd"
    assert site.store.executions.steps(execution)[0].error == "it said \ufffd"
