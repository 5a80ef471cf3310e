"""Advice for pending jobs, against all placements there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import monkeytree
from monkeytree import advise as module
from monkeytree.advise import advise
from monkeytree.placement import Arrangement
from monkeytree.plan import PendingPlacement
from monkeytree.snapshot import Fabric, Job, Node, Pending, Pod, Rack, ReplicaGroup, Snapshot

Score = tuple[int, int, int]
"""Excess over all leaves and pods, pods spanned, racks spanned."""


@st.composite
def boards(draw: st.DrawFn) -> Snapshot:
    """Up to five racks of up to three nodes with a running job and up to three pending ones."""
    podded = draw(st.booleans())
    racks = []
    for r in range(draw(st.integers(1, 5))):
        nodes = tuple(
            Node(f"n{r}.{n}", draw(st.integers(0, 3)), node_class=draw(st.sampled_from(["", "", "b"])),
                 cordoned=draw(st.integers(0, 9)) == 0)
            for n in range(draw(st.integers(1, 3)))
        )  # fmt: skip
        pod = draw(st.sampled_from(["p", "q"])) if podded else None
        racks.append(Rack(f"r{r}", tuple(range(draw(st.integers(0, 3)))), nodes, pod))
    jobs = []
    slots = [node.id for rack in racks for node in rack.nodes for _ in range(node.slots)]
    here = [node for node in slots if draw(st.integers(0, 3)) == 0]
    if here:
        jobs = [Job("A", (ReplicaGroup("0", tuple(here), rings=draw(st.integers(1, 2))),))]
    pending = tuple(
        Pending(
            f"P{n}",
            draw(st.integers(1, 6)),
            draw(st.integers(1, 2)),
            draw(st.integers(0, 3)),
            draw(st.sampled_from([None, None, frozenset([""])])),
            draw(st.booleans()),
        )
        for n in range(draw(st.integers(1, 3)))
    )
    pods = (Pod("p", draw(st.integers(0, 3))), Pod("q", draw(st.integers(0, 3)))) if podded else ()
    fabric = Fabric(rails=draw(st.integers(1, 2)))
    return Snapshot("c", "2026-11-29T18:00:00Z", tuple(racks), tuple(jobs), fabric, pods, pending=pending)


def started(snapshot: Snapshot, placed: Sequence[PendingPlacement]) -> Snapshot:
    """``snapshot`` with the pending jobs that were placed running where they were."""
    by_id = {job.id: job for job in snapshot.pending}
    extra = []
    for one in placed:
        if one.nodes:
            job = by_id[one.job]
            group = ReplicaGroup("0", one.nodes, rings=job.rings, slots_per_worker=job.slots_per_worker)
            extra.append(Job(job.id, (group,)))
    rest = tuple(job for job in snapshot.pending if job.id not in {one.job for one in placed})
    return Snapshot(
        snapshot.cluster, snapshot.taken_at, snapshot.racks, (*snapshot.jobs, *extra),
        snapshot.fabric, snapshot.pods, pending=rest,
    )  # fmt: skip


def score(snapshot: Snapshot, job: Pending, nodes: Sequence[str]) -> Score:
    """What it costs to start ``job`` on ``nodes``, by the library's own measure of the whole placement."""
    from monkeytree.placement import Arrangement, degrees, total_excess

    after = started(snapshot, [PendingPlacement(job.id, tuple(nodes), {}, True, True)])
    excess = total_excess(after, degrees(after, Arrangement.of(after)))
    racks = {snapshot.rack_of[node].id: snapshot.rack_of[node].pod for node in nodes}
    return excess, len(set(racks.values())), len(racks)


def possible(snapshot: Snapshot, job: Pending) -> Iterator[tuple[str, ...]]:
    """All nodes for it, pods and racks adjacent."""
    used: Counter[str] = Counter()
    for _, group in snapshot.groups:
        for name in group.workers:
            used[name] += group.slots_per_worker
    room = {}
    for rack in sorted(snapshot.racks, key=lambda rack: rack.pod or ""):
        for node in rack.nodes:
            fits = node.accepts and (job.classes is None or node.node_class in job.classes)
            free = (node.usable - used[node.id]) // job.slots_per_worker if fits else 0
            room[node.id] = min(free, 1) if job.one_per_node else free
    for nodes in combinations_with_replacement([name for name, most in room.items() if most], job.workers):
        if all(times <= room[name] for name, times in Counter(nodes).items()):
            yield nodes


@settings(max_examples=200, deadline=None)
@given(boards())
def test_no_placement_is_better(snapshot: Snapshot) -> None:
    placed: list[PendingPlacement] = []
    for found, job in zip(advise(snapshot), snapshot.pending, strict=True):
        now = started(snapshot, placed)
        scores = [score(now, job, nodes) for nodes in possible(now, job)]
        assert found.proved
        if not scores:
            assert (found.nodes, found.because) == ((), ("no_room",))
        else:
            assert score(now, job, found.nodes) == min(scores)
            assert len(found.nodes) == job.workers
        placed.append(found)


