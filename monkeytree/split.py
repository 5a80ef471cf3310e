"""Two small programs in place of a large one: a proved bound, and an answer that often meets it.

*Relaxed*: only the racks in trouble are kept; all others become one pool without bounds. What happens
at a rack in trouble depends on its own workers alone, moves inside the pool are free, and whatever
enters a rack in trouble anew could as well enter the pool; so the optimum of the relaxed problem
bounds the moves from below, and where it is infeasible so is the whole (docs/solver.md).

*Guided*: the groups that the relaxed answer moved may enter a few racks with room; every other group
of a rack in trouble keeps to the racks it is on; the rest stands still. Any answer is an answer of
the whole, and where its moves meet the bound it is optimal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

from .counts import Counts, loads_of
from .problem import Member, Problem, Site

_ENDLESS = 10**9


def racks_in_trouble(problem: Problem) -> frozenset[int]:
    """Racks over their bound, in a pod over its bound, or with workers that have to leave a node."""
    loads, pod_loads = loads_of(problem, Counts({}, {}))
    trouble = {rack for (rack, _), load in loads.items() if load > problem.bounds[rack]}
    over = {pod for pod, load in pod_loads.items() if load > problem.pod_bounds[pod]}
    trouble |= {rack for rack, pod in enumerate(problem.pod_of) if pod in over}
    for member in problem.members:
        for site in member.movable:
            if problem.sites[site].drain:
                trouble.add(problem.sites[site].rack)
    return frozenset(trouble)


def relaxed(problem: Problem, kept: frozenset[int]) -> Problem:
    """The problem with every rack outside ``kept`` merged into one pool without bounds.

    Its members are those of ``problem`` that are on a kept rack, in the same order.
    """
    rack_number = {rack: number for number, rack in enumerate(sorted(kept))}
    pool_rack = len(rack_number)
    sites: list[Site] = []
    site_number: dict[int, int] = {}
    for index, site in enumerate(problem.sites):
        if site.rack in rack_number:
            site_number[index] = len(sites)
            sites.append(replace(site, rack=rack_number[site.rack]))
    pool = len(sites)
    sites.append(Site(pool_rack, (), (_ENDLESS,), accepts=True, drain=False, node_class=""))
    members = [
        _pooled(problem, member, rack_number, site_number, pool)
        for member in problem.members
        if on_racks(problem, member, kept)
    ]
    fixed = {
        (rack_number[rack], rail): load for (rack, rail), load in problem.fixed.items() if rack in rack_number
    }
    return replace(
        problem,
        bounds=(*(problem.bounds[rack] for rack in rack_number), _ENDLESS),
        fixed=fixed,
        pod_of=(),
        pod_bounds=(),
        pod_fixed={},
        sites=tuple(sites),
        members=tuple(members),
        max_moves=None,
    )


def on_racks(problem: Problem, member: Member, racks: frozenset[int]) -> bool:
    """Whether a member has workers on any of ``racks``."""
    return any(problem.sites[site].rack in racks for site in member.count)


def _pooled(
    problem: Problem,
    member: Member,
    rack_number: Mapping[int, int],
    site_number: Mapping[int, int],
    pool: int,
) -> Member:
    """A member with all that is outside the kept racks in the pool.

    It may enter every site of the kept racks it stands on: there, unlike on a rack that is new to it,
    the pool is no substitute, since becoming whole on the rack takes its count away.
    """

    def pooled(counts: Mapping[int, int]) -> Counter[int]:
        merged: Counter[int] = Counter()
        for site, value in counts.items():
            merged[site_number.get(site, pool)] += value
        return merged

    own_racks = {problem.sites[site].rack for site in member.count}
    entry = {
        site_number[site]
        for site in member.targets
        if site in site_number and problem.sites[site].rack in own_racks
    }
    departures = {
        rack_number[rack]: times for rack, times in member.rack_departures.items() if rack in rack_number
    }
    return replace(
        member,
        count=pooled(member.count),
        movable=pooled(member.movable),
        targets=(*sorted(entry), pool) if member.targets else (),
        rack_departures=departures,
        pod_departures={},
        loose=any(times > 1 for times in departures.values()),
    )


def moved_groups(relaxed_problem: Problem, counts: Counts) -> frozenset[int]:
    """Groups (indices of ``Snapshot.groups``) that an answer of the relaxed problem changes."""
    changed = counts.moved_members | counts.reordered
    return frozenset(relaxed_problem.members[g].index for g in changed)


def guided(problem: Problem, kept: frozenset[int], moved: frozenset[int], receivers: int) -> Problem:
    """``problem`` with new presence only for ``moved`` groups, each on about ``receivers`` sites.

    Sites with the most room are handed out in turn, so that groups do not all ask for the same ones.
    """
    ranked = _receivers(problem, kept)
    members = []
    turn = 0
    for member in problem.members:
        own_racks = {problem.sites[site].rack for site in member.count}
        targets = {site for site in member.targets if problem.sites[site].rack in own_racks}
        if member.index in moved:
            allowed = set(member.targets)
            choice = [site for site in ranked if site in allowed]
            start = turn * receivers % max(1, len(choice))
            targets |= set((choice[start:] + choice[:start])[:receivers])
            targets |= set(choice[: receivers // 2])
            turn += 1
        members.append(replace(member, targets=tuple(sorted(targets))))
    return replace(problem, members=tuple(members))


def swapping(problem: Problem, kept: frozenset[int], moved: frozenset[int]) -> Problem:
    """``problem`` for clusters without room: ``moved`` groups may enter any site, all others their own
    racks and those in trouble, whose slots they take in exchange.
    """
    members = []
    for member in problem.members:
        near = kept | {problem.sites[site].rack for site in member.count}
        targets = member.targets
        if member.index not in moved:
            targets = tuple(site for site in targets if problem.sites[site].rack in near)
        members.append(replace(member, targets=targets))
    return replace(problem, members=tuple(members))


def _receivers(problem: Problem, kept: frozenset[int]) -> list[int]:
    """Accepting sites outside trouble with free slots and slack under their bound, roomiest first."""
    loads, _ = loads_of(problem, Counts({}, {}))
    used: dict[int, int] = defaultdict(int)
    for member in problem.members:
        for site, count in member.movable.items():
            used[site] += count * member.slots
    free = {
        index: sum(site.free_of_fixed) - used[index]
        for index, site in enumerate(problem.sites)
        if site.accepts and site.rack not in kept
    }

    def slack(site: int) -> int:
        rack = problem.sites[site].rack
        return min(problem.bounds[rack] - loads[rack, rail] for rail in range(problem.rails))

    roomy = [site for site, slots in free.items() if slots > 0]
    return sorted(roomy, key=lambda site: (slack(site) <= 0, -free[site], -slack(site), site))
