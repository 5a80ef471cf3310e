"""The store: intake, claims, leases, fencing, tokens, keys."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, update

from monkeytree.adapters.errors import (
    BadSetting,
    IdempotencyInProgress,
    IdempotencyKeyReused,
    InvalidTokenName,
    NotCancellable,
    StaleSnapshot,
    StoreVersionMismatch,
    TokenNameTaken,
    UnknownPlan,
    UnknownRole,
    UnknownSnapshot,
    UnknownToken,
)
from monkeytree.adapters.paging import Span
from monkeytree.adapters.replays import Answer
from monkeytree.adapters.rows import Receipt, SnapshotRow
from monkeytree.adapters.solving import Outcome
from monkeytree.adapters.store import Store
from monkeytree.adapters.tables import SCHEMA_VERSION, schema_version
from monkeytree.snapshot import Planning

OUTCOME = Outcome(b'{"format":1}', "optimal", 2, "cbc", 0.3)


def submit(store: Store, cluster: str, content: str, sequence: int | None = None, at: float = 0.0) -> Receipt:
    name = uuid.uuid5(uuid.NAMESPACE_URL, cluster + content).hex * 2
    return store.submit(SnapshotRow(name, cluster, at, sequence, time.time()), b"{}", Planning())


def state(store: Store, receipt: Receipt) -> str:
    return store.plan(receipt.plan.id).state


def test_a_newer_snapshot_supersedes_older_queued_plans(store: Store, cluster: str) -> None:
    first, other = submit(store, cluster, "a", 1), submit(store, f"{cluster}-other", "a", 1)
    solving = submit(store, cluster, "b", 2)
    assert solving.superseded == (first.plan.id,)
    store.claim(solving.plan.id, 30.0, 3)
    newest = submit(store, cluster, "c", 3)
    assert newest.superseded == ()
    states = [state(store, one) for one in (first, other, solving, newest)]
    assert states == ["superseded", "queued", "solving", "queued"]


def test_without_sequences_time_and_arrival_decide(store: Store, cluster: str) -> None:
    early, late = submit(store, cluster, "a", at=10.0), submit(store, cluster, "b", at=20.0)
    assert late.superseded == (early.plan.id,)
    older = submit(store, cluster, "c", at=15.0)
    assert older.superseded == ()
    assert state(store, late) == "queued"
    same_time = submit(store, cluster, "d", at=20.0)
    assert set(same_time.superseded) == {late.plan.id, older.plan.id}


def test_an_older_sequence_is_refused_whole(store: Store, cluster: str) -> None:
    submit(store, cluster, "a", 5)
    with pytest.raises(StaleSnapshot, match=r"sequence 4 .* than 5"):
        submit(store, cluster, "b", 4)
    assert len(store.list_snapshots(Span(frozenset({cluster}))).items) == 1
    assert submit(store, cluster, "a", 5).created is False


def test_a_snapshot_that_comes_again_renews_its_place(store: Store, cluster: str) -> None:
    first = submit(store, cluster, "a", 1)
    again = submit(store, cluster, "a", 5)
    assert (again.created, again.plan.id) == (False, first.plan.id)
    back = submit(store, cluster, "b", 6)
    assert back.superseded == (first.plan.id,)
    anew = submit(store, cluster, "a", 7)
    assert anew.created
    assert anew.superseded == (back.plan.id,)


def test_a_what_if_that_joins_a_plan_protects_it(store: Store, cluster: str) -> None:
    first = submit(store, cluster, "a", 1)
    joined = store.ask(first.plan.snapshot_id, Planning())
    assert (joined.created, joined.plan.id) == (False, first.plan.id)
    assert submit(store, cluster, "b", 2).superseded == ()
    with pytest.raises(UnknownSnapshot):
        store.ask("0" * 64, Planning())


def test_of_many_at_once_one_claims(store: Store, url: str, cluster: str) -> None:
    plan_id = submit(store, cluster, "a").plan.id
    claims: list[object] = []

    def claim() -> None:
        mine = Store(url)
        claims.append(mine.claim(plan_id, 30.0, 3))
        mine.close()

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(found is not None for found in claims) == 1


def test_of_many_at_once_one_plan_is_made(store: Store, url: str, cluster: str) -> None:
    receipts: list[Receipt] = []

    def post() -> None:
        mine = Store(url)
        receipts.append(submit(mine, cluster, "same", 1))
        mine.close()

    threads = [threading.Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(receipt.created for receipt in receipts) == {True: 1, False: 7}
    assert len({receipt.plan.id for receipt in receipts}) == 1


def test_a_worker_thought_dead_cannot_finish(store: Store, cluster: str) -> None:
    plan_id = submit(store, cluster, "a").plan.id
    dead = store.claim(plan_id, 0.01, 3)
    time.sleep(0.05)
    successor = store.claim(plan_id, 30.0, 3)
    assert dead is not None
    assert successor is not None
    assert (dead.attempt, successor.attempt) == (1, 2)
    assert store.extend(plan_id, 1, 30.0) is False
    assert store.finish(plan_id, 1, OUTCOME) is False
    assert store.fail(plan_id, 1, "x", "y") is False
    assert store.plan_body(plan_id) is None
    assert store.finish(plan_id, 2, OUTCOME) is True
    assert store.finish(plan_id, 2, OUTCOME) is False
    assert store.plan_body(plan_id) == OUTCOME.document


def test_expired_leases_are_queued_again_until_attempts_are_spent(store: Store, cluster: str) -> None:
    plan_id = submit(store, cluster, "a").plan.id
    for attempt in (1, 2):
        assert store.claim(plan_id, 0.01, 2) is not None
        time.sleep(0.05)
        queued, failed = store.requeue_expired(2)
        ended = failed if attempt == 2 else queued
        assert [plan.id for plan in ended if plan.cluster == cluster] == [plan_id]
    row = store.plan(plan_id)
    assert (row.state, row.failure_code) == ("failed", "solver_crashed")
    assert store.claim(plan_id, 30.0, 3) is None


def test_overdue_are_the_queued_ones_not_sent_lately(store: Store, cluster: str) -> None:
    plan_id = submit(store, cluster, "a").plan.id
    time.sleep(0.05)
    assert plan_id in [plan.id for plan in store.overdue(0.01)]
    assert plan_id not in [plan.id for plan in store.overdue(60.0)]
    store.note_published([plan_id])
    assert plan_id not in [plan.id for plan in store.overdue(0.04)]


def test_cancelling(store: Store, cluster: str) -> None:
    queued, solving = submit(store, cluster, "a"), submit(store, f"{cluster}-other", "b")
    store.claim(solving.plan.id, 30.0, 3)
    for receipt in (queued, solving):
        assert store.cancel(receipt.plan.id).state == "cancelled"
    assert store.holds(solving.plan.id, 1) is False
    with pytest.raises(NotCancellable, match="'cancelled'"):
        store.cancel(queued.plan.id)
    with pytest.raises(UnknownPlan, match="'nowhere'"):
        store.cancel("nowhere")


def test_tokens(store: Store) -> None:
    name = uuid.uuid4().hex
    text = store.add_token(name, ["scheduler", "agent"], ["east"])
    assert text.startswith("mt_")
    token = store.find_token(text)
    assert token is not None
    assert (token.name, token.roles, token.clusters) == (
        name,
        frozenset({"scheduler", "agent"}),
        frozenset({"east"}),
    )
    assert token.sees("east")
    assert not token.sees("west")
    assert text not in repr(store.list_tokens()), "the secret is not kept"
    assert store.has_tokens()
    with pytest.raises(TokenNameTaken):
        store.add_token(name, ["agent"])
    assert store.revoke_token(token.prefix).name == name
    assert store.find_token(text) is None
    for wanted in (name, "", "mt_"):
        with pytest.raises(UnknownToken):
            store.revoke_token(wanted)


@pytest.mark.parametrize("roles", [[], ["boss"], ["agent", ""]])
def test_a_token_needs_known_roles(store: Store, roles: list[str]) -> None:
    with pytest.raises(UnknownRole):
        store.add_token(uuid.uuid4().hex, roles)


def test_idempotency_keys(store: Store) -> None:
    owner, answer = uuid.uuid4().hex, Answer(202, {"Location": "/x"}, b"{}")
    assert store.reserve_key(owner, "k", "h") is None
    with pytest.raises(IdempotencyInProgress):
        store.reserve_key(owner, "k", "h")
    with pytest.raises(IdempotencyKeyReused):
        store.reserve_key(owner, "k", "other")
    store.keep_answer(owner, "k", answer)
    assert store.reserve_key(owner, "k", "h") == answer
    store.release_key(owner, "k")
    assert store.reserve_key(owner, "k", "h") == answer, "an answer that was kept stays"
    assert store.prune_keys(60.0) == 0
    time.sleep(0.05)
    assert store.prune_keys(0.01) >= 1
    assert store.reserve_key(owner, "k", "other") is None


def test_creating_is_safe_to_repeat_and_at_once(url: str) -> None:
    failures: list[Exception] = []

    def create() -> None:
        store = Store(url)
        try:
            store.create()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            failures.append(error)
        store.close()

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


#: What turns the tables of each version into those of the one before.
UNDO = {
    3: [
        "DROP TABLE execution_calls", "DROP TABLE execution_steps", "DROP TABLE executions",
        "DROP TABLE agents", "DROP TABLE fences",
    ],
    2: [
        "DROP TABLE validation_bodies", "DROP TABLE validations", "ALTER TABLE heartbeats DROP COLUMN note",
    ],
}  # fmt: skip


def shape(store: Store) -> dict[str, Any]:
    """Columns (with types) and indexes by table."""
    seen = inspect(store.engine)
    return {
        name: (
            sorted(
                (column["name"], str(column["type"]), column["nullable"]) for column in seen.get_columns(name)
            ),
            sorted((str(index["name"]), index["unique"]) for index in seen.get_indexes(name)),
        )
        for name in seen.get_table_names()
    }


@pytest.mark.parametrize("version", [1, 2])
def test_a_store_of_an_earlier_version_is_brought_up(store: Store, version: int) -> None:
    fresh = shape(store)
    plan = submit(store, "c", "a").plan
    with store.writing() as connection:
        for newer in range(SCHEMA_VERSION, version, -1):
            for statement in UNDO[newer]:
                connection.exec_driver_sql(statement)
        connection.execute(update(schema_version).values(version=version))
    assert shape(store) != fresh
    for _ in range(2):
        store.create()
    assert shape(store) == fresh
    assert store.plan(plan.id).state == "queued"
    assert store.executions.list_rows(Span()).items == ()
    store.beat("validator:h:1", "no ns-3")
    assert store.notes("validator", 60.0) == ["no ns-3"]
    assert store.validations.list_rows(Span()).items == ()


def test_the_store_of_another_release_is_refused(store: Store) -> None:
    with store.writing() as connection:
        connection.execute(update(schema_version).values(version=99))
    with pytest.raises(StoreVersionMismatch, match="version 99"):
        store.create()


@pytest.mark.parametrize("url", ["nonsense", "mysql://h/d", "sqlite://", "sqlite:///:memory:"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(BadSetting, match="DATABASE_URL"):
        Store(url)


def test_sqlite_commits_are_durable(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/m.db")
    store.create()
    with store.writing() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    store.close()


@pytest.mark.parametrize("bad", ["", "a\nb", "\0", "\x1b[31m", "\udcff", "x" * 129])
def test_a_token_is_never_bound_to_less_than_was_asked_for(store: Store, bad: str) -> None:
    with pytest.raises(InvalidTokenName) as refused:
        store.add_token(uuid.uuid4().hex, ["agent"], ["east", bad])
    assert repr(bad) in str(refused.value)
    with pytest.raises(InvalidTokenName):
        store.add_token(bad, ["agent"])


def test_only_the_whole_text_revokes_a_token(store: Store) -> None:
    text = store.add_token(uuid.uuid4().hex, ["agent"])
    for wrong in (text[:-1], text + "x", text[:12], "\udcff"):
        with pytest.raises(UnknownToken):
            store.revoke_token(wrong)
    store.revoke_token(text)
    assert store.find_token(text) is None
