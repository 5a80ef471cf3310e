"""A store: SQLite always, PostgreSQL too where TEST_DATABASE_URL names one for the tests' own use."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from monkeytree.adapters.store import Store

SERVER = os.environ.get("TEST_DATABASE_URL")


@pytest.fixture(params=["sqlite", *(["postgresql"] if SERVER else [])])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        assert SERVER is not None
        return SERVER
    return f"sqlite:///{tmp_path}/monkeytree.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = Store(url)
    made.create()
    yield made
    made.close()


@pytest.fixture
def cluster() -> str:
    """A cluster of the test's own: a PostgreSQL store is shared by the tests."""
    return uuid.uuid4().hex
