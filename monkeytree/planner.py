"""From a snapshot to a plan: the whole story in :func:`make_plan`.

State the problem on counts; find the lexicographic optimum; put the counts on nodes (splitting sites
whose workers do not pack and solving again); settle the ring orders; give every flow an uplink; time
the moves. Who checks the result (:mod:`monkeytree.checker`) shares none of this code.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import uuid4

from .advise import advise
from .certify import certify
from .counts import Counts, score
from .explain import because, conflict
from .flows import routed_flows, unguaranteed
from .identity import snapshot_id
from .optimise import Answer
from .placement import Arrangement, Degrees, degrees, total_excess
from .plan import Load, Objective, Plan, PlanStatus, Ring, SolverReport, Undrained
from .predict import predict, worthwhile
from .problem import state_problem
from .realise import RankMove, Unplaceable, realise
from .ring import same_cycle, settled_order
from .snapshot import Snapshot
from .solvers.choose import Bench
from .steering import steer
from .strategy import Strategy
from .timing import pause_seconds, timed_moves, transients

STAGE_VERSION = "1"
"""Of our own stages, search and split; a solver reports its own."""
EXPLAIN_LEAST_S, EXPLAIN_MOST_S = 0.5, 2.0
"""Seconds for a certificate or a conflict: at least, even past the limit, and at most."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer put on nodes."""

    answer: Answer
    moves: tuple[RankMove, ...]
    reordered: frozenset[int]
    stage: str | None = None


def make_plan(
    snapshot: Snapshot,
    *,
    solver: str | None = None,
    time_limit_s: float | None = None,
    previous: Plan | None = None,
    plan_id: str | None = None,
    repeatable: bool = False,
) -> Plan:
    """The plan of a snapshot.

    Args:
        solver: ``auto``, ``gurobi``, ``highs`` or ``cbc``; by default the snapshot's own.
        time_limit_s: seconds after which the incumbent is returned with its bound; likewise.
        previous: an earlier plan of this cluster, whose ring orders and uplinks are kept where they
            can be.
        plan_id: id of the plan; by default a new UUID.
        repeatable: no clock but the time limit has a say, so that a plan that ends before it is the same
            on any machine. Programs then break no ties, and the search does so by effort.

    Raises:
        UnknownSolver: no solver of that name.
        SolverUnavailable: the solver cannot be used here or cannot take this size.
        SolverFailed: the solver crashed.
    """
    start = time.monotonic()
    limit_s = snapshot.planning.time_limit_s if time_limit_s is None else time_limit_s
    bench = Bench(snapshot.planning.solver if solver is None else solver)
    decision = decide(snapshot, bench, start + limit_s, repeatable)
    before = Arrangement.of(snapshot)
    after = carry_out(snapshot, before, decision, previous)
    name, version = (decision.stage, STAGE_VERSION) if decision.stage else bench.answered_by
    report = SolverReport(name, version, time.monotonic() - start, bench.trials)
    plan = _write_plan(snapshot, decision, before, after, report, previous, plan_id or str(uuid4()))
    return explained(snapshot, after, plan, start + limit_s)


def explained(snapshot: Snapshot, after: Arrangement, plan: Plan, deadline: float) -> Plan:
    """The plan with the reasons of its moves, and with the proof of its bound or what stands against it."""
    reasons = because(snapshot, after, plan.moves)
    moves = tuple(replace(move, because=why) for move, why in zip(plan.moves, reasons, strict=True))
    plan = replace(plan, moves=moves)
    now = time.monotonic()
    limit = min(max(deadline, now + EXPLAIN_LEAST_S), now + EXPLAIN_MOST_S)
    if plan.status in ("optimal", "feasible") and plan.lower_bound:
        return replace(plan, certificate=certify(snapshot, plan.lower_bound, deadline=limit))
    if plan.status in ("best_effort", "infeasible") and plan.limited_by != "max_moves":
        return replace(plan, conflict=conflict(snapshot, deadline=limit))
    return plan


def decide(snapshot: Snapshot, bench: Bench, deadline: float, repeatable: bool = False) -> Decision:
    """The best answer that can be put on nodes, by refining sites until it can."""
    if _compliant(snapshot, degrees(snapshot, Arrangement.of(snapshot))):
        problem = state_problem(snapshot)
        still = Counts({}, {})
        answer = Answer(still, score(problem, still), 0, True, None, True, True)
        return Decision(replace(answer, objective_bound=0.0), (), frozenset())
    split: frozenset[str] = frozenset()
    while True:
        found = Strategy(snapshot, split, bench, deadline, repeatable).best()
        problem, answer = found.problem, found.answer
        moves = realise(snapshot, problem, answer.counts)
        if not isinstance(moves, Unplaceable) and answer.unlimited is not None:
            # That the cap is to blame is only true if the better counts fit the nodes too.
            better = realise(snapshot, problem, answer.unlimited)
            moves = better if isinstance(better, Unplaceable) else moves
        if not isinstance(moves, Unplaceable):
            reordered = frozenset(problem.members[g].index for g in answer.counts.reordered)
            return Decision(answer, tuple(moves), reordered, found.stage)
        split |= {node for site in moves.sites for node in problem.sites[site].nodes}


