"""Histories replayed under rules, against sums done by hand."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

import monkeytree
from monkeytree.savings import ALWAYS, WORTHWHILE, Savings, by_time, replay, threshold
from monkeytree.snapshot import Snapshot

from .samples import STRETCH, Document, shared

PAUSE_S = 9.02 + 8 / 400
SLOWED = 1 - 1 / (1 + STRETCH / 4)  # of an interval, what a job loses that shares (samples.shared)


def history(*documents: Document) -> list[Snapshot]:
    return [monkeytree.load_snapshot(document) for document in documents]


def figures(savings: Savings) -> tuple[Any, ...]:
    return savings.plans, savings.moves, savings.saved_gpu_s, savings.lost_gpu_s


def test_one_plan_heals_all_that_follows() -> None:
    told = [shared(minute=minute) for minute in (0, 10, 20)]
    found = replay(history(*told), ALWAYS)
    assert figures(found) == (1, 2, pytest.approx(4 * 1200 * SLOWED), pytest.approx(4 * PAUSE_S))
    assert found.net_gpu_s == found.saved_gpu_s - found.lost_gpu_s
    assert (found.intervals, found.unpredicted, found.restarts, found.jobs_paused) == (2, 0, 0, 2)


def test_order_of_the_files_does_not_matter() -> None:
    told = history(*(shared(minute=minute) for minute in (20, 0, 10)))
    assert [snapshot.taken_at[14:16] for snapshot in by_time(told)] == ["00", "10", "20"]
    assert figures(replay(told, ALWAYS)) == figures(replay(told[::-1], ALWAYS))


def test_a_gap_counts_only_so_far() -> None:
    told = history(shared(minute=0), shared(minute=50))
    found = replay(told, ALWAYS, longest_gap_s=600)
    assert found.saved_gpu_s == pytest.approx(4 * 600 * SLOWED)


def test_a_job_that_ends_is_slowed_no_longer_than_it_runs() -> None:
    first, last = shared(minute=0), shared(minute=50)
    first["jobs"][0]["remaining_s"] = 60
    first["jobs"][1]["remaining_s"] = 60  # it is there after 50 minutes all the same
    del last["jobs"][0]
    found = replay(history(first, last), ALWAYS)
    assert found.saved_gpu_s == pytest.approx(2 * (60 * (1 + STRETCH / 4) + 3000) * SLOWED)


def test_worthwhile_passes_up_what_does_not_pay() -> None:
    told = [shared(minute=minute) for minute in (0, 10, 20)]
    for document in told:
        for job in document["jobs"]:
            job["remaining_s"] = 100
    found = replay(history(*told), WORTHWHILE)
    assert (figures(found), found.passed_up) == ((0, 0, 0.0, 0.0), 2)
    assert figures(replay(history(*told), ALWAYS))[0] == 1


def test_worthwhile_goes_ahead_where_it_cannot_be_told_as_executions_do() -> None:
    told = [shared(minute=minute) for minute in (0, 10)]
    for document in told:
        for job in document["jobs"]:
            del job["remaining_s"]
    assert figures(replay(history(*told), WORTHWHILE)) == figures(replay(history(*told), ALWAYS))


def test_a_threshold_is_kept_below_the_uplinks() -> None:
    told = history(*(shared(minute=minute, uplinks=2) for minute in (0, 10)))
    assert figures(replay(told, ALWAYS)) == (0, 0, 0.0, 0.0)
    found = replay(told, threshold(1))
    assert figures(found) == (1, 2, 0.0, pytest.approx(4 * PAUSE_S))
    assert figures(replay(told, threshold(64))) == (0, 0, 0.0, 0.0)


def test_a_newcomer_finds_room_elsewhere() -> None:
    told = [shared(minute=minute) for minute in (0, 10, 20)]
    for document in told[1:]:
        newcomer = deepcopy(document["jobs"][0])
        newcomer["id"] = "K"
        document["jobs"] = [document["jobs"][1], newcomer]
    found = replay(history(*told), ALWAYS)
    # J0's slots are K's in the history; a slot of these is J1's now, and K takes the other that is free.
    assert figures(found) == (1, 2, pytest.approx(4 * 1200 * SLOWED), pytest.approx(4 * PAUSE_S))


def test_what_the_scheduler_moves_itself_is_where_it_says() -> None:
    healed = shared(minute=10)
    for job, rack in zip(healed["jobs"], ("r1", "r2"), strict=True):
        job["replica_groups"][0]["workers"] = [f"{rack}n0", f"{rack}n1"]
    found = replay(history(shared(minute=0), healed, {**healed, "taken_at": "2026-11-29T18:20:00Z"}), ALWAYS)
    assert found.saved_gpu_s == pytest.approx(4 * 600 * SLOWED)
    assert (found.plans, found.restarts) == (1, 0)


def test_untold_intervals_are_counted_as_nothing_and_said() -> None:
    told = [shared(minute=minute) for minute in (0, 10)]
    del told[0]["jobs"][0]["replica_groups"][0]["traffic_gb"]
    found = replay(history(*told), ALWAYS)
    assert (found.unpredicted, found.saved_gpu_s, found.plans) == (1, 0.0, 1)


def test_a_threshold_takes_spines_away_that_have_seeds_of_their_own() -> None:
    told = [shared(minute=minute, uplinks=2) for minute in (0, 10)]
    for document in told:
        document["pods"] = [{"id": "p", "uplinks": 2}]
        for rack in document["racks"]:
            rack["pod"] = "p"
        document["fabric"] = {"hash": {"leaf": {"algorithm": "crc32"}, "pod_seeds": {"p/1": 5}}}
    assert figures(replay(history(*told), threshold(1)))[0] == 1
