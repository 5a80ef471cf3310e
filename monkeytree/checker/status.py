"""The plan's status against what it does and claims (contract, section 2, first table)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .fault import Fault
from .loads import Loads, excess_of
from .outcome import Outcome, left_on_draining
from .placement import Placement
from .totals import same_seconds


@dataclass(frozen=True, slots=True)
class Facts:
    """What the status must agree with, as counted by the checker."""

    plan: Mapping[str, Any]
    clean_before: bool
    acts: bool
    excess: int
    undrained: int

    @property
    def complies(self) -> bool:
        return not self.excess and not self.undrained

    @property
    def proved(self) -> bool:
        """Whether the plan gives a bound equal to the value of its named objective."""
        objective = self.plan["objective"]
        if objective["name"] == "gpu_seconds":
            bound = objective.get("lower_bound")
            return bound is not None and same_seconds(bound, objective["value"])
        return bool(self.plan["lower_bound"] == self.plan["moves_needed"])


def status_faults(
    plan: Mapping[str, Any], outcome: Outcome, before: Loads, after: Loads, placement: Placement
) -> Iterator[Fault]:
    """A status that does not fit the plan, and an impossible ``limited_by``."""
    now = {key: group.workers for key, group in placement.groups.items()}
    facts = Facts(
        plan=plan,
        clean_before=not excess_of(before, placement) and not left_on_draining(now, placement),
        acts=bool(outcome.steps or outcome.changed),
        excess=excess_of(after, placement),
        undrained=len(left_on_draining(outcome.workers, placement)),
    )
    status = plan["status"]
    reason = _REASONS.get(status)
    if reason is None:
        yield Fault("unknown_status", "/status", f"{status!r} is none of {', '.join(_REASONS)}")
    else:
        words = reason(facts)
        if words:
            yield Fault(f"status_{status}", "/status", f"{status}, but {words}")
        elif facts.clean_before and status != "compliant":
            words = "nothing is over and nothing to drain: the plan must be compliant"
            yield Fault("status_compliant", "/status", f"{status}, but {words}")
    yield from _limit_faults(plan["limited_by"], placement)


def _limit_faults(limit: str | None, placement: Placement) -> Iterator[Fault]:
    if limit not in (None, "max_moves", "time"):
        yield Fault("unknown_limit", "/limited_by", f"{limit!r} is not null, max_moves or time")
    if limit == "max_moves" and placement.planning.max_moves is None:
        yield Fault("unknown_limit", "/limited_by", "is max_moves, but planning.max_moves is not set")


def _not_compliant(facts: Facts) -> str:
    if not facts.clean_before:
        return "the snapshot has a leaf or pod over, or workers to drain"
    return "it has moves or changed rings" if facts.acts else ""


def _not_optimal(facts: Facts) -> str:
    return _not_complying(facts) or ("" if facts.proved else "no lower bound equals its objective")


def _not_feasible(facts: Facts) -> str:
    return _not_complying(facts) or ("its lower bound proves it optimal" if facts.proved else "")


def _not_best_effort(facts: Facts) -> str:
    if facts.undrained:
        return f"{facts.undrained} workers stay on draining nodes: it is infeasible"
    if not facts.excess and facts.plan["limited_by"] is None:
        return "it complies and nothing limited it"
    return ""


def _not_infeasible(facts: Facts) -> str:
    return "" if facts.undrained else "no worker stays on a draining node"


def _not_complying(facts: Facts) -> str:
    if facts.complies:
        return ""
    return f"the excess is {facts.excess} and {facts.undrained} workers stay on draining nodes"


_REASONS: Mapping[str, Callable[[Facts], str]] = {
    "compliant": _not_compliant,
    "optimal": _not_optimal,
    "feasible": _not_feasible,
    "best_effort": _not_best_effort,
    "infeasible": _not_infeasible,
}
