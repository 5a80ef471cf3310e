"""Whether the tests of the training side run at all."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest


@pytest.mark.skipif(
    find_spec("torch") is None and os.environ.get("MONKEYTREE_REQUIRE_TORCH") != "1",
    reason="PyTorch is not here; MONKEYTREE_REQUIRE_TORCH=1 makes this a failure",
)
def test_torch_is_here() -> None:
    assert find_spec("torch") is not None
