"""From ``PUT /v1/routes`` to a queue pair and back: the agent's table, the shim that reads it, its log."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from monkeytree.agent.labels import parse_table
from monkeytree.agent.presence import TableTaken
from monkeytree.agent.published import Published
from monkeytree.agent.routes import Routes, lines
from monkeytree.agent.shim_log import read_log
from monkeytree.ecmp import exports
from monkeytree.wire.agents import Route, RouteTable
from tests.checker.test_steering import fabric, planned

from .harness import Bench, Run

ROUTES = RouteTable(
    epoch=3,
    routes=(
        Route("10.0.0.1", "10.1.0.1", 50_000, job="A", uplink=0),
        Route("10.0.0.1", "10.1.0.1", 50_017, job="A", uplink=1),
        Route("10.0.0.1", "10.1.1.1", 49_152, job="A", uplink=2),
        Route("10.0.0.1", "10.9.9.9", 65_535, job="B", uplink=3),
    ),
)


def run(bench: Bench, published: Published) -> Run:
    """The program over the shim, told of nothing but the table."""
    env = {"MONKEYTREE_VERBS_TABLE": str(published.table)}
    return bench.run("connect", "1", "8", "1", "plain", env=env, drop=["MONKEYTREE_VERBS_LOG"])


def test_routes_put_to_the_agent_reach_queue_pairs_and_come_back_as_proof(
    bench: Bench, tmp_path: Path
) -> None:
    table = Routes(tmp_path).put(ROUTES)
    published = Published(tmp_path / "public")
    published.publish(lines(table))
    assert run(bench, published).output == "0 failures\n"
    proof = published.proof()
    assert proof.steered == (("10.0.0.1", "10.1.0.1"), ("10.0.0.1", "10.1.1.1"))
    assert (proof.unsteered, proof.unseen) == ((), (("10.0.0.1", "10.9.9.9"),))
    set_ports = sorted(pair.udp_source_port for pair in read_log(published.log).pairs)
    assert set_ports == [49_152] * 4 + [50_000, 50_000, 50_017, 50_017]
    published.close()
    run(bench, published)
    assert len(read_log(published.log).pairs) == 8  # the agent has let go: nothing was set


def test_the_text_that_the_agent_keeps_is_the_one_it_publishes(tmp_path: Path) -> None:
    table = Routes(tmp_path).put(ROUTES)
    assert (tmp_path / "routes.txt").read_text("ascii") == lines(table)


def test_what_a_plan_exports_is_what_its_agents_publish() -> None:
    snapshot, plan = planned(fabric({"leaf": {"algorithm": "crc16_ccitt"}}, rails=2))
    found = exports.routes(snapshot, plan)
    assert found
    published: dict[tuple[str, str], tuple[int, ...]] = {}
    for body in exports.for_agents(found, 1).values():
        routes = tuple(Route(**route) for route in body["routes"])
        published |= parse_table(lines(RouteTable(body["epoch"], routes)))
    assert published == parse_table(exports.as_lines(found))


def test_any_job_may_read_the_table_and_write_a_log_and_nothing_else(tmp_path: Path) -> None:
    published = Published(tmp_path / "public")
    published.publish("")
    modes = {
        path: stat.S_IMODE(path.stat().st_mode)
        for path in (published.table.parent, published.table, published.log)
    }
    assert modes == {published.table.parent: 0o755, published.table: 0o644, published.log: 0o1777}
    published.close()


def test_two_agents_do_not_share_a_folder(tmp_path: Path) -> None:
    published = Published(tmp_path)
    with pytest.raises(TableTaken, match="is held by another process"):
        Published(tmp_path, wait_s=0.1)
    published.close()
    Published(tmp_path).close()


def test_what_is_no_plain_file_in_the_log_is_passed_over(tmp_path: Path) -> None:
    published = Published(tmp_path)
    os.mkfifo(published.log / "1.jsonl")
    (published.log / "2.jsonl").symlink_to("/etc/passwd")
    log = read_log(published.log)
    assert (log.pairs, log.bad_lines) == ((), 0)
    published.close()


def test_old_logs_are_swept(tmp_path: Path) -> None:
    published = Published(tmp_path)
    for name, age in (("old.jsonl", 1_000_000.0), ("new.jsonl", 0.0)):
        (published.log / name).touch()
        os.utime(published.log / name, (0, os.stat(published.log).st_mtime - age))
    assert published.sweep() == 1
    assert [path.name for path in published.log.iterdir()] == ["new.jsonl"]
    published.close()
