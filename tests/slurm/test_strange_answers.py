"""Services and slurmrestds that answer oddly, and memories that were damaged: told, and the watch goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monkeytree.slurm.errors import ServiceUnavailable, SlurmFailed, SlurmUnavailable
from monkeytree.slurm.memory import Memory, recall, remember
from monkeytree.slurm.posting import Service
from monkeytree.slurm.rest import RestClient
from monkeytree.slurm.watch import Watcher
from monkeytree.snapshot import Snapshot

from .samples import reading, site
from .test_doors import answering
from .test_watch import Cluster, Taker


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (422, {"errors": 5}, "422"),
        (422, {"errors": {"a": 1}}, "422"),
        (202, {"plan_id": "p", "over": 5}, "not one of MonkeyTree's"),
        (202, {"plan_id": "p", "over": [1]}, "not one of MonkeyTree's"),
        (202, {}, "not one of MonkeyTree's"),
        (200, [1], "not one of MonkeyTree's"),
        (409, {"code": "stale_snapshot"}, "not one of MonkeyTree's"),
    ],
)
def test_a_service_that_answers_oddly_is_tried_again_later(
    tmp_path: Path, status: int, body: Any, said: str
) -> None:
    lines: list[str] = []
    listed = json.dumps({"items": [5]})

    def answer(method: str, path: str, headers: dict[str, str], sent: bytes) -> Any:
        return (status, json.dumps(body), {}) if method == "POST" else (200, listed, {})

    with answering(answer) as url:
        service = Service(url, "mt_x", timeout_s=10)
        where = site()
        watcher = Watcher(Cluster(reading("live", where)), service, where, tmp_path / "w.json", lines.append)
        assert watcher.look() == "service_failed"
        service.close()
    assert said in lines[-1]
    assert not (tmp_path / "w.json").exists(), "it was not taken, so it is not remembered"


def test_sequences_that_are_no_numbers_do_not_count() -> None:
    items = [{"sequence": "9"}, {"sequence": 4}, {"sequence": None}, {}]
    with answering(lambda *_: (200, json.dumps({"items": items}), {})) as url:
        assert Service(url, "mt_x").newest_sequence("lab") == 4


@pytest.mark.parametrize("sequence", [-2, -(10**30), 2**63 - 1, 10**400])
def test_a_sequence_that_no_service_takes_is_forgotten(tmp_path: Path, sequence: int) -> None:
    file = tmp_path / "w.json"
    remember(file, Memory("lab", 3, "sent", "s", "p"))
    file.write_text(json.dumps({**json.loads(file.read_text()), "sequence": sequence}))
    assert recall(file) == Memory()
    file.write_text("[" * 50_000)
    assert recall(file) == Memory()


class Refusing(Taker):
    """A service whose library refuses the snapshot before it is sent."""

    def submit(self, snapshot: Snapshot) -> Any:
        from monkeytree.wire.snapshot import load_snapshot

        load_snapshot({"format": 1})


def test_a_snapshot_that_is_refused_does_not_end_the_watch(tmp_path: Path) -> None:
    lines: list[str] = []
    where = site()
    source = Cluster(replace(reading("live", where)))
    watcher = Watcher(source, Refusing(), where, tmp_path / "w.json", lines.append)
    assert watcher.look() == "service_failed"
    assert "invalid snapshot" in lines[-1]


def test_a_token_that_ran_out_is_told_before_versions() -> None:
    with (
        answering(lambda *_: (401, "Authentication failure", {})) as url,
        pytest.raises(SlurmFailed, match=r"refuses the token \(401\)"),
    ):
        RestClient(url, "old").jobs()
    with (
        answering(lambda *_: (500, "boom", {})) as url,
        pytest.raises(SlurmFailed, match=r"serves none of .*v0\.0\.38: 500"),
    ):
        RestClient(url, "jwt").jobs()


def test_an_address_that_is_none_is_refused() -> None:
    for url, token in (("::::", "jwt"), ("http://127.0.0.1:1", "j\u00f6t")):
        with pytest.raises(SlurmUnavailable, match="cannot ask"):
            RestClient(url, token)
    with pytest.raises(ServiceUnavailable):
        Service("::::", "mt_x")
