"""The state of a search: counts with some workers lifted and not yet placed, and how to go back.

Degrees are counted for what stands, not for what floats: a group counts on a rack when it stands there
and on another rack too. Lifting a group's last worker of a rack, or standing on one rack only, stops
the count; placing can only add to it. So with no lifts left, a leaf over its bound stays over.
"""

from __future__ import annotations

from collections import defaultdict

from monkeytree.problem import Problem

Pair = tuple[int, int]
"""(member, site) or (member, rack)."""


class State:
    """Counts under change, with a trail to undo them.

    Attributes:
        standing: workers of each member by site.
        on_rack: the same by rack; racks without are absent.
        on_pod: the same by pod, where there are pods.
        floating: lifted workers not yet placed, by member; members without are absent.
        lifted, placed: workers lifted and placed, by (member, site).
        gone: pairs with a lifted worker: none of the group lands there again.
        free: slots left on each site (negative when too many were placed).
        load: f_t of each (rack, rail).
        pod_load: the same one tier up.
        moved: members with a lifted worker, and how many.
        members_on: members that stand on each rack.
        total: workers of each member that stand anywhere.
        stuck: of these, by rack, those that are not to be lifted (pinned, or placed by the search).
        all_stuck: the sum of ``stuck`` over the racks.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.sites = problem.sites
        self.rack_of = [site.rack for site in problem.sites]
        self.standing: list[dict[int, int]] = [dict(member.count) for member in problem.members]
        self.movable: list[dict[int, int]] = [dict(member.movable) for member in problem.members]
        self.on_rack: list[dict[int, int]] = []
        self.on_pod: list[dict[int, int]] = []
        self.floating: dict[int, int] = {}
        self.lifted: dict[Pair, int] = defaultdict(int)
        self.placed: dict[Pair, int] = defaultdict(int)
        self.gone: set[Pair] = set()
        self.moved: dict[int, int] = defaultdict(int)
        self.load: dict[tuple[int, int], int] = defaultdict(int, problem.fixed)
        self.pod_load: dict[int, int] = defaultdict(int, problem.pod_fixed)
        self.over: set[tuple[int, int]] = set()
        self.over_pods: set[int] = set()
        self.overfull: set[int] = set()
        self.members_on: list[set[int]] = [set() for _ in problem.bounds]
        self.total = [member.size for member in problem.members]
        self.stuck: list[dict[int, int]] = []
        self.all_stuck: list[int] = []
        self._trail: list[tuple[int, int, int]] = []
        self.free = _free(problem)
        self.rings = [member.rings if not member.silent else () for member in problem.members]
        for standing in self.standing:
            racks: dict[int, int] = defaultdict(int)
            stuck: dict[int, int] = defaultdict(int)
            movable = self.movable[len(self.on_rack)]
            pods: dict[int, int] = defaultdict(int)
            for site, count in standing.items():
                racks[self.rack_of[site]] += count
                if movable.get(site, 0) < count:
                    stuck[self.rack_of[site]] += count - movable.get(site, 0)
                if problem.pod_of:
                    pods[problem.pod_of[self.rack_of[site]]] += count
            self.on_rack.append(dict(racks))
            self.stuck.append(stuck)
            self.all_stuck.append(sum(stuck.values()))
            for rack in racks:
                self.members_on[rack].add(len(self.on_rack) - 1)
            self.on_pod.append(dict(pods))
        for g in range(len(problem.members)):
            self._count_all(g, self.on_rack[g], 1)
            self._count_pods(g, self.on_pod[g], 1)
        for (rack, rail), load in self.load.items():
            if load > problem.bounds[rack]:
                self.over.add((rack, rail))
        for pod, load in self.pod_load.items():
            if load > problem.pod_bounds[pod]:
                self.over_pods.add(pod)

    def mark(self) -> int:
        """A point to undo to."""
        return len(self._trail)

    def undo(self, mark: int) -> None:
        """Take back all changes since ``mark``."""
        while len(self._trail) > mark:
            g, site, count = self._trail.pop()
            if count > 0:
                self._change(g, site, -count)
                self._float(g, count)
                self.placed[g, site] -= count
                self._stick(g, site, -count)
            else:
                self._change(g, site, -count)
                self._float(g, count)
                self.lifted[g, site] += count
                if not self.lifted[g, site]:
                    self.gone.discard((g, site))
                self.movable[g][site] -= count
                self.moved[g] += count
                if not self.moved[g]:
                    del self.moved[g]

    def lift(self, g: int, site: int, count: int) -> None:
        """Take ``count`` movable workers of g off a site."""
        self._change(g, site, -count)
        self._float(g, count)
        self.lifted[g, site] += count
        self.gone.add((g, site))
        self.movable[g][site] -= count
        self.moved[g] += count
        self._trail.append((g, site, -count))

    def place(self, g: int, site: int, count: int) -> None:
        """Put ``count`` floating workers of g on a site."""
        self._change(g, site, count)
        self._float(g, -count)
        self.placed[g, site] += count
        self._stick(g, site, count)
        self._trail.append((g, site, count))

    def _stick(self, g: int, site: int, count: int) -> None:
        self.stuck[g][self.rack_of[site]] += count
        self.all_stuck[g] += count

    def _float(self, g: int, count: int) -> None:
        now = self.floating.get(g, 0) + count
        if now:
            self.floating[g] = now
        else:
            self.floating.pop(g, None)

    def _change(self, g: int, site: int, count: int) -> None:
        standing = self.standing[g]
        now = standing.get(site, 0) + count
        if now:
            standing[site] = now
        else:
            del standing[site]
        self.total[g] += count
        self.free[site] -= count * self.problem.members[g].slots
        if self.free[site] < 0:
            self.overfull.add(site)
        else:
            self.overfull.discard(site)
        rack = self.rack_of[site]
        self._change_racks(g, rack, count)
        if self.problem.pod_of:
            self._change_pods(g, self.problem.pod_of[rack], count)

    def _change_racks(self, g: int, rack: int, count: int) -> None:
        racks = self.on_rack[g]
        before = racks.get(rack, 0)
        now = before + count
        if before and now:
            racks[rack] = now
            return
        self._count_all(g, racks, -1)
        if now:
            racks[rack] = now
            self.members_on[rack].add(g)
        else:
            del racks[rack]
            self.members_on[rack].discard(g)
        self._count_all(g, racks, 1)

    def _count_all(self, g: int, racks: dict[int, int], sign: int) -> None:
        if len(racks) < 2:
            return
        bounds = self.problem.bounds
        for rail, rings in enumerate(self.rings[g]):
            if not rings:
                continue
            for rack in racks:
                load = self.load[rack, rail] = self.load[rack, rail] + sign * rings
                if load > bounds[rack]:
                    self.over.add((rack, rail))
                else:
                    self.over.discard((rack, rail))

    def _change_pods(self, g: int, pod: int, count: int) -> None:
        pods = self.on_pod[g]
        before = pods.get(pod, 0)
        now = before + count
        if before and now:
            pods[pod] = now
            return
        self._count_pods(g, pods, -1)
        if now:
            pods[pod] = now
        else:
            del pods[pod]
        self._count_pods(g, pods, 1)

    def _count_pods(self, g: int, pods: dict[int, int], sign: int) -> None:
        if len(pods) < 2 or not self.rings[g]:
            return
        rings = sum(self.rings[g])
        for pod in pods:
            load = self.pod_load[pod] = self.pod_load[pod] + sign * rings
            if load > self.problem.pod_bounds[pod]:
                self.over_pods.add(pod)
            else:
                self.over_pods.discard(pod)


def _free(problem: Problem) -> list[int]:
    """Slots of each site that no worker occupies (whole workers' worth, where all have one size)."""
    sizes = {member.slots for member in problem.members}
    size = sizes.pop() if len(sizes) == 1 else 1
    free = [site.room(size) * size for site in problem.sites]
    for member in problem.members:
        for site, count in member.movable.items():
            free[site] -= count * member.slots
    return free
