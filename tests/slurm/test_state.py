"""``monkeytree slurm state`` with real agents and a real job of plain workers, without Slurm."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from monkeytree.adapters.agents import AgentUnreachable
from monkeytree.cli.agent_book import Book, finder, of_service
from monkeytree.cli.errors import CommandFailed
from monkeytree.cli.slurm_state import state
from monkeytree.cli.state_move import BEFORE, StateMove
from monkeytree.cli.state_seen import Errand, NotMoved, Seen
from monkeytree.wire.agents import Command, MoveRequest
from tests.agent.rig import Job, Rig

SECRET = "mta_test"
TOLD = {
    "MT_PLAN": "plan", "MT_CLUSTER": "lab", "MT_MOVE": "3", "MT_JOB": "4711", "MT_GROUP": "0",
    "MT_RANK": "1", "MT_SOURCE": "b", "MT_TARGET": "c", "MT_NODES": "a,b", "MT_ORDERS": '{"0": [0, 1]}',
}  # fmt: skip


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "rig")
    made.folder.mkdir()
    try:
        yield made
    finally:
        made.close()


def train(rig: Rig) -> Job:
    """A job on a and b; c is free."""
    for node in ("a", "b", "c"):
        (rig.folder / node).mkdir(mode=0o700)
        token = rig.folder / node / "token"
        token.touch(0o600)
        token.write_text(SECRET)
        rig.agent(node)
    job = rig.job(["a", "b"], job="4711")
    job.ready()
    return job


def errand(rig: Rig, **changes: object) -> tuple[Errand, Book]:
    values = {
        "name": "mt:p:0", "plan": "p", "job": "4711", "group": "0", "rank": 1, "source": "b", "target": "c",
        "nodes": ("a", "b"), "orders": {"0": (1, 0)}, "patience_s": 20.0, **changes,
    }  # fmt: skip
    return Errand(**values), Book(finder(f"{rig.folder}/{{node}}/url"), SECRET)


def move(rig: Rig, **changes: object) -> str:
    made, book = errand(rig, **changes)
    try:
        said: str = StateMove(made, book, lambda _stage: None).run()
        return said
    finally:
        book.close()


def test_a_state_moves_once(rig: Rig) -> None:
    """Asked for twice at the same time, and once more, it moves once; the ring has its new order."""
    job = train(rig)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(move, rig) for _ in range(2)]
        said = [one.result() for one in both]
    assert all(words == BEFORE or words.startswith("the state has moved") for words in said)
    assert move(rig) == BEFORE
    known = rig.agents["c"].client.move("mt:p:0-t1-m0")
    assert known.state == "RELEASED"
    assert Seen(*errand(rig)).last_attempt("c")[0] == 1
    job.nodes[1] = "c"
    for other in ({"job": "4712"}, {"rank": 0}, {"source": "c", "target": "b", "nodes": ("a", "c")}):
        with pytest.raises(
            NotMoved, match="name_taken: mt:p:0 was rank 1 of group '0' of job '4711' from b to c"
        ):
            move(rig, **other)
    forgotten = Seen(*errand(rig, name="mt:forgotten:0"))
    assert forgotten.where() == "target", "agents forget old moves; the worker is there all the same"
    results = job.stop()
    assert results[1]["order"] == [1, 0]
    job.assert_unharmed(results)


def test_what_stops_it_is_named(rig: Rig) -> None:
    """And the job trains on; afterwards the same move is made, with an epoch that no agent has seen."""
    job = train(rig)
    for changes, reason in (
        ({"target": "d"}, "agent_unreachable: the agent at node d"),
        ({"nodes": ("b",)}, "wrong_members: agents tell of 1 of the 2 workers"),
        ({"rank": 7}, "unknown_worker: no agent of the job's nodes tells of rank 7"),
        ({"transport": "nonsense"}, ""),
    ):
        with pytest.raises(NotMoved) as failed:
            move(rig, patience_s=1.0, **changes)
        assert str(failed.value).startswith(reason)
        assert str(failed.value).endswith(("it goes on at b", "nothing was begun"))
    assert job.worker(1).state == "training"
    client = rig.agents["c"].client
    client.put_move("another", MoveRequest(50, "4711", "0", 1, "destination", "b", "c"))
    client.abort_move("another", Command(50))
    assert move(rig).startswith("the state has moved")
    number, status = Seen(*errand(rig)).last_attempt("c")
    assert status is not None
    assert (status.state, status.epoch) == ("RELEASED", 51)
    assert number == 1, "what was refused before was never made"


def test_where_it_is_cannot_be_told_without_agents(rig: Rig) -> None:
    assert Seen(*errand(rig), quick_s=0.1).where() == ""


def test_the_command(rig: Rig, tmp_path: Path) -> None:
    """As ``slurm execute`` runs it: told by the environment, answering by its exit code."""
    train(rig)
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "token").chmod(0o600)
    lines = [f"{node} {(rig.folder / node / 'url').read_text().strip()}" for node in ("a", "b", "c")]

    def run(agents: str, **output: Any) -> subprocess.CompletedProcess[str]:
        (tmp_path / "agents").write_text(agents)
        return subprocess.run(
            [
                sys.executable, "-m", "monkeytree.cli", "slurm", "state", "--agents", "agents",
                "--token-file", "token", "--patience", "2",
            ],
            cwd=tmp_path, env={**os.environ, **TOLD}, text=True, timeout=120, check=False,
            **(output or {"capture_output": True}),
        )  # fmt: skip

    disk = os.open("/dev/full", os.O_WRONLY)
    full = {"stdout": disk, "stderr": disk}  # a full disk takes the words, not the exit code
    failed = run("\n".join(lines[:2]))
    assert failed.returncode == 7
    assert "Error: (state_not_moved) agent_unreachable: the agent at node c" in failed.stderr
    assert run("\n".join(lines[:2]), **full).returncode == 7
    moved = run("\n".join(lines))
    assert (moved.returncode, moved.stdout.startswith("the state has moved: ")) == (0, True), moved.stderr
    assert run("\n".join(lines), **full).returncode == 0
    os.close(disk)


def test_the_service_tells_where_agents_are() -> None:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            good = self.headers["Authorization"] == "Bearer t" and self.path == "/v1/agents?cluster=east"
            self.send_response(200 if good else 401)
            self.end_headers()
            self.wfile.write(orjson.dumps({"items": [{"node": "a", "url": "http://x:1", "more": 1}]}))

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    find = of_service(url, "t", "east")
    assert (find("a"), find("b")) == ("http://x:1", None)
    with pytest.raises(AgentUnreachable, match="401"):
        of_service(url, "u", "east")("a")
    server.shutdown()
    server.server_close()


def test_where_agents_are_is_read_closely(tmp_path: Path) -> None:
    assert finder("http://{node}:8091")("n1") == "http://n1:8091"
    with pytest.raises(CommandFailed, match=r"needs \{node\}"):
        finder("http://n1:8091")
    (tmp_path / "agents").write_text("# agents\nn1 http://x:1  # one\n\n")
    assert finder(str(tmp_path / "agents"))("n1") == "http://x:1"
    (tmp_path / "agents").write_text("# agents\nb\n")
    with pytest.raises(CommandFailed, match="line 2: 'b' is no NODE URL"):
        finder(str(tmp_path / "agents"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"MT_NODES": "n[1-"}, "--nodes 'n[1-'"),
        ({"MT_ORDERS": '{"0": 1}'}, "--orders must be like"),
        ({"MT_RANK": "-1"}, "MT_RANK"),
        ({"MT_SOURCE": ""}, "--source"),
        ({"MT_SOURCE": "z"}, "--source z is none of --nodes a,b"),
        ({"MT_TARGET": "b"}, "--source and --target are both b"),
        ({"MT_ORDERS": '{"0": [0, 0]}'}, "--orders must be like"),
    ],
)
def test_what_it_is_told_wrongly_is_refused(changes: dict[str, str], said: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "token").chmod(0o600)
    words = ["--agents", "http://{node}:1", "--token-file", str(tmp_path / "token")]
    done = CliRunner().invoke(state, words, env={**TOLD, **changes})
    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--agents", "http://agents:1/{node}"], "without path"),
        (["--agents", "ftp://{node}"], "it must be http://HOST:PORT"),
        (["--agents", "http://{node}:1", "--pause", "nan"], "must be numbers of seconds"),
        (["--agents", "http://{node}:1", "--transport", "pigeon"], "is not one of"),
    ],
)
def test_what_no_agent_could_do_is_not_waited_for(more: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "token").chmod(0o600)
    done = CliRunner().invoke(state, ["--token-file", str(tmp_path / "token"), *more], env=TOLD)
    assert done.exit_code == 2
    assert said in done.output
