"""The watch: when it looks, what it sends, and what it remembers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from monkeytree.slurm.build import Reading
from monkeytree.slurm.errors import ServiceUnavailable, SlurmUnavailable
from monkeytree.slurm.memory import Memory, recall, remember
from monkeytree.slurm.posting import Receipt, Stale
from monkeytree.slurm.site import WatchSite
from monkeytree.slurm.watch import Notice, Pace, Watcher, fingerprint
from monkeytree.snapshot import Snapshot

from .samples import reading, site


@dataclass
class Cluster:
    """A source whose cluster can change and fail."""

    now: Reading
    failing: bool = False
    looks: int = 0

    def read(self) -> Reading:
        self.looks += 1
        if self.failing:
            raise SlurmUnavailable("squeue did not answer within 5 s")
        return replace(self.now, taken_at=f"2026-11-29T19:{self.looks:02d}:00Z")


@dataclass
class Taker:
    """A service in memory."""

    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    newest: int = -1
    failing: bool = False
    asked: int = 0

    def submit(self, snapshot: Snapshot) -> Receipt:
        from monkeytree.identity import snapshot_id

        if self.failing:
            raise ServiceUnavailable("cannot reach it")
        assert snapshot.sequence is not None
        if snapshot.sequence < self.newest:
            raise Stale
        self.newest = snapshot.sequence
        self.snapshots[snapshot_id(snapshot)] = snapshot
        return Receipt(snapshot_id(snapshot), f"plan{snapshot.sequence}", {"rack03": 1})

    def knows(self, snapshot_id: str) -> bool:
        self.asked += 1
        if self.failing:
            raise ServiceUnavailable("cannot reach it")
        return snapshot_id in self.snapshots

    def newest_sequence(self, cluster: str) -> int:
        return self.newest


@dataclass
class Clock:
    """Time that tests turn."""

    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def rig(tmp_path: Path) -> tuple[Watcher, Cluster, Taker, Clock, list[str]]:
    cluster, taker, clock, said = Cluster(reading("live")), Taker(), Clock(), list[str]()
    watcher = Watcher(cluster, taker, site(), tmp_path / "state.json", said.append, clock=clock)
    return watcher, cluster, taker, clock, said


Rig = tuple[Watcher, Cluster, Taker, Clock, list[str]]


def moved(read: Reading) -> Reading:
    """The same cluster after the job named A has ended."""
    return replace(read, jobs=tuple(job for job in read.jobs if job.name != "A"))


def test_only_changes_are_sent(rig: Rig) -> None:
    watcher, cluster, taker, _, said = rig
    assert [watcher.look() for _ in range(3)] == ["sent", "same", "same"]
    cluster.now = moved(cluster.now)
    assert watcher.look() == "sent"
    assert sorted(one.sequence or 0 for one in taker.snapshots.values()) == [0, 1]
    assert said[0] == "sent snapshot 0, plan plan0; over their bounds: rack03 by 1"


def test_labels_and_times_are_no_change(rig: Rig) -> None:
    watcher, cluster, *_ = rig
    watcher.look()
    jobs = tuple(replace(job, user="somebody") for job in cluster.now.jobs)
    cluster.now = replace(cluster.now, jobs=jobs)
    assert watcher.look() == "same"


def test_a_restart_goes_on_where_it_was(rig: Rig, tmp_path: Path) -> None:
    watcher, cluster, taker, clock, said = rig
    watcher.look()
    again = Watcher(cluster, taker, site(), tmp_path / "state.json", said.append, clock=clock)
    assert again.look() == "same"
    cluster.now = moved(cluster.now)
    again.look()
    assert taker.newest == 1


def test_a_lost_memory_takes_the_services_sequence(rig: Rig) -> None:
    watcher, _, taker, _, _ = rig
    taker.newest = 41
    assert watcher.look() == "sent"
    assert taker.newest == 42
    assert recall(watcher.memory_file).sequence == 42


def test_failures_are_told_and_looks_get_rarer(rig: Rig) -> None:
    watcher, cluster, taker, clock, said = rig
    cluster.failing = True
    assert watcher.look() == "slurm_failed"
    assert said[-1].startswith("cannot read the cluster, next look in 60 s: squeue did not answer")
    assert watcher.look() == "slurm_failed"
    assert watcher.pace.delay == 120
    for _ in range(9):
        watcher.look()
    assert watcher.pace.delay == 300
    cluster.failing, taker.failing = False, True
    assert watcher.look() == "service_failed"
    taker.failing = False
    assert watcher.look() == "sent"
    assert watcher.pace.delay == 30
    assert clock.seconds == 1000


def test_a_service_that_lost_everything_is_told_again(rig: Rig) -> None:
    watcher, _, taker, clock, _ = rig
    watcher.look()
    taker.snapshots.clear()
    taker.newest = -1
    assert watcher.look() == "same", "not asked at every look"
    assert taker.asked == 0
    clock.seconds += 601
    assert watcher.look() == "sent"
    assert (taker.asked, taker.newest) == (1, 1)


def test_what_was_odd_is_told_once(rig: Rig) -> None:
    watcher, cluster, _, _, said = rig
    jobs = tuple(replace(job, comment="monkeytree:tp=x") for job in cluster.now.jobs)
    cluster.now = replace(cluster.now, jobs=jobs)
    watcher.look()
    watcher.look()
    assert sum("tp is no number" in line for line in said) == 3


def test_a_memory_that_cannot_be_kept_is_told(rig: Rig, tmp_path: Path) -> None:
    watcher, *_, said = rig
    (tmp_path / "file").write_text("")
    watcher.memory_file = tmp_path / "file" / "state.json"
    assert watcher.look() == "service_failed"
    assert "cannot keep" in said[-1]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sequence": 3}', '{"cluster": 1, "sequence": "x"}'])
def test_an_unreadable_memory_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(text)
    assert recall(tmp_path / "state.json") == Memory()


def test_a_memory_comes_back(tmp_path: Path) -> None:
    memory = Memory("c", 7, "mark", "snap", "plan")
    remember(tmp_path / "below" / "state.json", memory)
    assert recall(tmp_path / "below" / "state.json") == memory
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["state.json"]
    assert json.loads((tmp_path / "below" / "state.json").read_text())["sequence"] == 7


def test_pace() -> None:
    pace = Pace(WatchSite(interval_s=30, floor_s=5, longest_s=300))
    assert pace.due(0.0, called=False), "the first look at once"
    pace.looked(0.0, good=True)
    assert not pace.due(4.9, called=True)
    assert pace.due(5.0, called=True)
    assert not pace.due(29.9, called=False)
    assert pace.due(30.0, called=False)
    pace.looked(30.0, good=False)
    assert not pace.due(50.0, called=True), "a hook does not drive it while Slurm is down"
    assert pace.due(90.0, called=False)


def test_notices_are_touches(tmp_path: Path) -> None:
    notice = Notice(tmp_path / "notice")
    assert not notice.came()
    (tmp_path / "notice").touch()
    assert notice.came()
    notice.seen()
    assert not notice.came()
    assert not Notice(None).came()


def test_running_looks_when_called(rig: Rig, tmp_path: Path) -> None:
    watcher, cluster, _, clock, _ = rig
    watcher.notice = Notice(tmp_path / "notice")
    looks: list[int] = []

    def stopped(seconds: float) -> bool:
        clock.seconds += 1
        looks.append(cluster.looks)
        if len(looks) == 10:
            (tmp_path / "notice").touch()
        return len(looks) > 40

    watcher.run(stopped)
    assert looks[9] == 1
    assert looks[10] == 2, "on the notice, the floor being past"
    assert looks[39] == 2, "30 s have not passed since"
    assert looks[40] == 3


def test_pending_jobs_count_where_they_are_listed() -> None:
    from monkeytree.slurm.build import build_snapshot

    read = reading("gpus")
    plain, listed = site(), site(pending=True)
    queue = replace(read, jobs=tuple(job for job in read.jobs if not job.pending))
    assert fingerprint(build_snapshot(read, plain).snapshot) == fingerprint(
        build_snapshot(queue, plain).snapshot
    )
    assert fingerprint(build_snapshot(read, listed).snapshot) != fingerprint(
        build_snapshot(queue, listed).snapshot
    )
