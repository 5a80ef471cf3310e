"""The packaging says what the folders say."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import monkeytree

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
TOP = {Path(folder): name for name, folder in SETUPTOOLS["package-dir"].items()}
LONGEST_FILE = 400
LONGEST_FUNCTION = 80  # hard limits both; the targets are 250 and 40


def code_files() -> list[Path]:
    return sorted(file for folder in TOP for file in (ROOT / folder).rglob("*.py"))


def test_every_package_is_listed() -> None:
    found = {
        ".".join([name, *init.parent.relative_to(ROOT / folder).parts])
        for folder, name in TOP.items()
        for init in (ROOT / folder).rglob("__init__.py")
    }
    assert found == set(SETUPTOOLS["packages"])


def test_every_top_folder_with_a_package_is_mapped_and_linted() -> None:
    found = {init.parent.name for init in ROOT.glob("*/__init__.py")} - {"tests", "bench"}
    assert found == {str(folder) for folder in TOP}
    assert found == set(PROJECT["tool"]["importlinter"]["root_packages"])


def test_the_version_is_said_once() -> None:
    assert monkeytree.__version__ == PROJECT["project"]["version"]


def test_importing_the_facade_is_light() -> None:
    heavy = (
        "{'marshmallow', 'flask', 'celery', 'sqlalchemy', 'networkx', 'gurobipy', 'highspy', 'numpy', 'rich'}"
    )
    code = f"import sys, monkeytree; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_apps_import_relatively_and_never_each_other() -> None:
    """But for the command line, which may start any app; nothing imports that."""
    apps = {str(folder) for folder in TOP} - {"monkeytree", "examples"}
    for folder in apps:
        others = apps if folder != "cli" else {"cli"}
        installed = tuple(f"monkeytree.{app}" for app in others)
        for file in (ROOT / folder).rglob("*.py"):
            for name in _absolute_imports(file):
                assert name.split(".")[0] not in apps, f"{file}: {name}"
                assert not name.startswith(installed), f"{file}: {name}"


def _absolute_imports(file: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.append(node.module)
    return names


def test_files_and_functions_are_short() -> None:
    long_files = {
        str(file): n
        for file in code_files()
        if (n := len(file.read_text("utf-8").splitlines())) > LONGEST_FILE
    }
    assert long_files == {}
    long_functions = {
        f"{file}:{node.lineno} {node.name}"
        for file in code_files()
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _code_lines(node) > LONGEST_FUNCTION
    }
    assert long_functions == set()


def _code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, its docstring left out."""
    docstring = len((ast.get_docstring(function, clean=False) or "").splitlines())
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring
