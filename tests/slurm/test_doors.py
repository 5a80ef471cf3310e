"""The doors to Slurm and to the service: time limits, refusals, the command line."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from monkeytree.cli.slurm import slurm
from monkeytree.slurm.advise import as_text, proposals
from monkeytree.slurm.build import build_snapshot
from monkeytree.slurm.client import SlurmClient
from monkeytree.slurm.errors import InvalidTopology, ServiceUnavailable, SlurmFailed, SlurmUnavailable
from monkeytree.slurm.posting import Service, Stale
from monkeytree.slurm.rest import RestClient
from monkeytree.slurm.sources import LiveSource, RestSource
from monkeytree.slurm.steps import read_steps

from .samples import DATA, document, reading, site


@pytest.fixture
def bin_folder(tmp_path: Path) -> Callable[[str, str], str]:
    """Makes commands of our own: ``bin_folder("squeue", "echo hello")``; gives their folder."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def make(name: str, script: str) -> str:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        return str(folder)

    return make


Make = Callable[[str, str], str]


def test_no_call_waits_for_ever(bin_folder: Make) -> None:
    client = SlurmClient(timeout_s=0.3, bin=bin_folder("squeue", "sleep 30"))
    with pytest.raises(SlurmUnavailable, match=r"squeue did not answer within 0\.3 s"):
        client.jobs()


def test_refusals_carry_slurms_words(bin_folder: Make) -> None:
    folder = bin_folder("scontrol", "echo 'Invalid node name specified' >&2; exit 1")
    with pytest.raises(
        SlurmFailed, match=r"scontrol update JobId=1 failed.*Invalid node name specified"
    ) as caught:
        SlurmClient(bin=folder).run("scontrol", "update", "JobId=1")
    assert not isinstance(caught.value, SlurmUnavailable)
    bin_folder(
        "squeue",
        "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1",
    )
    with pytest.raises(SlurmUnavailable, match="Unable to contact"):
        SlurmClient(bin=folder).jobs()
    with pytest.raises(SlurmUnavailable, match=r"cannot run .*sinfo: No such file"):
        SlurmClient(bin=folder).nodes()


def test_the_conf_is_handed_on(bin_folder: Make) -> None:
    folder = bin_folder("scontrol", 'echo "ClusterName = $SLURM_CONF"')
    assert SlurmClient(conf="/x/slurm.conf", bin=folder).config() == {"ClusterName": "/x/slurm.conf"}


def test_requests_are_counted() -> None:
    client = SlurmClient()
    for call, times in (
        ("squeue --json", 2),
        ("squeue --steps --noheader", 1),
        ("sinfo --json", 1),
        ("sacct --jobs 7", 3),
    ):
        client.calls[call] += times
    client.calls["scontrol show topology"] += 1
    client.calls["scontrol show config"] += 1
    assert client.rpcs == 2 + 2 + 2 + 0 + 1 + 2


def fake_slurm(make: Make) -> str:
    """Commands that print the samples of the live cluster."""
    make(
        "squeue", f'case "$*" in *--steps*) cat {DATA}/live_steps.txt;; *) cat {DATA}/live_squeue.json;; esac'
    )
    make("sinfo", f"cat {DATA}/live_sinfo.json")
    make("sacct", 'echo "Environment used for $2"; echo ------; echo PIPES=3')
    return make(
        "scontrol",
        f'case "$*" in *topology*) cat {DATA}/topology.conf;; *) echo "ClusterName = lab";; esac',
    )


def test_a_live_reading_and_what_it_keeps(bin_folder: Make) -> None:
    where = site(jobs={"environment": {"pp": "PIPES"}})
    clock = [0.0]
    source = LiveSource(where, SlurmClient(bin=fake_slurm(bin_folder)), clock=lambda: clock[0])
    first = build_snapshot(source.read(), where)
    assert first.snapshot.cluster == "lab"
    assert [len(job.replica_groups) for job in first.snapshot.jobs] == [1, 1, 3], (
        "7 nodes are not to be divided by 3"
    )
    assert source.client.calls["scontrol show topology"] == 1
    assert source.client.calls["sacct --jobs 1"] == 1
    source.read()
    assert source.client.calls["scontrol show topology"] == 1
    assert source.client.calls["sacct --jobs 1"] == 1, "once a job"
    clock[0] = 601
    source.read()
    assert source.client.calls["scontrol show topology"] == 2


def test_a_cluster_without_topology_is_told_so(bin_folder: Make) -> None:
    fake_slurm(bin_folder)
    folder = bin_folder("scontrol", "exit 0")
    with pytest.raises(InvalidTopology, match="say racks in a file"):
        LiveSource(site(), SlurmClient(bin=folder)).read()


def test_steps() -> None:
    steps = read_steps("1.0|node001\n1.batch|node001\n3_2.extern|node[1-2]\n3_2.0|node[1-2]\n4+1.0|n9\n\n")
    assert steps == {"1": (("node001",),), "3_2": (("node1", "node2"),), "4+1": (("n9",),)}
    for wrong in ("1.0", "1|node1", "1.0|node[1"):
        with pytest.raises(Exception, match="line 1"):
            read_steps(wrong)


Answer = tuple[int, str, dict[str, str]]


@contextmanager
def answering(answer: Callable[[str, str, dict[str, str], bytes], Answer]) -> Iterator[str]:
    """An HTTP server whose every answer ``answer(method, path, headers, body)`` gives; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, text, headers = answer(self.command, self.path, dict(self.headers.items()), body)
            self.send_response(status)
            for key, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = _any  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def restd(method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
    """A slurmrestd of version 0.0.40 with the samples; it wants its token."""
    token = {key.lower(): value for key, value in headers.items()}.get("x-slurm-user-token")
    if token != "jwt":
        return 401, "Authentication failure", {"Content-Type": "text/plain"}
    if not path.startswith("/slurm/v0.0.40/"):
        return 404, "Unable to find requested URL", {"Content-Type": "text/plain"}
    if path.endswith("/ping"):
        return 200, "{}", {}
    if path.endswith("/jobs"):
        return 200, (DATA / "squeue.json").read_text("utf-8"), {}
    return 200, (DATA / "sinfo.json").read_text("utf-8"), {}


def test_rest_finds_its_version_and_reads() -> None:
    where = site(topology={"file": str(DATA / "topology.conf")})
    with answering(restd) as url:
        client = RestClient(url, "jwt")
        read = RestSource(where, client).read()
        assert client.version == "v0.0.40"
        assert (
            build_snapshot(read, where).snapshot.jobs == build_snapshot(reading("gpus"), where).snapshot.jobs
        )
        with pytest.raises(SlurmFailed, match=r"refuses the token \(401\)"):
            RestClient(url, "other", version="v0.0.40").jobs()
        with pytest.raises(SlurmFailed, match=r"404 Unable to find"):
            RestClient(url, "jwt", version="v0.0.38").jobs()
        with pytest.raises(InvalidTopology, match="slurmrestd does not tell it"):
            RestSource(site(), client).read()
    with pytest.raises(SlurmUnavailable, match="cannot reach slurmrestd"):
        RestClient(url, "jwt", version="v0.0.40", timeout_s=2).jobs()


def test_rest_errors_come_with_200() -> None:
    body = json.dumps({"errors": [{"error": "slurm_load_jobs", "error_number": -1}], "jobs": []})
    with answering(lambda *_: (200, body, {})) as url, pytest.raises(SlurmFailed, match="slurm_load_jobs"):
        RestClient(url, "jwt", version="v0.0.38").jobs()


def test_the_service_is_told_and_its_refusals_are_shown() -> None:
    snapshot = build_snapshot(reading("live"), site(), sequence=3).snapshot
    answers: list[Answer] = [
        (202, json.dumps({"snapshot_id": "s", "plan_id": "p", "over": {"rack03": 1}}), {}),
        (409, json.dumps({"code": "stale_snapshot"}), {}),
        (
            422,
            json.dumps({"code": "invalid_snapshot", "detail": "no good", "errors": [{"pointer": "/jobs"}]}),
            {},
        ),
        (200, "hello", {}),
    ]
    with answering(lambda *_: answers.pop(0)) as url:
        service = Service(url, "mt_x", timeout_s=5)
        assert service.submit(snapshot).over == {"rack03": 1}
        with pytest.raises(Stale):
            service.submit(snapshot)
        with pytest.raises(ServiceUnavailable, match=r"422 invalid_snapshot no good.*/jobs"):
            service.submit(snapshot)
        with pytest.raises(ServiceUnavailable, match="is no JSON"):
            service.submit(snapshot)
    with pytest.raises(ServiceUnavailable, match="cannot reach"):
        service.submit(snapshot)


def run(*arguments: str) -> tuple[int, str, str]:
    """``monkeytree slurm ...``, its errors mapped as the command line does."""
    from monkeytree.cli.errors import report

    done = CliRunner().invoke(slurm, arguments, standalone_mode=False)
    if done.exception is not None:
        return report(done.exception), done.stdout, str(done.exception)
    return int(done.return_value or 0), done.stdout, done.stderr


FILES = ("--squeue", str(DATA / "squeue.json"), "--sinfo", str(DATA / "sinfo.json"))
TOPOLOGY = ("--topology", str(DATA / "topology.conf"))


def test_the_command_writes_a_snapshot(tmp_path: Path) -> None:
    code, out, _ = run("snapshot", *FILES, *TOPOLOGY)
    assert code == 0
    assert json.loads(out)["cluster"] == "mt"
    target = tmp_path / "snapshot.json"
    assert run("snapshot", *FILES, *TOPOLOGY, "--pending", "-o", str(target))[0] == 0
    assert [one["id"] for one in json.loads(target.read_text())["pending"]] == ["31"]


def test_the_command_refuses_in_words(tmp_path: Path) -> None:
    assert run("snapshot", *FILES[:2], *TOPOLOGY)[2] == "--squeue and --sinfo go together"
    assert "name a file with --topology" in run("snapshot", *FILES)[2]
    assert "--rest needs --jwt-file" in run("snapshot", "--rest", "http://x", *TOPOLOGY)[2]
    (tmp_path / "token").write_text("\n")
    (tmp_path / "token").chmod(0o600)
    code, _, said = run("watch", "--server", "http://x", "--token-file", str(tmp_path / "token"))
    assert (code, "holds no token" in said) == (2, True)


def test_one_look_from_the_command_line(tmp_path: Path, bin_folder: Make) -> None:
    (tmp_path / "token").write_text("mt_secret\n")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "site.yaml").write_text(f"slurm: {{bin: {fake_slurm(bin_folder)}}}\n")
    seen: list[tuple[str, Any]] = []

    def service(method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if method == "GET":
            return 200, "{}", {}
        seen.append((headers["Authorization"], json.loads(body)))
        return 202, json.dumps({"snapshot_id": "s", "plan_id": "p", "over": {}}), {}

    with answering(service) as url:
        options = ("--token-file", str(tmp_path / "token"), "--site", str(tmp_path / "site.yaml"))
        state = ("--state", str(tmp_path / "state.json"), "--once")
        assert run("watch", "--server", url, *options, *state)[0] == 0
        assert run("watch", "--server", url, *options, *state)[0] == 0
    assert [authorization for authorization, _ in seen] == ["Bearer mt_secret"], (
        "the second look sent nothing"
    )
    assert seen[0][1]["sequence"] == 0
    assert run("watch", "--server", url, *options, "--state", str(tmp_path / "other.json"), "--once")[0] == 1


def queue(*jobs: dict[str, Any]) -> Any:
    """The sample's answer with these jobs waiting instead of its own."""
    answer = document("squeue.json")
    template = next(row for row in answer["jobs"] if row["job_state"] == "PENDING")
    answer["jobs"] = [row for row in answer["jobs"] if row["job_state"] != "PENDING"]
    for number, job in enumerate(jobs):
        nodes = job.get("node_count", 1)
        fresh = {"job_id": 50 + number, "tres_req_str": f"gres/gpu={8 * nodes}", "priority": 9 - number}
        answer["jobs"].append({**template, **fresh, **job})
    return answer


def advised(*jobs: dict[str, Any], **sections: Any) -> Any:
    from dataclasses import replace

    from monkeytree.slurm.jobs import read_jobs

    where = site(pending=True, **sections)
    return build_snapshot(replace(reading("gpus", where), jobs=read_jobs(queue(*jobs))), where)


def test_advice_is_what_scontrol_takes() -> None:
    built = advised({"node_count": 2, "name": "two"}, {"node_count": 1}, {"node_count": 9})
    two, one, nine = proposals(built.snapshot)
    assert two.commands == ("scontrol update JobId=50 ReqNodeList=node[126-127]",)
    assert one.commands == ("scontrol update JobId=51 ReqNodeList=node128",)
    assert nine.commands == ()
    text = as_text((two, one, nine))
    assert "job 50 (two), 2 nodes: node[126-127] in 1 rack, every rack within its bound" in text
    assert "9 nodes: no room for it now" in text
    assert json.dumps(two.document())


def test_a_job_that_must_span_racks_is_told_which_to_avoid() -> None:
    """30 more nodes are free, in racks that are busy and in racks that are not."""
    from dataclasses import replace

    where = site(pending=True, racks={"uplinks": 1})
    read = reading("gpus", where)
    ended = {7, 8, 24}  # node033-040 and node025-032 become free; rack08 and others are busy with jobs 26, 30
    nodes = tuple(
        replace(node, states=frozenset({"IDLE"}), gres_used="")
        if node.name in {f"node{n:03d}" for n in range(25, 41)} else node
        for node in read.nodes
    )  # fmt: skip
    from monkeytree.slurm.jobs import read_jobs

    jobs = tuple(job for job in read_jobs(queue({"node_count": 12})) if job.job_id not in ended)
    (found,) = proposals(build_snapshot(replace(read, jobs=jobs, nodes=nodes), where).snapshot)
    assert found.placement.within_bound
    assert set(found.placement.after) == {"rack04", "rack05"}
    require, exclude = found.commands
    assert require.startswith("scontrol update JobId=50 ReqNodeList=node[0")
    assert "ExcNodeList=" in exclude
    assert "node121" not in exclude


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"priority": 0, "state_reason": "JobHeldUser"}, "cannot start yet (JobHeldUser)"),
        ({"state_reason": "Dependency"}, "cannot start yet (Dependency)"),
        ({"required_nodes": "node128"}, "names or excludes nodes itself"),
        ({"het_job_id": 50}, "is a component of a heterogeneous job"),
        ({"tres_per_node": "", "tres_req_str": "cpu=4"}, "asks for no gpu"),
    ],
)
def test_jobs_that_get_no_advice_are_named(change: dict[str, Any], why: str) -> None:
    built = advised(change)
    assert (built.snapshot.pending, built.not_pending) == ((), {"50": why})


