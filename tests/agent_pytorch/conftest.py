"""Without PyTorch these files cannot even be imported; test_available.py then says so."""

from __future__ import annotations

import os
from importlib.util import find_spec

HERE = find_spec("torch") is not None
os.environ.setdefault("OMP_NUM_THREADS", "1")

if not HERE and os.environ.get("MONKEYTREE_REQUIRE_TORCH") != "1":
    collect_ignore_glob = ["test_[!a]*.py"]
