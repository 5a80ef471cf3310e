"""docs/errors.md is what the code says, and no code is missing from it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

from monkeytree.errors import MonkeyTreeError
from tools.errors_page import EXITS, FAILURES, errors_page

ROOT = Path(__file__).parent.parent


def test_the_page_is_in_step() -> None:
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    assert page == errors_page(), "write it anew: python tools/errors_page.py > docs/errors.md"


def _modules(package: str) -> list[ModuleType]:
    root = importlib.import_module(package)
    found = pkgutil.walk_packages(root.__path__, f"{package}.")
    return [importlib.import_module(module.name) for module in found if not module.name.endswith("__main__")]


@pytest.mark.parametrize(
    "package",
    [
        "monkeytree.adapters",
        "monkeytree.service",
        "monkeytree.workers",
        "monkeytree.slurm",
        "monkeytree.solvers",
    ],
)
def test_every_code_is_on_the_page(package: str) -> None:
    page = errors_page()
    for module in _modules(package):
        for member in vars(module).values():
            if inspect.isclass(member) and issubclass(member, MonkeyTreeError):
                assert f"| `{member.code}` |" in page, member


def test_every_exit_code_has_a_meaning() -> None:
    from monkeytree.cli.errors import Exit

    assert set(EXITS) == set(Exit)


def test_workers_make_up_no_failure_codes() -> None:
    text = "".join(source.read_text("utf-8") for source in (ROOT / "workers").rglob("*.py"))
    said = re.findall(r'(?:failure = \(|ReplayFailed\()"([a-z_]+)"', text)
    assert set(said) <= {*FAILURES, "internal"}
