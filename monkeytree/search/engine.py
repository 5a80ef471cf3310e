"""Lift and place: iterative deepening over the number of moved workers, with proof.

At budget K the search asks whether K lifts suffice. It takes something that is wrong with the state
and tries every way to put it right:

1. a leaf (or pod) over its bound: in any answer some group that counts there goes, or becomes whole
   there. A group whose ways have been tried is KEPT: it counts there in what is left to try;
2. a site with more workers than slots: a worker of some group is lifted (groups tried: NOLIFT);
3. a lifted worker: it lands on some site (sites tried: NOLAND).

So each answer is met on exactly one branch, and a budget that ends without one proves K + 1. With no
lifts left, sites that no floating group can tell apart are tried once. Loose ring orders are taken as
given up throughout, which is free as long as moves are all that counts.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from monkeytree.counts import Counts
from monkeytree.problem import Problem

from .bound import arrival, counting, eviction, lifts_needed
from .state import Pair, State


class OutOfEffort(Exception):  # a budget that ended, not an error
    """The effort or the time is used up."""


class Engine:
    """One search: its state, its flags and its effort (about states visited).

    Attributes:
        keep: (member, rack) or (member, -1 - pod) pairs that go on counting.
        no_lift, no_land: (member, site) pairs closed in the branch at hand.
        home, away: racks a member's lifted workers have to land on, or must not.
        prune: asked at every state with the lifts left; True cuts the branch.
    """

    def __init__(self, problem: Problem, effort: int, deadline: float) -> None:
        self.problem = problem
        self.state = State(problem)
        self.effort, self.deadline = effort, deadline
        self.spent = 0
        self.keep: set[Pair] = set()
        self.no_lift: set[Pair] = set()
        self.no_land: set[Pair] = set()
        self.home: dict[int, list[frozenset[int]]] = defaultdict(list)
        self.away: dict[int, list[frozenset[int]]] = defaultdict(list)
        self.prune: Callable[[int], bool] = lambda left: False
        sets: dict[int, frozenset[int]] = {}
        for member in problem.members:
            if id(member.targets) not in sets:
                sets[id(member.targets)] = frozenset(member.targets)
        self._targets = [sets[id(member.targets)] for member in problem.members]
        self._sites_on: dict[int, int] = defaultdict(int)
        for site in problem.sites:
            self._sites_on[site.rack] += site.accepts

    def restart(self, mark: int, effort: int) -> None:
        """Go back to a mark of the state with all flags lowered and new effort."""
        self.state.undo(mark)
        for closed in (self.keep, self.no_lift, self.no_land, self.home, self.away):
            closed.clear()
        self.spent, self.effort = 0, effort

    def drain(self) -> int:
        """Lift all that may leave draining nodes; returns how many."""
        lifts = 0
        for g, member in enumerate(self.problem.members):
            for site, count in member.movable.items():
                if self.problem.sites[site].drain:
                    self.state.lift(g, site, count)
                    lifts += count
        return lifts

    def answers(self, left: int) -> Iterator[Counts]:
        """Answers with at most ``left`` more lifts, none of them twice."""
        state = self.state
        self._spend(1 + len(state.over))
        if lifts_needed(state, left, self.keep) > left or self.prune(left):
            return
        if state.over:
            yield from self._relieve_leaf(left)
        elif state.over_pods:
            yield from self._relieve_pod(left)
        elif state.overfull:
            yield from self._relieve_site(left)
        elif state.floating:
            yield from self._land(left)
        else:
            yield self._counts()

    def _spend(self, effort: int) -> None:
        self.spent += effort
        if self.spent > self.effort or time.monotonic() > self.deadline:
            raise OutOfEffort

    def _relieve_leaf(self, left: int) -> Iterator[Counts]:
        """Some group that counts on the leaf goes, or comes whole; groups tried are kept."""
        open_groups = {
            leaf: [g for g in counting(self.state, *leaf) if (g, leaf[0]) not in self.keep]
            for leaf in self.state.over
        }
        rack, rail = min(open_groups, key=lambda leaf: (len(open_groups[leaf]), leaf))
        tried: list[Pair] = []
        for g in sorted(open_groups[rack, rail], key=lambda g: (self._cost(g, rack), g)):
            here = frozenset((rack,))
            elsewhere = frozenset(self.state.on_rack[g]) - here
            yield from self._after_lifting(g, here, self.away, here, left)
            yield from self._after_lifting(g, elsewhere, self.home, here, left)
            tried.append((g, rack))
            self.keep.add((g, rack))
        self.keep.difference_update(tried)

    def _relieve_pod(self, left: int) -> Iterator[Counts]:
        """The same one tier up."""
        state, pod_of = self.state, self.problem.pod_of
        pod = min(state.over_pods)
        inside = frozenset(rack for rack, owner in enumerate(pod_of) if owner == pod)
        tried: list[Pair] = []
        for g, pods in enumerate(state.on_pod):
            flag = (g, -1 - pod)
            if pod not in pods or len(pods) < 2 or not state.rings[g] or flag in self.keep:
                continue
            racks = frozenset(state.on_rack[g])
            yield from self._after_lifting(g, racks & inside, self.away, inside, left)
            yield from self._after_lifting(g, racks - inside, self.home, inside, left)
            tried.append(flag)
            self.keep.add(flag)
        self.keep.difference_update(tried)

    def _cost(self, g: int, rack: int) -> int:
        return min(eviction(self.state, g, rack), arrival(self.state, g, rack))

    def _after_lifting(
        self,
        g: int,
        racks: frozenset[int],
        rule: dict[int, list[frozenset[int]]],
        region: frozenset[int],
        left: int,
    ) -> Iterator[Counts]:
        """Answers after lifting all of g off ``racks``; its workers land by ``rule`` in ``region``."""
        state = self.state
        if any((g, rack) in self.keep for rack in racks) or not self._may_lift(g, racks):
            return
        lifts = sum(eviction(state, g, rack) for rack in racks)
        if not 0 < lifts <= left:
            return
        mark = state.mark()
        for site in [site for site in state.standing[g] if state.rack_of[site] in racks]:
            state.lift(g, site, state.standing[g][site])
        rule[g].append(region)
        yield from self.answers(left - lifts)
        rule[g].pop()
        state.undo(mark)

    def _may_lift(self, g: int, racks: frozenset[int]) -> bool:
        return not any(
            (g, site) in self.no_lift for site in self.state.standing[g] if self.state.rack_of[site] in racks
        )

    def _relieve_site(self, left: int) -> Iterator[Counts]:
        """Some group gives up a worker on the site; groups tried give up no more there."""
        state = self.state
        site = min(state.overfull)
        tried: list[Pair] = []
        for g in sorted(state.members_on[state.rack_of[site]]):
            pair = (g, site)
            if not state.movable[g].get(site, 0) or pair in self.no_lift or state.placed[pair] > 0:
                continue
            mark = state.mark()
            state.lift(g, site, 1)
            if left >= 1:
                yield from self.answers(left - 1)
            state.undo(mark)
            tried.append(pair)
            self.no_lift.add(pair)
        self.no_lift.difference_update(tried)

    def _land(self, left: int) -> Iterator[Counts]:
        """A lifted worker lands on some site; sites tried receive no more of its group."""
        state = self.state
        g = self._next_to_land()
        tried: list[Pair] = []
        alike: set[tuple[object, ...]] = set()
        for site in self._landings(g, left):
            if left == 0:
                kind = self._kind(g, site)
                if kind in alike:
                    continue
                alike.add(kind)
            mark = state.mark()
            state.place(g, site, 1)
            if left or not (state.overfull or state.over or state.over_pods):
                yield from self.answers(left)
            state.undo(mark)
            tried.append((g, site))
            self.no_land.add((g, site))
        self.no_land.difference_update(tried)

    def _next_to_land(self) -> int:
        """The floating group that is hardest to place: largest workers, then most rings."""
        members, rings = self.problem.members, self.state.rings
        return min(self.state.floating, key=lambda g: (-members[g].slots, -sum(rings[g]), g))

    def _landings(self, g: int, left: int) -> Sequence[int]:
        """Sites g may land on: its own racks first, then those with the most room."""
        state, rack_of = self.state, self.state.rack_of
        self._spend(len(self._targets[g]) >> 6)
        own = state.on_rack[g]
        fits = self._fits_without_lifts(g) if not left else None
        sites = [
            site
            for site in self.problem.members[g].targets
            if (fits is None or fits(site)) and (g, site) not in self.no_land and (g, site) not in state.gone
        ]
        if self.home[g] or self.away[g]:
            sites = [site for site in sites if self._allowed(g, rack_of[site])]
        return sorted(sites, key=lambda site: (rack_of[site] not in own, -state.free[site], site))

    def _fits_without_lifts(self, g: int) -> Callable[[int], bool]:
        """Whether one worker of g fits a site and, where g would count anew, its leaves."""
        state, slots, bounds = self.state, self.problem.members[g].slots, self.problem.bounds
        own = state.on_rack[g]
        rings = [(rail, count) for rail, count in enumerate(state.rings[g]) if count]

        def fits(site: int) -> bool:
            if state.free[site] < slots:
                return False
            rack = state.rack_of[site]
            if not own or rack in own:
                return True
            return all(state.load[rack, rail] + count <= bounds[rack] for rail, count in rings)

        return fits

    def _allowed(self, g: int, rack: int) -> bool:
        if not (self.home[g] or self.away[g]):
            return True
        return all(rack in region for region in self.home[g]) and not any(
            rack in region for region in self.away[g]
        )

    def _kind(self, g: int, site: int) -> tuple[object, ...]:
        """All that the floating groups can tell of a site for g when no lifts are left."""
        state = self.state
        rack = state.rack_of[site]
        slack = [state.load[rack, rail] for rail in range(self.problem.rails)]
        seen = [
            (other, rack in state.on_rack[other], self._open(other, site), self._allowed(other, rack))
            for other in sorted(state.floating)
            if other != g
        ]
        pod = self.problem.pod_of[rack] if self.problem.pod_of else 0
        alone = -1 if self._sites_on[rack] == 1 else site
        return (
            state.free[site],
            self.problem.bounds[rack],
            *slack,
            rack in state.on_rack[g],
            *seen,
            pod,
            alone,
        )

    def _open(self, g: int, site: int) -> bool:
        pair = (g, site)
        return site in self._targets[g] and pair not in self.no_land and pair not in self.state.gone

    def _counts(self) -> Counts:
        state = self.state
        out = {pair: count for pair, count in state.lifted.items() if count > 0}
        into = {pair: count for pair, count in state.placed.items() if count > 0}
        loose = frozenset(g for g, member in enumerate(self.problem.members) if member.loose)
        return Counts(out, into, loose)
