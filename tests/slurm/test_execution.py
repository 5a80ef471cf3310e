"""Moves through Slurm, the parts that need no Slurm: order, refusals, ranks, the journal."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monkeytree.slurm.errors import MovesRefused
from monkeytree.slurm.execution.journal import Journal
from monkeytree.slurm.execution.launch import worker_command
from monkeytree.slurm.execution.names import donor_name, reservation_name, tag_of
from monkeytree.slurm.execution.order import JobProfile, NoFreeSlot, Step, order_of
from monkeytree.slurm.execution.preflight import Decision, Facts, Wanted, decide
from monkeytree.slurm.execution.ranks import comment_after, told_by_order
from monkeytree.slurm.execution.refusals import REFUSALS, STOPS
from monkeytree.slurm.execution.truth import Reservation, Truth
from monkeytree.slurm.execution.work import JobWork, Work, WorkerMove
from monkeytree.slurm.jobs import SlurmJob, read_jobs
from monkeytree.slurm.layouts import layout_of_comment
from monkeytree.slurm.nodes import SlurmNode

ROOT = Path(__file__).parent.parent.parent


def work_of_moves(before: dict[int, list[str]], after: dict[int, list[str]], nodes: list[str]) -> Work:
    """Work that takes jobs (one slot a worker) from ``before`` to ``after``, all in one wave."""
    index = iter(range(1000))
    jobs = {}
    for job, old in before.items():
        moves = tuple(
            WorkerMove(next(index), job, "0", rank, source, target, 1, 0)
            for rank, (source, target) in enumerate(zip(old, after[job], strict=True))
            if source != target
        )
        if moves:
            ranks = tuple(range(len(old)))
            jobs[job] = JobWork(job, tuple(old), {"0": tuple(old)}, {"0": ranks}, {"0": 1}, moves)
    taken = Counter(node for old in before.values() for node in old)
    return Work("p", "p", "lab", jobs, {node: 1 - taken[node] for node in nodes})


@st.composite
def reshuffles(draw: st.DrawFn) -> tuple[Work, dict[int, JobProfile]]:
    """Jobs on nodes of one slot, shuffled, and how each of them moves."""
    nodes = [f"n{number:02d}" for number in range(draw(st.integers(2, 9)))]
    used = draw(st.integers(1, len(nodes)))
    owners = draw(st.lists(st.integers(1, 4), min_size=used, max_size=used))
    places = [draw(st.permutations(nodes))[:used] for _ in range(2)]
    before, after = (
        {
            job: [node for node, owner in zip(place, owners, strict=True) if owner == job]
            for job in set(owners)
        }
        for place in places
    )
    profiles: dict[int, JobProfile] = {job: draw(st.sampled_from(("live", "requeue"))) for job in set(owners)}
    return work_of_moves(before, after, nodes), profiles


def play(work: Work, steps: tuple[Step, ...]) -> dict[int, Counter[str]]:
    """Do the steps, with no slot taken twice at any time; nodes of each job at the end."""
    at = {number: Counter(job.nodes) for number, job in work.jobs.items()}
    free = Counter(work.free)
    held: set[int] = set()
    for step in steps:
        if step.kind == "live":
            move = work.move(step.key)
            assert move.job_id not in held
            assert at[move.job_id][move.source] >= 1
            free[move.target] -= 1
            assert free[move.target] >= 0, "both workers are there until the old one goes"
            free[move.source] += 1
            at[move.job_id] += Counter({move.target: 1})
            at[move.job_id] -= Counter({move.source: 1})
        elif step.kind == "hold":
            free += at[step.key]
            held.add(step.key)
        else:
            held.remove(step.key)
            at[step.key] = Counter(work.jobs[step.key].after(work.jobs[step.key].all))
            free.subtract(at[step.key])
            assert min(free.values(), default=0) >= 0
    assert not held
    return at


@given(reshuffles())
def test_no_slot_is_taken_twice(case: tuple[Work, dict[int, JobProfile]]) -> None:
    """And every job ends up where the plan says; live jobs that can be requeued never get stuck."""
    work, profiles = case
    steps = order_of(work, profiles, convertible=profiles)
    final = {number: Counter(job.after(job.all)) for number, job in work.jobs.items()}
    assert play(work, steps) == final
    try:
        strict = order_of(work, profiles)
    except NoFreeSlot:
        return
    assert play(work, strict) == final
    assert all(step.kind == "live" or profiles[step.key] == "requeue" for step in strict)


def test_a_swap_takes_one_requeue() -> None:
    work = work_of_moves(
        {1: ["a", "b"], 2: ["c", "d", "e"]}, {1: ["a", "c"], 2: ["b", "d", "e"]}, list("abcde")
    )
    with pytest.raises(NoFreeSlot):
        order_of(work, {1: "live", 2: "live"})
    steps = order_of(work, {1: "live", 2: "live"}, convertible=[1, 2])
    assert steps == (Step("hold", 1), Step("live", 1), Step("release", 1)), "the smaller job starts anew"


def test_a_chain_is_live() -> None:
    work = work_of_moves({1: ["a"], 2: ["b"]}, {1: ["b"], 2: ["c"]}, list("abc"))
    assert order_of(work, {1: "live", 2: "live"}) == (Step("live", 1), Step("live", 0))


def slurm_job(job_id: int, nodes: str, **more: object) -> SlurmJob:
    """A running batch job."""
    row = {
        "job_id": job_id, "job_state": "RUNNING", "nodes": nodes, "requeue": True, "batch_flag": True,
        "batch_host": "n1", "user_name": "root", "partition": "train", **more,
    }  # fmt: skip
    return read_jobs({"jobs": [row]})[0]


NODES = {
    f"n{number}": SlurmNode(f"n{number}", frozenset({"IDLE"}), ("train",), "", "") for number in range(1, 9)
}
GOOD = {"AccountingStorageType": "accounting_storage/slurmdbd", "SchedulerParameters": "permit_job_expansion"}
WORK = work_of_moves({5: ["n1", "n2", "n3"]}, {5: ["n1", "n2", "n7"]}, list(NODES))


def decided(
    job: SlurmJob, wanted: Wanted, work: Work = WORK, *, whole: bool = True, **facts: object
) -> Decision:
    """The decision on ``work``, with ``job`` as Slurm has it."""
    truth = Truth({job.job_id: job}, frozenset({job.job_id} if whole else ()), NODES)
    known = Facts(truth, {"5": (("n1",), ("n2",), ("n3",))}, GOOD, {}, ("run", None))
    return decide(work, replace(known, **facts), wanted)


def codes(decision: Decision) -> set[str]:
    """What is against it."""
    return {refusal.code for refusal in decision.refusals}


def test_what_is_refused_in_live() -> None:
    fine = slurm_job(5, "n[1-3]")
    assert decided(fine, "live").steps == (Step("live", 0),)
    assert codes(decided(fine, "live", config={**GOOD, "AccountingStorageType": "(null)"})) == {"no_slurmdbd"}
    assert codes(decided(fine, "live", config={**GOOD, "SchedulerParameters": "(null)"})) == {
        "no_job_expansion"
    }
    gpus = slurm_job(5, "n[1-3]", gres_detail=["gpu:8", "gpu:8", "gpu:8"])
    assert codes(decided(gpus, "live")) == {"gres_in_live"}
    assert codes(decided(fine, "live", whole=False)) == {"shared_nodes"}
    assert codes(decided(slurm_job(5, "n[1-3]", batch_host="n3"), "live")) == {"batch_host"}
    early = work_of_moves({5: ["n2", "n3"]}, {5: ["n2", "n1"]}, list(NODES))
    assert codes(decided(slurm_job(5, "n[2-3]", batch_host="n2"), "live", early)) == {"before_batch_host"}
    assert codes(decided(fine, "live", steps={"5": (("n1", "n2", "n3"),)})) == {"steps_span_nodes"}
    assert codes(decided(fine, "live", worker=(None, None))) == {"no_worker_command"}
    assert not codes(decided(fine, "live", worker=(None, None), state=True))


def test_auto_falls_back_to_requeue() -> None:
    gpus = slurm_job(5, "n[1-3]", gres_detail=["gpu:8", "gpu:8", "gpu:8"])
    assert decided(gpus, "auto").steps == (Step("hold", 5), Step("release", 5))
    stuck = slurm_job(5, "n[1-3]", gres_detail=["gpu:8", "gpu:8", "gpu:8"], requeue=False)
    assert codes(decided(stuck, "auto")) == {"gres_in_live", "not_requeueable"}
    assert codes(decided(slurm_job(5, "n[1-3]", resv_name="theirs"), "requeue")) == {"job_reserved"}


def test_what_is_refused_in_any_profile() -> None:
    assert codes(decided(slurm_job(6, "n[1-3]"), "auto")) == {"job_gone"}
    assert codes(decided(slurm_job(5, "n[1-4]"), "auto")) == {"placement_changed"}
    assert codes(decided(slurm_job(5, "n[1-3]", job_state="SUSPENDED"), "auto")) == {"placement_changed"}
    assert codes(decided(slurm_job(5, "n[1-3]", state_reason="Prolog"), "auto")) == {"placement_changed"}
    assert codes(decided(slurm_job(5, "n[1-3]", het_job_id=5), "auto")) == {"het_job"}
    assert codes(decided(slurm_job(5, "n[1-3]"), "auto", replace(WORK, wrong=("x",)))) == {"not_slurm"}
    theirs = {"maint": Reservation("maint", frozenset({"n7"}), "")}
    assert codes(decided(slurm_job(5, "n[1-3]"), "auto", reservations=theirs)) == {"destination_reserved"}
    busy = {**NODES, "n7": replace(NODES["n7"], states=frozenset({"ALLOCATED"}))}
    jobs = {5: slurm_job(5, "n[1-3]"), 9: slurm_job(9, "n7")}
    truth = Truth(jobs, frozenset(jobs), busy)
    assert codes(decided(jobs[5], "auto", truth=truth)) == {"destination_busy"}
    down = {**NODES, "n7": replace(NODES["n7"], states=frozenset({"DOWN"}))}
    truth = Truth({5: jobs[5]}, frozenset({5}), down)
    assert codes(decided(jobs[5], "auto", truth=truth)) == {"node_down"}
    ours = {"mt_p_0": Reservation("mt_p_0", frozenset({"n7"}), "")}
    assert not codes(decided(slurm_job(5, "n[1-3]"), "auto", reservations=ours))


def test_a_job_that_is_there_already_is_done() -> None:
    decision = decided(slurm_job(5, "n[1-2,7]"), "auto")
    assert (decision.refusals, decision.steps, decision.done) == ([], (), frozenset({0}))


def test_ranks_that_a_requeue_would_mix_up_are_refused() -> None:
    """Groups (n2, n3) and (n4, n5); n5 goes to n1, which Slurm lists first."""
    move = WorkerMove(0, 5, "b", 1, "n5", "n1", 1, 0)
    groups = {"a": ("n2", "n3"), "b": ("n4", "n5")}
    job = JobWork(5, ("n2", "n3", "n4", "n5"), groups, {"a": (0, 1), "b": (0, 1)}, {"a": 1, "b": 1}, (move,))
    work = Work("p", "p", "lab", {5: job}, {node: int(node not in job.nodes) for node in NODES})
    now = slurm_job(5, "n[2-5]", batch_host="n2")
    assert codes(decided(now, "requeue", work)) == {"ranks_not_kept"}
    done, nodes = frozenset({0}), ("n1", "n2", "n3", "n4")
    assert not told_by_order(job, "", nodes, done)
    comment = comment_after(job, "mine; monkeytree:tp=2,pp=2 end", nodes, done)
    assert comment == "mine; monkeytree:tp=2,pp=2,groups=1.2/3.0,orders=1.2/3.0 end"
    layout = layout_of_comment(comment)
    assert (layout.tp, layout.groups) == (2, ((1, 2), (3, 0)))
    assert comment_after(job, comment, nodes, done) == comment, "it is said once"
    assert comment_after(job, "x" * 999, nodes, done) is None


def test_worker_commands() -> None:
    said = slurm_job(5, "n1", comment="monkeytree:tp=2 monkeytree-worker:/opt/w.sh")
    assert worker_command(said, None, "site") == "/opt/w.sh"
    assert worker_command(said, "option", "site") == "option"
    assert worker_command(slurm_job(5, "n1"), None, "site") == "site"
    assert worker_command(slurm_job(5, "n1"), None, None) is None


def test_names_are_short_and_plain() -> None:
    assert donor_name(tag_of("p-1"), 3) == "mt:p-1:3"
    odd = tag_of("a plan, with = signs")
    assert reservation_name(odd, 3) == f"mt_{odd}_3"
    assert len(odd) == 12
    assert tag_of("x" * 25) != tag_of("x" * 26)


def test_a_journal_outlives_a_line_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = Journal(path, "p")
    journal.write("done", move=1)
    journal.close()
    with path.open("a") as stream:
        stream.write('{"at": "2026-')
    again = Journal(path, "p")
    again.write("done", move=2)
    again.close()
    last = Journal(path, "p")
    assert [entry["move"] for entry in last.entries] == [1, 2]
    assert last.has("done", move=2)
    assert not last.has("done", move=3)
    last.close()
    with pytest.raises(MovesRefused, match="is the journal of plan p"):
        Journal(path, "q")


def test_a_journal_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = Journal(path, "p")
    with pytest.raises(MovesRefused, match="is being carried out already"):
        Journal(path, "p")
    journal.close()
    Journal(path, "p").close()


def test_the_docs_name_every_code() -> None:
    page = (ROOT / "docs" / "slurm.md").read_text("utf-8")
    for code in (*REFUSALS, *STOPS):
        assert f"`{code}`" in page, code
