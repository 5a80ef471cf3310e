"""A store, in the database that TEST_DATABASE_URL chooses."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from monkeytree.adapters.store import Store


@pytest.fixture
def url(database_url: str) -> str:
    return database_url


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = Store(url)
    made.create()
    yield made
    made.close()


@pytest.fixture
def cluster() -> str:
    """A cluster of the test's own."""
    return uuid.uuid4().hex
