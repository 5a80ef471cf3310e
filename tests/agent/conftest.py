from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The whole matrix takes minutes: only where it is asked for."""
    if os.environ.get("MONKEYTREE_DRILL"):
        return
    for item in items:
        if item.get_closest_marker("drill"):
            item.add_marker(pytest.mark.skip(reason="MONKEYTREE_DRILL=1 runs the whole matrix"))
