"""PostgreSQL ends connections in the midst of things: it recovers, or says 503; nothing is done twice.

Needs a server (``make test-postgres``): SQLite has no connection to lose.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from monkeytree.adapters.engine import WRITES
from monkeytree.adapters.replays import Answer
from monkeytree.adapters.store import Store
from monkeytree.adapters.tokens import ROLES
from monkeytree.service.main import create_app
from tests.databases import SERVER, run_on_server
from tests.service.client import Client, client_without_token

from .conftest import FULL, Site, move
from .test_execute import TWO_WAVES

pytestmark = pytest.mark.skipif(SERVER is None, reason="no PostgreSQL server: make test-postgres")

Sites = Callable[..., Site]
MOVE = move("A", 1, "r2n0", "r1n2")


def end_connections(store: Store) -> None:
    """End every server process that serves this test, as an operator or a restart does."""
    name = store.engine.url.query["application_name"]
    wanted = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = :name"
    run_on_server(wanted, name=name)


@contextmanager
def lost_at(store: Store, statement: int = -1, commit: int = -1) -> Iterator[list[str]]:
    """End the connection before that statement, or before that commit of a write, of all that follow; once.

    Yields the statements and commits that were begun.
    """
    seen: list[str] = []

    def before(connection: Connection, _cursor: Any, text: str, *_: Any) -> None:
        seen.append(text)
        if len([one for one in seen if one != "COMMIT"]) - 1 == statement:
            end_connections(store)

    def committing(connection: Connection) -> None:
        if WRITES in connection.get_execution_options():
            seen.append("COMMIT")
            if seen.count("COMMIT") - 1 == commit:
                end_connections(store)

    event.listen(store.engine, "before_cursor_execute", before)
    event.listen(store.engine, "commit", committing)
    try:
        yield seen
    finally:
        event.remove(store.engine, "before_cursor_execute", before)
        event.remove(store.engine, "commit", committing)


@contextmanager
def lost_now_and_then(store: Store, seed: int, share: float) -> Iterator[Counter[str]]:
    """End a connection before that share of all statements and commits of the database; counts them."""
    name, dice, lost = store.engine.url.query["application_name"], random.Random(seed), Counter[str]()

    def throw(connection: Connection, what: str) -> None:
        if connection.engine.url.query.get("application_name") == name and dice.random() < share:
            lost[what] += 1
            pid = connection.connection.driver_connection.info.backend_pid  # type: ignore[union-attr]
            run_on_server("SELECT pg_terminate_backend(:pid, 10000)", pid=pid)

    def before(connection: Connection, *_: Any) -> None:
        throw(connection, "statement")

    def commit(connection: Connection) -> None:
        throw(connection, "commit")

    event.listen(Engine, "before_cursor_execute", before)
    event.listen(Engine, "commit", commit)
    try:
        yield lost
    finally:
        event.remove(Engine, "before_cursor_execute", before)
        event.remove(Engine, "commit", commit)


def application(site: Site) -> tuple[Client, Store]:
    """The service on the site's database, and the store that it uses."""
    app = create_app(site.settings)
    api = client_without_token(app)
    token = site.store.add_token(f"t{len(site.store.list_tokens())}", ROLES)
    api.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    store: Store = app.extensions["monkeytree"].store
    return api, store


