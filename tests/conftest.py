"""What every test leaves as it was, and the database that tests of the store share out."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import own_database


@pytest.fixture(autouse=True)
def _broken_pipes_are_errors() -> Iterator[None]:
    """A command run in this process makes a reader that leaves end it; the tests after it must live on."""
    before = signal.getsignal(signal.SIGPIPE)
    yield
    if signal.getsignal(signal.SIGPIPE) is not before:
        signal.signal(signal.SIGPIPE, before)


@pytest.fixture
def database_url(tmp_path: Path) -> Iterator[str]:
    """An empty database of the test's own; TEST_DATABASE_URL chooses PostgreSQL (:mod:`tests.databases`)."""
    with own_database(tmp_path) as url:
        yield url
