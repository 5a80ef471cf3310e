"""The facade: five names, and an import that costs nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import monkeytree

HEAVY = (
    "celery", "flask", "gurobipy", "highspy", "marshmallow", "networkx", "numpy", "pulp", "redis", "rich",
    "sqlalchemy",
)  # fmt: skip


def loaded_after(code: str) -> list[str]:
    listing = f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    names: list[str] = json.loads(done.stdout)
    return names


def test_importing_it_loads_nothing_heavy() -> None:
    names = loaded_after("import monkeytree; dir(monkeytree); monkeytree.__version__")
    assert not set(HEAVY) & set(names)
    assert [name for name in names if name.startswith("monkeytree")] == ["monkeytree"]


def test_the_plan_and_its_errors_load_no_solver_and_no_web() -> None:
    names = loaded_after("import monkeytree.plan, monkeytree.snapshot, monkeytree.errors")
    assert not set(HEAVY) & set(names)


def test_planning_loads_no_web_queue_or_store() -> None:
    names = loaded_after(
        "import monkeytree; monkeytree.make_plan; monkeytree.check; monkeytree.load_snapshot"
    )
    assert not {"celery", "flask", "redis", "sqlalchemy", "rich", "gurobipy", "highspy"} & set(names)


@pytest.mark.parametrize("name", monkeytree.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(monkeytree, name) is not None
    assert name in dir(monkeytree)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'make_plans'"):
        _ = monkeytree.make_plans