def finish(
    site: Site, execution: str, around: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> str:
    """Carry it out as workers and reaper would, each taking up what another lost."""
    site.change(max_attempts=99)
    rows = site.store.executions
    for _ in range(40):
        with suppress(SQLAlchemyError), around():  # the worker logs it, and goes on
            site.run(execution)
        row = rows.find(execution)
        if not row.live:
            return row.state
        rows.expire(execution, row.attempt)
        rows.requeue_expired(99)
    raise AssertionError(rows.find(execution))


def arrived(site: Site, execution: str) -> None:
    """Every worker is where the plan wants it, once, and no job paused for more than its steps' pauses."""
    where, steps = site.nodes.where(), site.store.executions.steps(execution)
    for step in steps:
        assert step.state == "done"
        if step.kind == "move":
            assert where[step.job, step.group, step.rank or 0] == step.target
    workers = [worker for here in site.nodes.memory.workers.values() for worker in here]
    assert len(workers) == len(where), "no worker is there twice"
    allowed = {(f"{execution}-p{step.number}", step.epoch) for step in steps}
    made = {(its_id, request.epoch) for (_, its_id), (request, _) in site.nodes.memory.pauses.items()}
    assert made <= allowed, "whoever takes it up makes the same pauses, under the same epochs"
    assert site.store.reservations() == ()


@pytest.mark.parametrize(
    "call", ["put_move", "prepare_move", "put_pause", "start_pause", "pause", "commit_move"]
)
@pytest.mark.parametrize("document", ["room", "full"])
def test_an_execution_survives_the_loss_of_every_connection(site_of: Sites, call: str, document: str) -> None:
    site = site_of() if document == "room" else site_of(FULL)
    execution = site.order(site.plan(*TWO_WAVES) if document == "room" else site.plan())
    cut = Counter[str]()

    def cut_once_a_unit(node: str, name: str, its_id: str) -> None:
        if name == call and not cut[its_id]:
            cut[its_id] += 1
            end_connections(site.store)

    site.nodes.before = cut_once_a_unit
    assert finish(site, execution) == "done"
    assert cut
    arrived(site, execution)


@pytest.mark.parametrize("seed", range(2))
def test_an_execution_survives_losses_at_any_statement_or_commit(site_of: Sites, seed: int) -> None:
    site = site_of(FULL) if seed % 2 else site_of()
    execution = site.order(site.plan() if seed % 2 else site.plan(*TWO_WAVES))
    total, rounds = Counter[str](), iter(range(1000))

    @contextmanager
    def losses() -> Iterator[None]:
        with lost_now_and_then(site.store, seed * 1000 + next(rounds), 0.03) as lost:
            yield
        total.update(lost)

    assert finish(site, execution, losses) == "done"
    assert total
    arrived(site, execution)


def test_an_order_is_taken_once_wherever_the_connection_is_lost(site_of: Sites) -> None:
    site = site_of()
    api, store = application(site)
    plan = site.plan(MOVE)
    with lost_at(store) as seen:
        first = api.post("/v1/executions", json={"plan_id": plan})
    assert first.status_code == 202
    commits = seen.count("COMMIT")
    statements = len(seen) - commits
    assert statements > 8
    assert commits > 0
    site.store.executions.cancel(first.json["id"])
    for at in [*((at, -1) for at in range(statements)), *((-1, at) for at in range(commits))]:
        with lost_at(store, *at):
            answer = api.post("/v1/executions", json={"plan_id": plan})
        live = {one.execution_id for one in site.store.reservations()}
        if answer.status_code == 202:
            assert live == {answer.json["id"]}
        else:
            assert (answer.status_code, answer.json["code"]) == (503, "store_unavailable"), (at, answer.text)
            assert answer.headers["Retry-After"]
            assert len(live) <= 1
            answer = api.post("/v1/executions", json={"plan_id": plan})
            assert answer.status_code == (409 if live else 202), (at, answer.text)
        (its_id,) = {one.execution_id for one in site.store.reservations()}
        site.store.executions.cancel(its_id)


def test_a_write_is_run_again_only_where_it_was_surely_not_kept(site_of: Sites) -> None:
    site = site_of()
    store = site.store
    with lost_at(store, statement=0) as seen:
        store.reserve_key("t", "k", "h")
    assert [text.split()[0] for text in seen] == ["INSERT", "INSERT", "COMMIT"]
    with lost_at(store, commit=0) as seen, pytest.raises(DBAPIError):
        store.reserve_key("t", "other", "h")
    assert [text.split()[0] for text in seen] == ["INSERT", "COMMIT"]
    with lost_at(store, commit=0) as seen:
        store.keep_answer("t", "k", Answer(202, {}, b"{}"))
    assert [text.split()[0] for text in seen] == ["UPDATE", "COMMIT", "UPDATE", "COMMIT"]


@pytest.mark.parametrize(("commit", "status", "retried"), [(0, 503, 202), (1, 503, 202), (2, 202, 202)])
def test_with_a_key_too_a_lost_order_may_be_sent_again(
    site_of: Sites, commit: int, status: int, retried: int
) -> None:
    """Commits: the key is taken, the execution queued, the answer kept."""
    site = site_of()
    api, store = application(site)
    plan, key = site.plan(MOVE), {"Idempotency-Key": "k"}
    with lost_at(store, commit=commit):
        first = api.post("/v1/executions", json={"plan_id": plan}, headers=key)
    assert first.status_code == status, first.text
    second = api.post("/v1/executions", json={"plan_id": plan}, headers=key)
    assert second.status_code == retried, second.text
    assert {one.execution_id for one in store.reservations()} == {second.json["id"]}
    if status == 202:
        assert second.json["id"] == first.json["id"]
