"""Each process says in one line what its environment lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.rig import free_port

ROOT = Path(__file__).parent.parent.parent
COMMANDS = {
    "worker": ["-m", "celery", "-A", "monkeytree.workers.main", "worker"],
    "reaper": ["-m", "monkeytree.workers.reaper"],
    "service": ["-m", "gunicorn", "--no-control-socket", "-b", "127.0.0.1:{port}",
                "monkeytree.service.main:create_app()"],
}  # fmt: skip


@pytest.mark.parametrize("process", COMMANDS)
@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, "REDIS_URL is not set"),
        ({"REDIS_URL": "redis://localhost", "MONKEYTREE_LEASE_S": "soon"}, "'soon'"),
        ({"REDIS_URL": "redis://localhost", "DATABASE_URL": "mysql://h/d"}, "mysql://h/d"),
    ],
)
def test_a_wrong_environment_ends_it_with_a_message(
    process: str, environ: dict[str, str], says: str, tmp_path: Path
) -> None:
    ours = ("REDIS_URL", "DATABASE_URL")
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ours and not name.startswith("MONKEYTREE_")
    }
    command = [part.format(port=free_port()) for part in COMMANDS[process]]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env=clean | environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert says in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert f"monkeytree {process}: " in done.stderr


def test_importing_the_worker_needs_no_environment() -> None:
    import monkeytree.workers.main

    assert not hasattr(monkeytree.workers.main, "nothing")
