"""One build of the fake library, the shim and the program for all tests here."""

from __future__ import annotations

import pytest

from .harness import Bench, bench_in


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Skips where there is no gcc (in CI that fails) or no trampoline for the machine."""
    return bench_in(tmp_path_factory.mktemp("shim"))
