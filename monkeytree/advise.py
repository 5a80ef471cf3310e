"""Where pending jobs would best start: placement advice, no decision about running jobs.

A job that spans several racks departs once a ring from each rack it touches, wherever in it its workers
stand (paper, section 3), so what matters is the set of racks. Jobs are taken in order, each after the ones
before. For each the racks are chosen that add least excess over the bounds, then span fewest pods, then
fewest racks: a covering knapsack, solved exactly (:func:`_cover`) while it is small, greedily beyond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .placement import Arrangement, Degrees, degrees
from .plan import PendingPlacement
from .snapshot import Node, Pending, Rack, Snapshot

BUDGET = 200_000
"""Steps of the exact cover for one job; beyond, racks are chosen greedily and that is said."""
BUDGET_OF_ALL = 10 * BUDGET
"""Of all jobs together, likewise: a queue may be long."""
NO_ROOM = "no_room"
ANY_POD = ""
"""The pod of all racks where there are no pods."""

Cost = tuple[int, int, int]
"""Excess added, pods spanned, racks spanned."""


def advise(snapshot: Snapshot, arrangement: Arrangement | None = None) -> tuple[PendingPlacement, ...]:
    """Advice for each of ``snapshot.pending``, in order.

    Args:
        arrangement: where the running workers stand; by default as the snapshot says.

    Returns:
        One placement for each; ``nodes`` is empty where the job has no room.
    """
    if not snapshot.pending:
        return ()
    board = _Board.of(snapshot, arrangement or Arrangement.of(snapshot))
    return tuple(board.place(job) for job in snapshot.pending)


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a rack offers to one job: workers it has room for, and the excess it adds when touched."""

    rack: Rack
    room: int
    excess: int


