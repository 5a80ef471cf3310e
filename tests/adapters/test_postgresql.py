"""What only PostgreSQL does: deadlocks, locks that are held, other encodings, servers that are away."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, make_url, select, update
from sqlalchemy.exc import OperationalError

from monkeytree.adapters.again import again
from monkeytree.adapters.errors import BadSetting
from monkeytree.adapters.store import Store
from monkeytree.adapters.tables import clusters
from tests.databases import SERVER, run_on_server

pytestmark = pytest.mark.skipif(SERVER is None, reason="no PostgreSQL server: make test-postgres")


def test_two_transactions_that_wait_for_each_other_both_come_to_their_end(store: Store) -> None:
    with store.writing() as connection:
        connection.execute(insert(clusters), [{"name": "a"}, {"name": "b"}])
    gate, tries = threading.Barrier(2), list[str]()

    @again
    def lock_both(first: str, second: str) -> None:
        tries.append(first)
        with store.writing() as connection:
            for index, name in enumerate((first, second)):
                connection.execute(update(clusters).where(clusters.c.name == name).values(newest_sequence=1))
                if index == 0 and tries.count(first) == 1:
                    gate.wait(60)

    threads = [threading.Thread(target=lock_both, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tries) == 3, "one of them was broken off, and ran again"
    with store.reading() as connection:
        assert list(connection.execute(select(clusters.c.newest_sequence)).scalars()) == [1, 1]


def test_a_lock_that_is_not_let_go_is_waited_for_only_so_long(url: str) -> None:
    holder, waiter = Store(url), Store(url, busy_s=0.2)
    holder.create()
    holder.beat("api:1")
    with holder.writing() as connection:
        connection.exec_driver_sql("UPDATE heartbeats SET note = 'held'")
        with pytest.raises(OperationalError, match="lock timeout"):
            waiter.beat("api:1")
    waiter.beat("api:1")
    holder.close()
    waiter.close()


def test_whatever_the_defaults_are_a_connection_is_as_the_store_needs_it(store: Store) -> None:
    def shown(name: str) -> Any:
        with store.reading() as connection:
            return connection.exec_driver_sql(f"SHOW {name}").scalar()

    assert shown("transaction_isolation") == "read committed"
    assert shown("client_encoding") == "UTF8"
    assert shown("lock_timeout") == "10s"
    assert shown("idle_in_transaction_session_timeout") == "30s"


def test_a_database_that_cannot_hold_every_name_is_refused() -> None:
    name = "t_latin1"
    run_on_server(f"DROP DATABASE IF EXISTS {name}", autocommit=True)
    run_on_server(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'",
        autocommit=True,
    )
    try:
        assert SERVER is not None
        store = Store(make_url(SERVER).set(database=name).render_as_string(hide_password=False))
        with pytest.raises(BadSetting, match="'t_latin1' of DATABASE_URL has the encoding 'LATIN1'"):
            store.create()
        store.close()
    finally:
        run_on_server(f"DROP DATABASE {name}", autocommit=True)


def test_a_server_that_is_away_is_told_without_the_password(tmp_path: Path) -> None:
    store = Store(f"postgresql://someone:secret@/monkeytree?host={tmp_path}")
    with pytest.raises(BadSetting) as refused:
        store.create()
    assert "DATABASE_URL" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_user_that_may_make_no_tables_is_told_so(url: str) -> None:
    run_on_server("DROP ROLE IF EXISTS t_reader")
    run_on_server("CREATE ROLE t_reader LOGIN")
    store = Store(make_url(url).set(username="t_reader").render_as_string(hide_password=False))
    try:
        with pytest.raises(BadSetting, match="let this user make tables"):
            store.create()
    finally:
        store.close()
        run_on_server("DROP ROLE t_reader")
