"""What every test leaves as it was."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _broken_pipes_are_errors() -> Iterator[None]:
    """A command run in this process makes a reader that leaves end it; the tests after it must live on."""
    before = signal.getsignal(signal.SIGPIPE)
    yield
    if signal.getsignal(signal.SIGPIPE) is not before:
        signal.signal(signal.SIGPIPE, before)