def test_waiting_jobs_by_priority_with_their_layout() -> None:
    low = {"priority": 1, "submit_time": 1795978000}
    high = {"priority": 5, "comment": "monkeytree:tp=8", "tres_per_node": "gres:gpu:h100:4"}
    one, other = advised(low, high).snapshot.pending
    assert [one.id, other.id] == ["51", "50"]
    assert (one.rings, one.slots_per_worker, one.one_per_node) == (8, 4, True)
    assert other.submitted_at == "2026-11-29T18:46:40Z"


def test_advice_from_the_command_line(tmp_path: Path) -> None:
    squeue = tmp_path / "squeue.json"
    squeue.write_text(json.dumps(queue({"node_count": 1, "name": "one"}, {"priority": 0})))
    options = ("--squeue", str(squeue), "--sinfo", str(DATA / "sinfo.json"), *TOPOLOGY)
    code, out, _ = run("advise", *options)
    assert code == 0
    assert (
        out == "job 50 (one), 1 node: node126 in 1 rack, every rack within its bound\n"
        "  scontrol update JobId=50 ReqNodeList=node126\n"
    )
    code, out, _ = run("advise", *options, "--format", "json")
    told = json.loads(out)
    assert told["proposals"][0]["req_node_list"] == "node126"
    assert told["skipped"][0]["job"] == "51"
    squeue.write_text(json.dumps(queue()))
    assert run("advise", *options)[1] == "no pending job could start now\n"


def test_nobody_else_reads_the_token(tmp_path: Path) -> None:
    """The token is never on a command line or in what is said."""
    (tmp_path / "token").write_text("mt_secret\n")
    (tmp_path / "token").chmod(0o600)
    options = ("--token-file", str(tmp_path / "token"), "--state", str(tmp_path / "s"), "--once")
    code, out, said = run("watch", "--server", "http://127.0.0.1:9", *options)
    assert "mt_secret" not in out + said
    assert code == 1
    (tmp_path / "token").chmod(0o644)
    code, out, said = run("watch", "--server", "http://127.0.0.1:9", *options)
    assert (code, "chmod 600" in said, "mt_secret" in out + said) == (2, True, False)
    assert os.path.exists(tmp_path / "token")