@settings(max_examples=100, deadline=None)
@given(boards())
def test_the_greedy_way_is_possible_and_says_so(snapshot: Snapshot) -> None:
    exact = module.BUDGET
    module.BUDGET = 0
    try:
        found = advise(snapshot)
    finally:
        module.BUDGET = exact
    for greedy, best in zip(found[:1], advise(snapshot)[:1], strict=True):
        assert bool(greedy.nodes) == bool(best.nodes)
        if greedy.nodes:
            job = snapshot.pending[0]
            mine, least = score(snapshot, job, greedy.nodes), score(snapshot, job, best.nodes)
            assert mine == least or (mine > least and not greedy.proved)


@settings(max_examples=30, deadline=None)
@given(boards())
def test_plans_carry_advice_that_the_checker_believes(snapshot: Snapshot) -> None:
    plan = monkeytree.make_plan(snapshot, solver="highs", time_limit_s=2)
    assert [one.job for one in plan.placements] == [job.id for job in snapshot.pending]
    assert monkeytree.check(snapshot, plan) == []


def line(uplinks: Sequence[int], rooms: Sequence[int], *pending: Pending) -> Snapshot:
    racks = tuple(
        Rack(f"r{at}", tuple(range(count)), (Node(f"n{at}", room),))
        for at, (count, room) in enumerate(zip(uplinks, rooms, strict=True))
    )
    return Snapshot("c", "2026-11-29T18:00:00Z", racks, (), pending=pending)


def test_one_rack_that_just_fits_comes_first() -> None:
    (found,) = advise(line([1, 1, 1], [8, 4, 5], Pending("P", 4)))
    assert found.nodes == ("n1",) * 4
    assert (found.after, found.within_bound) == ({"r1": (0,)}, True)


def test_racks_without_a_free_uplink_are_avoided() -> None:
    first, second = advise(line([1, 0, 1, 1], [4, 6, 2, 2], Pending("P", 6, rings=0), Pending("Q", 8)))
    assert set(first.nodes) == {"n1"}
    assert Counter(second.nodes) == {"n0": 4, "n2": 2, "n3": 2}
    assert second.within_bound
    (forced,) = advise(line([1, 0], [2, 2], Pending("P", 3)))
    assert (forced.within_bound, forced.because, forced.after) == (False, ("r1",), {"r0": (1,), "r1": (1,)})


def test_each_comes_after_the_ones_before() -> None:
    first, second = advise(line([1, 1, 1], [3, 3, 3], Pending("P", 4), Pending("Q", 5)))
    assert first.within_bound
    assert not second.within_bound, "their racks meet"
    assert len(second.because) == 1


def test_many_jobs_on_a_large_cluster_are_placed_soon() -> None:
    jobs = [Pending(f"P{n}", 40, one_per_node=True) for n in range(50)]
    racks = tuple(
        Rack(f"r{r}", tuple(range(4)), tuple(Node(f"n{r}.{n}", 1) for n in range(8))) for r in range(200)
    )
    found = advise(Snapshot("c", "2026-11-29T18:00:00Z", racks, (), pending=tuple(jobs)))
    assert all(one.proved and one.within_bound for one in found if one.nodes)
    assert sum(1 for one in found if one.nodes) == 40


def test_a_long_queue_takes_no_long_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs beyond the steps of all are placed greedily; what found no room once is not looked for again."""
    monkeypatch.setattr(module, "BUDGET_OF_ALL", 50_000)
    racks = tuple(Rack(f"r{r}", (0,), tuple(Node(f"n{r}.{n}", 8) for n in range(8))) for r in range(64))
    running = Job("A", (ReplicaGroup("0", tuple(f"n{r}.0" for r in range(64))),))
    none = frozenset(["none"])
    wide = [Pending(f"W{n}", 2000 - n) for n in range(5)]
    vain = [Pending(f"V{n}", 8 + n % 3, classes=none) for n in range(300)]
    pending = (*(Pending(f"P{n}", 90) for n in range(15)), *wide, *vain)
    snapshot = Snapshot("c", "2026-11-29T18:00:00Z", racks, (running,), pending=pending)
    board = module._Board.of(snapshot, Arrangement.of(snapshot))
    looked = Counter[str]()
    offer = board._offer

    def counted(rack: Rack, job: Pending) -> module._Offer:
        looked[job.id] += 1
        return offer(rack, job)

    board._offer = counted  # type: ignore[method-assign]
    found = [board.place(job) for job in pending]
    assert all(not one.nodes for one in found[-300:])
    assert sum(name.startswith("V") for name in looked) <= 3
    assert 0 < board.steps <= module.BUDGET_OF_ALL
    assert found == list(advise(snapshot))
    assert monkeytree.check(snapshot, monkeytree.make_plan(snapshot, time_limit_s=1)) == []
