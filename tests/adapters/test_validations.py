"""Validations in the store, and what a replay is told on its command line."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from monkeytree.adapters.errors import NotCancellable, UnknownValidation
from monkeytree.adapters.replay_options import ReplayOptions
from monkeytree.adapters.rows import SnapshotRow
from monkeytree.adapters.simulator import why_not
from monkeytree.adapters.store import Store
from monkeytree.adapters.validating import UNAVAILABLE, ValidationRow
from monkeytree.snapshot import Planning
from monkeytree.validation.options import knobs, params, parse

OPTIONS = ReplayOptions(
    profile="paper", seed=7, flow_mb=1.5, scale=0.5, ecmp_share=0.1, background=0.25,
    fail_link=("r1:0", "--x:1"), steps=3, timeout_s=40.0,
)  # fmt: skip


@pytest.fixture
def snapshot(store: Store, cluster: str) -> SnapshotRow:
    row = SnapshotRow(uuid.uuid4().hex * 2, cluster, 0.0, None, time.time())
    store.submit(row, b"{}", Planning())
    return row


def asked(store: Store, snapshot: SnapshotRow, options: ReplayOptions = OPTIONS) -> ValidationRow:
    return store.validations.ask(snapshot, None, options)[0]


def test_the_command_line_understands_every_option() -> None:
    said = parse(["s.json", *OPTIONS.arguments()])
    assert params(said) == {"profile": "paper", "seed": 7}
    found = knobs(said)
    assert (found.flow_bytes, found.scale, found.steps) == (1_500_000, 0.5, 3)
    assert (found.ecmp_share, found.background, found.dead) == (0.1, 0.25, (("r1", 0), ("--x", 1)))
    assert said.timeout == 40.0


def test_the_defaults_are_those_of_the_command_line() -> None:
    ours, theirs = parse(["s.json", *ReplayOptions().arguments()]), parse(["s.json"])
    assert ours == theirs


def test_options_survive_the_store(store: Store, snapshot: SnapshotRow) -> None:
    assert store.validations.find(asked(store, snapshot).id).options == OPTIONS


def test_the_same_again_finds_the_live_or_ready_one(store: Store, snapshot: SnapshotRow) -> None:
    first = asked(store, snapshot)
    assert store.validations.ask(snapshot, None, OPTIONS) == (first, False)
    assert asked(store, snapshot, ReplayOptions()).id != first.id
    store.validations.claim(first.id, 30.0, 3)
    assert store.validations.finish(first.id, 1, b"{}", isolated=True, claims_hold=True)
    assert asked(store, snapshot).id == first.id
    other = asked(store, snapshot, ReplayOptions())
    store.validations.cancel(other.id)
    assert asked(store, snapshot, ReplayOptions()).id != other.id


def test_progress_and_report_are_those_of_the_attempt_that_holds_it(
    store: Store, snapshot: SnapshotRow
) -> None:
    rows, row = store.validations, asked(store, snapshot)
    assert rows.note_progress(row.id, 0, "too early", None) is False
    rows.claim(row.id, 0.01, 3)
    assert rows.note_progress(row.id, 1, "simulating", 0.5)
    before = rows.find(row.id)
    assert before.progress == {"stage": "simulating", "done": 0.5}
    rows.note_progress(row.id, 1, "simulating", 0.6)
    assert rows.find(row.id).tag != before.tag
    time.sleep(0.05)
    assert [one.id for one in rows.requeue_expired(3)[0]] == [row.id]
    rows.claim(row.id, 30.0, 3)
    assert rows.note_progress(row.id, 1, "late", None) is False
    assert rows.finish(row.id, 1, b"{}", isolated=True, claims_hold=True) is False
    assert rows.report(row.id) is None
    assert rows.finish(row.id, 2, b'{"isolated":false}', isolated=False, claims_hold=True)
    assert rows.report(row.id) == b'{"isolated":false}'
    with pytest.raises(NotCancellable, match="queued or running validation"):
        rows.cancel(row.id)
    with pytest.raises(UnknownValidation):
        rows.find("nowhere")


def test_only_the_newest_end_tells_that_replays_cannot_run(store: Store, snapshot: SnapshotRow) -> None:
    rows = store.validations
    for index, (code, message) in enumerate(((UNAVAILABLE, "get g++"), ("replay_crashed", "?"))):
        row = asked(store, snapshot, ReplayOptions(seed=index))
        rows.claim(row.id, 30.0, 3)
        rows.fail(row.id, 1, code, message)
        assert rows.unavailable(60.0) == ("get g++" if code == UNAVAILABLE else None)
        time.sleep(0.01)


def test_an_interpreter_without_ns3_is_told_apart(tmp_path: Path) -> None:
    import venv

    venv.create(tmp_path / "bare", with_pip=False)
    bare = str(tmp_path / "bare" / "bin" / "python")
    missing = why_not(bare)
    assert missing is not None
    assert bare in missing
    assert "pip install 'monkeytree[validation]'" in missing
    nowhere = why_not(str(tmp_path / "nowhere"))
    assert nowhere is not None
    assert "MONKEYTREE_VALIDATION_PYTHON" in nowhere
