"""Why a plan is not carried out: pure checks, each with its named refusal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monkeytree.snapshot import Snapshot

from .agents_store import AgentRow
from .documents import utc_text
from .errors import PlanNotReady
from .executions import Standing
from .executions_errors import (
    AgentMissing,
    ClusterChanged,
    ExecutionOverlaps,
    ExecutionRefused,
    ExecutionsDisabled,
    JobCoolingDown,
    JobOptedOut,
    MoveLimit,
    NotExecutable,
    NothingToExecute,
    NotWorthwhile,
    OutsideWindow,
    SequenceMismatch,
)
from .executions_match import Difference, snapshot_differences, tell
from .executions_rows import Step
from .executions_windows import read_windows
from .rows import PlanRow, SnapshotRow
from .settings import Settings

#: A job with this label and value is left alone.
OPT_OUT_LABEL, OPT_OUT = "monkeytree.execute", "never"
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A plan, and what is known of its cluster.

    Attributes:
        snapshot: the plan's; ``newest``: the cluster's, with its row.
        agents: those of the cluster that beat of late, by node.
    """

    plan: PlanRow
    document: Mapping[str, Any]
    snapshot: Snapshot
    newest_row: SnapshotRow
    newest: Snapshot
    steps: tuple[Step, ...]
    agents: Mapping[str, AgentRow]
    expected_sequence: int | None

    @property
    def jobs(self) -> dict[str, None]:
        """Ids of the jobs that pause, in order."""
        return dict.fromkeys(step.job for step in self.steps if step.kind != "routes")


def refusals(case: Case, settings: Settings, now: float) -> Iterator[ExecutionRefused]:
    """All reasons against it that rest on the plan and the cluster, most basic first."""
    allowed = enabled_clusters(settings)
    if allowed is not None and case.plan.cluster not in allowed:
        yield ExecutionsDisabled(
            f"this service only recommends for cluster {case.plan.cluster!r}: name it in "
            "MONKEYTREE_EXECUTIONS to have agents carry plans out"
        )
    elif not settings.agent_token:
        yield ExecutionsDisabled(
            "MONKEYTREE_AGENT_TOKEN is not set: set it to the secret that the agents are started with"
        )
    if not case.steps:
        yield NothingToExecute(f"plan {case.plan.id} has neither moves, new ring orders nor source ports")
    if case.plan.planning.trigger == "worthwhile" and case.document.get("worthwhile") is False:
        yield NotWorthwhile(
            f"plan {case.plan.id} costs more than it gains (see its `predicted`), and its planning.trigger "
            "is 'worthwhile'"
        )
    yield from _of_jobs(case)
    yield from _of_sequence(case)
    yield from _of_agents(case, settings)
    windows = read_windows(settings.execution_windows)
    if not windows.open_at(now):
        yield OutsideWindow(
            f"no window of MONKEYTREE_EXECUTION_WINDOWS is open; the next opens at "
            f"{windows.next_opening(now):%Y-%m-%dT%H:%MZ}"
        )


def standing_refusals(
    case: Case, standing: Standing, settings: Settings, now: float
) -> Iterator[ExecutionRefused]:
    """The reasons against it that rest on other executions."""
    yield from _of_overlap(case, standing)
    moves = sum(step.kind == "move" for step in case.steps)
    promised = sum(step.kind == "move" for _, step in standing.live)
    limit = settings.moves_per_hour
    if limit and moves + promised + standing.moves_begun > limit:
        yield MoveLimit(
            f"{moves} moves on top of {standing.moves_begun} of the last hour and {promised} promised ones "
            f"would pass MONKEYTREE_MOVES_PER_HOUR={limit}; wait, or plan with a lower planning.max_moves"
        )
    warm = {
        job: at + settings.cool_down_s
        for job, at in standing.paused_at.items()
        if job in case.jobs and at + settings.cool_down_s > now
    }
    if warm:
        job, until = max(warm.items(), key=lambda item: item[1])
        yield JobCoolingDown(
            f"job {job!r} was paused a short while ago; MONKEYTREE_COOL_DOWN_S={settings.cool_down_s:g} "
            f"leaves it alone until {utc_text(until)}",
            _named("job", warm),
        )