@dataclass
class _Board:
    """Free slots and loads; changed by every job that is placed."""

    snapshot: Snapshot
    free: dict[str, int]
    racks: Counter[tuple[str, int]]
    pods: Counter[str]
    empty: int = field(init=False)
    steps: int = 0
    hopeless: dict[tuple[frozenset[str] | None, int, bool], int] = field(default_factory=dict)
    """By what a job asks of nodes, a number of workers that found no room: slots only become fewer."""
    pod_bounds: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.pod_bounds = {pod.id: self.snapshot.pod_bound(pod) for pod in self.snapshot.pods}
        self.empty = sum(
            self.free[node.id] for rack in self.snapshot.racks for node in rack.nodes if node.accepts
        )

    @staticmethod
    def of(snapshot: Snapshot, arrangement: Arrangement) -> _Board:
        free = {node.id: node.usable for rack in snapshot.racks for node in rack.nodes}
        for (_, group), places in zip(snapshot.groups, arrangement.nodes, strict=True):
            for node in places:
                free[node] -= group.slots_per_worker
        found: Degrees = degrees(snapshot, arrangement)
        return _Board(snapshot, free, Counter(found.racks), Counter(found.pods))

    def place(self, job: Pending) -> PendingPlacement:
        """Place ``job`` where it does best, and keep that in mind for the next."""
        needed = job.workers * job.slots_per_worker
        kind = job.classes, job.slots_per_worker, job.one_per_node
        in_vain = needed > self.empty or job.workers >= self.hopeless.get(kind, job.workers + 1)
        offers = [] if in_vain else [self._offer(rack, job) for rack in self.snapshot.racks]
        offers = [offer for offer in offers if offer.room]
        if sum(offer.room for offer in offers) < job.workers:
            self.hopeless[kind] = min(job.workers, self.hopeless.get(kind, job.workers))
            return PendingPlacement(job.id, (), {}, within_bound=False, proved=True, because=(NO_ROOM,))
        chosen, proved = self._choose(job, offers)
        nodes = self._fill(job, chosen)
        self._load(job, chosen)
        after = {
            offer.rack.id: tuple(
                self.racks[offer.rack.id, rail] for rail in range(self.snapshot.fabric.rails)
            )
            for offer in chosen
        }
        over = self._over(chosen)
        return PendingPlacement(job.id, nodes, after, within_bound=not over, proved=proved, because=over)

    def _offer(self, rack: Rack, job: Pending) -> _Offer:
        room = sum(self._room(node, job) for node in rack.nodes)
        bound = self.snapshot.bound(rack)
        excess = 0
        for rail, added in self._added(job):
            now = self.racks[rack.id, rail]
            excess += max(0, now + added - bound) - max(0, now - bound)
        return _Offer(rack, room, excess)

    def _room(self, node: Node, job: Pending) -> int:
        """Workers of ``job`` that ``node`` has room for."""
        if not node.accepts or (job.classes is not None and node.node_class not in job.classes):
            return 0
        room = self.free[node.id] // job.slots_per_worker
        return min(room, 1) if job.one_per_node else room

    def _added(self, job: Pending) -> Iterable[tuple[int, int]]:
        """Rings of ``job`` by rail, where there are any."""
        rails = self.snapshot.fabric.rails
        for rail in range(min(rails, job.rings)):
            yield rail, job.rings // rails + (1 if rail < job.rings % rails else 0)

    def _pod_excess(self, pod: str, job: Pending) -> int:
        """Excess that ``job`` adds to a pod when it leaves it."""
        if pod not in self.pod_bounds:
            return 0
        now, bound = self.pods[pod], self.pod_bounds[pod]
        return max(0, now + job.rings - bound) - max(0, now - bound)

    def _choose(self, job: Pending, offers: Sequence[_Offer]) -> tuple[list[_Offer], bool]:
        """Racks for ``job``, and whether none are better."""
        whole = [offer for offer in offers if offer.room >= job.workers]
        if whole:
            return [min(whole, key=lambda offer: offer.room)], True
        by_pod: dict[str, list[_Offer]] = {}
        for offer in offers:
            by_pod.setdefault(offer.rack.pod or ANY_POD, []).append(offer)
        free = [
            cover
            for row in by_pod.values()
            if (cover := _largest_first([o for o in row if not o.excess], job.workers))
        ]
        if free:
            return min(free, key=len), True
        steps = len(offers) * job.workers + len(by_pod) * job.workers**2
        if steps > BUDGET or self.steps + steps > BUDGET_OF_ALL:
            return self._greedily(job, offers, by_pod), False
        self.steps += steps
        pod_excess = {pod: self._pod_excess(pod, job) for pod in by_pod}
        return _cover(by_pod, pod_excess, job.workers), True

    def _greedily(
        self, job: Pending, offers: Sequence[_Offer], by_pod: Mapping[str, Sequence[_Offer]]
    ) -> list[_Offer]:
        """Least excess first, then most room; inside one pod where one has the room."""
        covers = []
        for row in (*by_pod.values(), offers):
            cover = _largest_first(
                sorted(row, key=lambda offer: (offer.excess, -offer.room)), job.workers, kept=True
            )
            if cover:
                spanned = {offer.rack.pod for offer in cover}
                pods = sum(self._pod_excess(str(pod), job) for pod in spanned) if len(spanned) > 1 else 0
                covers.append(((sum(o.excess for o in cover) + pods, len(spanned), len(cover)), cover))
        return min(covers, key=lambda pair: pair[0])[1]

    def _fill(self, job: Pending, chosen: Sequence[_Offer]) -> tuple[str, ...]:
        """A node for each worker, by pod, then by rack, so that its ring by rank departs least.

        The rack with the least room comes last: what room is left over is left in one place. The fullest
        nodes of a rack come first.
        """
        nodes: list[str] = []
        last = min(chosen, key=lambda offer: offer.room)
        pods = list(dict.fromkeys(offer.rack.pod for offer in chosen if offer.rack.pod != last.rack.pod))

        def place(offer: _Offer) -> tuple[int, bool]:
            return (pods.index(offer.rack.pod) if offer.rack.pod in pods else len(pods)), offer is last

        for offer in sorted(chosen, key=place):
            for node in sorted(offer.rack.nodes, key=lambda one: self.free[one.id]):
                taken = min(self._room(node, job), job.workers - len(nodes))
                nodes += [node.id] * taken
                self.free[node.id] -= taken * job.slots_per_worker
                self.empty -= taken * job.slots_per_worker
        return tuple(nodes)

    def _load(self, job: Pending, chosen: Sequence[_Offer]) -> None:
        if len(chosen) < 2:
            return
        for offer in chosen:
            for rail, added in self._added(job):
                self.racks[offer.rack.id, rail] += added
        pods = {offer.rack.pod for offer in chosen}
        if self.snapshot.pods and len(pods) > 1:
            for pod in pods:
                self.pods[str(pod)] += job.rings

    def _over(self, chosen: Sequence[_Offer]) -> tuple[str, ...]:
        """The racks and pods that the job touches with a flow and that are over their bound then."""
        if len(chosen) < 2:
            return ()
        rails = range(self.snapshot.fabric.rails)
        racks = [
            offer.rack.id
            for offer in chosen
            if any(self.racks[offer.rack.id, rail] > self.snapshot.bound(offer.rack) for rail in rails)
        ]
        spanned = {offer.rack.pod for offer in chosen}
        pods = [
            f"pod:{pod.id}"
            for pod in self.snapshot.pods
            if len(spanned) > 1 and pod.id in spanned and self.pods[pod.id] > self.snapshot.pod_bound(pod)
        ]
        return (*racks, *pods)


