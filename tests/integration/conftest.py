"""Rigs of real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .rig import Rig, rig


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Valkey, API, worker and reaper, shared by the tests of a module."""
    with rig(tmp_path_factory.mktemp("running")) as made:
        made.api()
        made.worker()
        made.reaper()
        yield made


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Rig]:
    """Valkey and an API of the test's own; it starts and kills the others itself."""
    with rig(tmp_path / "rig") as made:
        made.api()
        yield made