def enabled_clusters(settings: Settings) -> frozenset[str] | None:
    """Clusters whose plans may be carried out; None: all."""
    names = frozenset(filter(None, (name.strip() for name in settings.executions.split(","))))
    return None if "*" in names else names


def nodes_of(case: Case) -> dict[str, None]:
    """Nodes whose agents have a part in it: hosts of its jobs, targets, and nodes with a table."""
    nodes = {
        node: None for job, group in case.snapshot.groups if job.id in case.jobs for node in group.workers
    }
    nodes |= {step.target: None for step in case.steps if step.target}
    return nodes | {step.source: None for step in case.steps if step.kind == "routes" and step.source}


def check_ready(plan: PlanRow) -> None:
    """Refuse a plan without moves to carry out.

    Raises:
        PlanNotReady: it is not ready, or never will be.
    """
    if plan.state != "ready":
        raise PlanNotReady(plan.id, plan.state)


def _of_jobs(case: Case) -> Iterator[ExecutionRefused]:
    jobs = {job.id: job for job in case.snapshot.jobs if job.id in case.jobs}
    heavy = [name for name, job in jobs.items() if job.mobility != "live"]
    if heavy:
        yield NotExecutable(
            f"job {heavy[0]!r} has mobility {jobs[heavy[0]].mobility!r}; agents move only live jobs",
            _named("job", heavy),
        )
    out = [name for name, job in jobs.items() if job.labels.get(OPT_OUT_LABEL) == OPT_OUT]
    if out:
        yield JobOptedOut(
            f"job {out[0]!r} has the label {OPT_OUT_LABEL}={OPT_OUT}; give it mobility 'none' to plan "
            "around it",
            _named("job", out),
        )


def _of_sequence(case: Case) -> Iterator[ExecutionRefused]:
    newest = case.newest_row.sequence
    if case.expected_sequence is not None and case.expected_sequence != newest:
        yield SequenceMismatch(
            f"expected_sequence is {case.expected_sequence}, the newest snapshot of cluster "
            f"{case.plan.cluster!r} has {newest}"
        )
    if case.newest_row.id != case.plan.snapshot_id:
        found = snapshot_differences(case.snapshot, case.newest, case.steps)
        if found:
            yield ClusterChanged(
                f"the newest snapshot differs from the plan's: {tell(found)}", difference_errors(found)
            )


def difference_errors(found: Sequence[Difference]) -> list[dict[str, Any]]:
    """Differences as members of ``errors`` of a problem."""
    return [
        {"detail": f"{one.subject}: expected {one.expected}, found {one.found}", "value": one.document()}
        for one in found
    ]


def _of_agents(case: Case, settings: Settings) -> Iterator[ExecutionRefused]:
    missing = [node for node in nodes_of(case) if node not in case.agents]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        yield AgentMissing(
            f"no agent of node {missing[0]!r}{more} has beaten in the last {settings.agent_gone_s:g} s",
            _named("node", missing),
        )


def _of_overlap(case: Case, standing: Standing) -> Iterator[ExecutionRefused]:
    mine = {place for step in case.steps for place in _places(step)}
    for execution_id, step in standing.live:
        shared = sorted(mine & _places(step))
        if shared:
            noun, name = shared[0]
            yield ExecutionOverlaps(
                f"execution {execution_id} holds {noun} {name!r} until it ends; wait for it, or cancel it",
                [{"detail": f"shares {noun} {name!r}", "value": execution_id} for noun, name in shared][
                    :_MOST_NAMED
                ],
            )
            return


def _places(step: Step) -> set[tuple[str, str]]:
    """What only one execution may touch at a time: the job, nodes, and racks for their uplinks' sake.

    Nodes with a table count: it is of the whole plan, so one of another plan would undo it.
    """
    places = set() if step.kind == "routes" else {("job", step.job)}
    for noun, name in (
        ("node", step.source), ("node", step.target), ("rack", step.source_rack), ("rack", step.target_rack),
    ):  # fmt: skip
        if name is not None:
            places.add((noun, name))
    return places


def _named(noun: str, names: Collection[str]) -> list[dict[str, Any]]:
    return [{"detail": noun, "value": name} for name in list(names)[:_MOST_NAMED]]