def carry_out(
    snapshot: Snapshot, before: Arrangement, decision: Decision, previous: Plan | None
) -> Arrangement:
    """The arrangement after the moves, with settled ring orders."""
    nodes = [list(places) for places in before.nodes]
    for move in decision.moves:
        nodes[move.group][move.rank] = move.target
    changed = {move.group for move in decision.moves} | decision.reordered
    pod_of = {rack.id: rack.pod for rack in snapshot.racks}
    rack_of = snapshot.rack_of
    known = {(ring.job, ring.group): ring.order for ring in previous.rings} if previous else {}
    orders = list(before.orders)
    for at in changed:
        job, group = snapshot.groups[at]
        preferred = known.get((job.id, group.id)) if group.order is None else None
        if preferred is not None and sorted(preferred) != list(range(len(group.workers))):
            preferred = None
        orders[at] = settled_order(
            before.orders[at],
            [rack_of[node].id for node in before.nodes[at]],
            [rack_of[node].id for node in nodes[at]],
            pod_of,
            preferred,
        )
    return Arrangement(tuple(tuple(places) for places in nodes), tuple(orders))


def _compliant(snapshot: Snapshot, found: Degrees) -> bool:
    """No rack or pod over its bound, and no worker on a draining node."""
    nodes = snapshot.node_by_id
    if any(nodes[node].drain for _, group in snapshot.groups for node in group.workers):
        return False
    return total_excess(snapshot, found) == 0


def _write_plan(
    snapshot: Snapshot,
    decision: Decision,
    before: Arrangement,
    after: Arrangement,
    report: SolverReport,
    previous: Plan | None,
    plan_id: str,
) -> Plan:
    answer = decision.answer
    moves = timed_moves(snapshot, decision.moves)
    rings = _rings(snapshot, before, after)
    flows, shared = routed_flows(snapshot, after, previous)
    places = {(job.id, group.id): at for (job, group), at in zip(snapshot.groups, after.nodes, strict=True)}
    flows, unsteered = steer(snapshot, places, flows)
    moved = {move.job for move in moves}
    reordered = sorted({ring.job for ring in rings if ring.changed} - moved)
    old, new = degrees(snapshot, before), degrees(snapshot, after)
    racks, pods = _loads(snapshot, old, new)
    predicted = predict(snapshot, before, after, moves, rings)
    status = _status(snapshot, answer, old)
    limited_by = answer.limited_by
    if status in ("best_effort", "infeasible") and limited_by is None and not answer.least_excess:
        limited_by = "time"
    return Plan(
        id=plan_id,
        snapshot_id=snapshot_id(snapshot),
        cluster=snapshot.cluster,
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        status=status,
        solver=report,
        moves_needed=len(moves),
        lower_bound=answer.lower_bound,
        undrained=_undrained(snapshot, after),
        excess=answer.score.excess,
        excess_proved=answer.least_excess or answer.score.excess == 0,
        limited_by=limited_by,
        jobs_paused=len(moved) + len(reordered),
        pause_s=pause_seconds(snapshot, moves, reordered),
        objective=_objective(snapshot, answer),
        racks=racks,
        pods=pods,
        moves=moves,
        rings=rings,
        flows=flows,
        transients=transients(snapshot, moves, before, after, (old, new)),
        shared_uplinks=shared,
        unguaranteed=unguaranteed(snapshot, flows),
        unsteered=unsteered,
        placements=advise(snapshot, after),
        predicted=predicted,
        worthwhile=worthwhile(snapshot, predicted, moves),
    )


def _status(snapshot: Snapshot, answer: Answer, old: Degrees) -> PlanStatus:
    if _compliant(snapshot, old):
        return "compliant"
    if answer.score.undrained:
        return "infeasible"
    if answer.score.excess:
        return "best_effort"
    return "optimal" if answer.objective_proved else "feasible"


def _objective(snapshot: Snapshot, answer: Answer) -> Objective:
    if snapshot.planning.objective == "gpu_seconds":
        bound = answer.objective_bound
        return Objective("gpu_seconds", answer.score.gpu_seconds, answer.ties_proved, bound)
    return Objective("moves", answer.score.moves, answer.ties_proved)


def _undrained(snapshot: Snapshot, after: Arrangement) -> tuple[Undrained, ...]:
    nodes = snapshot.node_by_id
    return tuple(
        Undrained(job.id, group.id, rank, node)
        for (job, group), places in zip(snapshot.groups, after.nodes, strict=True)
        for rank, node in enumerate(places)
        if nodes[node].drain
    )


def _rings(snapshot: Snapshot, before: Arrangement, after: Arrangement) -> tuple[Ring, ...]:
    pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = list(
        zip(before.orders, after.orders, strict=True)
    )
    return tuple(
        Ring(job.id, group.id, new, changed=not same_cycle(old, new))
        for (job, group), (old, new) in zip(snapshot.groups, pairs, strict=True)
        if len(group.workers) > 1
    )


def _loads(snapshot: Snapshot, old: Degrees, new: Degrees) -> tuple[dict[str, Load], dict[str, Load]]:
    rails = range(snapshot.fabric.rails)
    racks = {
        rack.id: Load(
            bound=tuple(snapshot.bound(rack) for _ in rails),
            before=tuple(old.racks.get((rack.id, rail), 0) for rail in rails),
            after=tuple(new.racks.get((rack.id, rail), 0) for rail in rails),
        )
        for rack in snapshot.racks
    }
    pods = {
        pod.id: Load(
            bound=(snapshot.pod_bound(pod),),
            before=(old.pods.get(pod.id, 0),),
            after=(new.pods.get(pod.id, 0),),
        )
        for pod in snapshot.pods
    }
    return racks, pods