def _largest_first(offers: Sequence[_Offer], workers: int, *, kept: bool = False) -> list[_Offer]:
    """Fewest racks that have the room: those with most of it; [] where all together have not.

    Args:
        kept: take them in the order given; those that turn out not to be needed are left out again.
    """
    cover: list[_Offer] = []
    room = 0
    for offer in offers if kept else sorted(offers, key=lambda one: -one.room):
        if room >= workers:
            break
        cover.append(offer)
        room += offer.room
    if room < workers:
        return []
    for offer in sorted(cover, key=lambda one: (-one.excess, one.room)):
        if room - offer.room >= workers:
            cover.remove(offer)
            room -= offer.room
    return cover


def _cover(
    by_pod: Mapping[str, Sequence[_Offer]], pod_excess: Mapping[str, int], workers: int
) -> list[_Offer]:
    """The racks of least :data:`Cost` with room for ``workers``; they have it together.

    Inside each pod a table says, for each number of workers, the best racks to hold so many. One pod alone
    adds no load to pods; several do, each its own, so their tables are put together one by one.
    """
    tables = {pod: _table(offers, workers) for pod, offers in by_pod.items()}
    best: tuple[Cost, list[_Offer]] | None = None
    for table in tables.values():
        alone = table[workers]
        if alone is not None and (best is None or _cost(alone, 0, 1) < best[0]):
            best = _cost(alone, 0, 1), alone
    together: list[tuple[Cost, list[_Offer]] | None] = [((0, 0, 0), []), *[None] * workers]
    for pod, table in tables.items():
        joined = list(together)
        for have, left in enumerate(together):
            if left is None:
                continue
            for more in range(1, workers - have + 1):
                here = table[more]
                if here is None:
                    break  # more workers have no room in this pod either
                added = _cost(here, pod_excess[pod], 1)
                cost = (left[0][0] + added[0], left[0][1] + added[1], left[0][2] + added[2])
                known = joined[have + more]
                if known is None or cost < known[0]:
                    joined[have + more] = cost, [*left[1], *here]
        together = joined
    several = together[workers]
    if several is not None and several[0][1] > 1 and (best is None or several[0] < best[0]):
        best = several
    assert best is not None, "all racks together have the room"
    return best[1]


def _cost(offers: Sequence[_Offer], pod_excess: int, pods: int) -> Cost:
    return sum(offer.excess for offer in offers) + pod_excess, pods, len(offers)


def _table(offers: Sequence[_Offer], workers: int) -> list[list[_Offer] | None]:
    """For each number of workers the racks of least excess, then fewest, that have room for so many."""
    best: list[tuple[tuple[int, int], tuple[_Offer, ...]] | None] = [((0, 0), ()), *[None] * workers]
    for offer in offers:
        for wanted in range(workers, 0, -1):
            left = best[max(0, wanted - offer.room)]
            if left is None:
                continue
            cost = (left[0][0] + offer.excess, left[0][1] + 1)
            known = best[wanted]
            if known is None or cost < known[0]:
                best[wanted] = cost, (*left[1], offer)
    return [None if row is None else list(row[1]) for row in best]
