"""``monkeytree slurm watch`` beside a running service: it follows, and outlives both."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.serving import Served, serving

from .lab import ROOT, Lab, eventually
from .test_reading import overflow


@contextmanager
def watching(lab: Lab, served: Served, token: str, folder: Path) -> Iterator[Path]:
    """A watch with a quick pace; yields the file of what it says."""
    (folder / "token").write_text(token)
    (folder / "token").chmod(0o600)
    (folder / "site.yaml").write_text(
        "racks: {uplinks: 2}\n"
        f"slurm: {{timeout_s: 5, conf: {lab.conf}}}\n"
        "watch: {interval_s: 3600, floor_s: 0.5, longest_s: 3600}\n"
    )
    log = folder / "watch.log"
    command = [sys.executable, "-m", "monkeytree.cli", "slurm", "watch", "--server", served.url]
    options = ["--token-file", "token", "--site", "site.yaml", "--state", "state.json", "--notice", "notice"]
    with log.open("a") as said:
        process = subprocess.Popen([*command, *options], cwd=folder, stderr=said, stdin=subprocess.DEVNULL)
    try:
        yield log
    finally:
        process.terminate()
        assert process.wait(30) == 0


def sent(log: Path) -> int:
    return log.read_text().count("sent snapshot")


def get(served: Served, token: str, path: str, **params: Any) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.get(served.url + path, headers=headers, params=params, timeout=40, trust_env=False)
    return answer.raise_for_status().json()


def newest_plan(served: Served, token: str) -> Any:
    (newest, *_) = get(served, token, "/v1/plans", cluster="lab")["items"]
    return get(served, token, f"/v1/plans/{newest['id']}", wait=30)


def notify(folder: Path) -> None:
    """What the hook does."""
    subprocess.run(["touch", str(folder / "notice")], check=True, timeout=10)


@pytest.mark.slow
def test_a_watch_follows_and_outlives(lab: Lab, tmp_path: Path) -> None:
    jobs = overflow(lab)
    data = tmp_path / "data"
    with serving(data, tmp_path / "serve.log") as served:
        token = served.token
        assert token is not None
        port = served.url.rpartition(":")[2]
        with watching(lab, served, token, tmp_path) as log:
            assert eventually(lambda: sent(log) == 1), log.read_text()
            plan = newest_plan(served, token)
            assert (plan["status"], plan["moves_needed"]) == ("optimal", 2)
            assert "over their bounds: rack03 by 1" in log.read_text()

            notify(tmp_path)
            lab.client.run("scancel", str(jobs["A"]))
            assert eventually(lambda: jobs["A"] not in lab.states())
            notify(tmp_path)
            assert eventually(lambda: _notified(tmp_path, log, 2)), log.read_text()
            assert newest_plan(served, token)["status"] == "compliant"

            lab.stop_controller()
            notify(tmp_path)
            assert eventually(lambda: "cannot read the cluster" in log.read_text()), log.read_text()
            lab.start_controller()
        with watching(lab, served, token, tmp_path) as log:
            lab.submit("D", "node[030-032]")
            assert eventually(lambda: len(lab.states()) == 3)
            assert eventually(lambda: _notified(tmp_path, log, 3)), log.read_text()
            sequences = [
                row["sequence"] for row in get(served, token, "/v1/snapshots", cluster="lab")["items"]
            ]
            # Listed by the second they were taken in, which two may share.
            assert sorted(sequences) == [0, 1, 2], "each one higher than the one before"
            before = sent(log)

            # the service goes and comes back empty: it is told again, with a sequence of its own
            kept = served.process
            kept.terminate()
            kept.wait(60)
        with serving(tmp_path / "data2", tmp_path / "serve2.log", "--port", port) as again:
            fresh = again.token
            assert fresh is not None
            with watching(lab, again, fresh, tmp_path) as log:
                assert eventually(lambda: sent(log) == before + 1), log.read_text()
                assert get(again, fresh, "/v1/snapshots", cluster="lab")["items"][0]["sequence"] > max(
                    sequences
                )
    state = json.loads((tmp_path / "state.json").read_text())
    assert state["cluster"] == "lab"


def _notified(folder: Path, log: Path, times: int) -> bool:
    """Notify until so many snapshots are sent: the first may come before the cluster has settled."""
    notify(folder)
    return sent(log) >= times


def test_a_dead_controller_does_not_hold_anybody_up(lab: Lab, tmp_path: Path) -> None:
    lab.stop_controller()
    try:
        (tmp_path / "site.yaml").write_text(f"slurm: {{timeout_s: 3, conf: {lab.conf}}}\n")
        command = [sys.executable, "-m", "monkeytree.cli", "slurm", "snapshot", "--site", "site.yaml"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    finally:
        lab.start_controller()
    assert done.returncode == 2
    assert "Error (slurm_unavailable): squeue" in done.stderr
    assert "Traceback" not in done.stderr
    assert ROOT.exists()
