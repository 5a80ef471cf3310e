"""One build of the fake library, the shim and the program for all tests here."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import pytest

from monkeytree.agent.shim.assembly import MACHINES
from monkeytree.agent.shim.build import build

from .harness import HERE, Bench, build_fake, compile_c


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Skips where there is no gcc (in CI that fails) or no trampoline for the machine."""
    if shutil.which("gcc") is None and os.environ.get("CI") != "true":
        pytest.skip("the shim is C: needs gcc")
    if platform.machine() not in MACHINES:
        pytest.skip(f"the shim has no trampolines for {platform.machine()}")
    root = tmp_path_factory.mktemp("shim")
    fake = build_fake(root / "fake")
    (root / "fake" / "libibverbs.so").symlink_to("libibverbs.so.1")
    shim = build(root / "shim", fake, extra=["-Werror"])
    program = compile_c(root / "program", [HERE / "program.c"])
    return Bench(root, program, shim, Path(fake))
