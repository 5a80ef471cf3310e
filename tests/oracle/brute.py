"""The exact lexicographic optimum of a tiny snapshot, by enumeration.

Every placement is enumerated, up to which of a group's equal ranks goes where: a placement of a
group is the number of its movable ranks on each node, and its fewest moves are the ranks that nodes
gain. Orders need no enumeration: the adjacent order (workers of a pod, then of a rack, together)
departs once from each rack and pod touched, the least any order can, on each leaf at once. So a
paused job takes it for all groups that may be reordered; a job that is not paused keeps its orders.

One rule cuts the search short. All costs and loads only grow as jobs are added, so the choices made
so far plus the least that each further job adds, component by component, bound every completion
from below; where that is no better than the best plan known, none of them is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import add
from typing import Any, NamedTuple

from .evaluate import evaluate
from .reading import Document, Group, Job, Score, World, read, walk

__all__ = ["Best", "brute_force", "evaluate"]

_Vector = tuple[int, ...]


@dataclass(frozen=True)
class Best:
    """The optimum; ``gpu_seconds`` is None for objective ``moves``.

    ``uncapped_*`` are the optimum's without ``max_moves``; ``compliant_now``: no leaf or pod is over
    in the present orders and no worker stands on a draining node.
    """

    undrained: int
    excess: int
    gpu_seconds: float | None
    moves: int
    jobs_paused: int
    summed_f: int
    uncapped_undrained: int
    uncapped_excess: int
    compliant_now: bool

    @property
    def score(self) -> Score:
        """The optimum as a score, to compare with that of a plan."""
        return Score(
            self.undrained, self.excess, self.gpu_seconds, self.moves, self.jobs_paused, self.summed_f
        )

    @property
    def limited_by_max_moves(self) -> bool:
        """Whether ``max_moves`` makes undrained or excess worse."""
        return (self.undrained, self.excess) != (self.uncapped_undrained, self.uncapped_excess)


class _Option(NamedTuple):
    """What groups of one job add when they take their adjacent orders.

    ``use``: slots by node; ``loads``: f by leaf and pod; ``state_gb``: the largest that moves, or 0.
    """

    use: _Vector
    loads: _Vector
    moves: int
    undrained: int
    state_gb: float


class _Choice(NamedTuple):
    """What jobs add, as in ``_Option``, with the other costs of Score."""

    use: _Vector
    loads: _Vector
    moves: int
    undrained: int
    gpu_seconds: float
    paused: int


def brute_force(snapshot: Document) -> Best:
    """The best plan's costs; feed it tiny snapshots only (time grows exponentially)."""
    world = read(snapshot)
    choices = sorted((_choices(world, job) for job in world.jobs), key=len)
    best = _search(world, choices, world.max_moves)
    uncapped = best if world.max_moves is None else _search(world, choices, None)
    now = _search(world, [options[:1] for options in choices], 0)
    return Best(
        *best._replace(gpu_seconds=best.gpu_seconds if world.by_gpu_seconds else None),
        uncapped_undrained=uncapped.undrained,
        uncapped_excess=uncapped.excess,
        compliant_now=(now.undrained, now.excess) == (0, 0),
    )


def _targets(world: World, job: Job, group: Group) -> Iterator[Counter[str]]:
    """All ways to put the movable ranks of ``group``: ranks by node. The present one among them."""
    present = Counter(group.workers[rank] for rank in group.movable)
    most: dict[str, int] = {}
    for name, place in world.places.items():
        may_enter = place.accepts and place.node_class in job.classes
        limit = min(len(group.movable), place.room // group.slots) if may_enter else present[name]
        if limit:
            most[name] = limit
    names = list(most)

    def fill(index: int, left: int) -> Iterator[dict[str, int]]:
        if index == len(names):
            if left == 0:
                yield {}
            return
        for count in range(min(left, most[names[index]]) + 1):
            for rest in fill(index + 1, left - count):
                yield {names[index]: count, **rest}

    return (+Counter(counts) for counts in fill(0, len(group.movable)))


def _option(world: World, group: Group, target: Counter[str]) -> _Option:
    """The movable ranks of ``group`` put as in ``target``, in the adjacent order where allowed."""
    present = Counter(group.workers[rank] for rank in group.movable)
    staying = Counter(node for rank, node in enumerate(group.workers) if rank not in group.movable)
    after = target + staying
    moves = (target - present).total()
    return _Option(
        use=_vector(world.places, {node: count * group.slots for node, count in after.items()}),
        loads=_vector(world.bounds, _paused_loads(world, group, after)),
        moves=moves,
        undrained=sum(count for node, count in after.items() if world.places[node].draining),
        state_gb=group.state_gb if moves else 0.0,
    )


def _paused_loads(world: World, group: Group, after: Counter[str]) -> Mapping[Any, int]:
    """f of a group of a paused job: one departure from each rack and pod, if there is another."""
    if not group.free_order:
        return _kept_loads(world, group)
    racks = {world.places[node].rack for node in after}
    pods = {world.places[node].pod for node in after}
    return world.loads(
        group,
        {rack: 1 for rack in racks if len(racks) > 1},
        {pod: 1 for pod in pods if len(pods) > 1 and pod is not None},
    )


def _kept_loads(world: World, group: Group) -> Mapping[Any, int]:
    """f of a group that stays as it is."""
    return world.loads(group, *walk(world, [group.workers[rank] for rank in group.order]))


def _choices(world: World, job: Job) -> list[_Choice]:
    """All that ``job`` can do: the present state first, then by moves."""
    nothing = _Option((0,) * len(world.places), (0,) * len(world.bounds), 0, 0, 0.0)
    kept, paused = nothing, [nothing]
    rooms = [place.room for place in world.places.values()]
    for group in job.groups:
        options = [_option(world, group, target) for target in _targets(world, job, group)]
        present = next(option for option in options if option.moves == 0)
        kept = _join(kept, present._replace(loads=_vector(world.bounds, _kept_loads(world, group))))
        joined = (_join(one, other) for one, other in product(paused, options))
        paused = _cheapest(one for one in joined if all(map(int.__le__, one.use, rooms)))
    choices = [_Choice(kept.use, kept.loads, 0, kept.undrained, 0.0, 0)]
    for use, loads, moves, undrained, state_gb in sorted(paused, key=lambda option: option.moves):
        cost = world.gpu_seconds(job, state_gb if moves else None) if world.by_gpu_seconds else 0.0
        choices.append(_Choice(use, loads, moves, undrained, cost, 1))
    return choices


def _join(one: _Option, other: _Option) -> _Option:
    return _Option(
        _sum(one.use, other.use),
        _sum(one.loads, other.loads),
        one.moves + other.moves,
        one.undrained + other.undrained,
        max(one.state_gb, other.state_gb),
    )


def _cheapest(options: Iterable[_Option]) -> list[_Option]:
    """Of options with equal use, loads and moves the one with the fewest undrained, then least state."""
    cheapest: dict[tuple[_Vector, _Vector, int], _Option] = {}
    for option in options:
        known = cheapest.get(option[:3])
        if known is None or option[3:] < known[3:]:
            cheapest[option[:3]] = option
    return list(cheapest.values())


def _search(world: World, jobs: Sequence[list[_Choice]], max_moves: int | None) -> Score:
    """The least score over one choice a job, nodes not overfilled, at most ``max_moves`` moves."""
    bounds, rooms = list(world.bounds.values()), [place.room for place in world.places.values()]
    leaves = sum(rail is not None for _, rail in world.bounds)
    most = sum(options[-1].moves for options in jobs)
    rest = _least_of_the_rest(world, jobs)
    best: Score | None = None

    def least_score(least: _Choice) -> Score:
        excess = sum(f - bound for f, bound in zip(least.loads, bounds, strict=True) if f > bound)
        cost, summed_f = round(least.gpu_seconds, 6), sum(least.loads[:leaves])
        return Score(least.undrained, excess, cost, least.moves, least.paused, summed_f)

    def visit(index: int, so_far: _Choice, cap: int) -> None:
        nonlocal best
        if index == len(jobs):
            best = least_score(so_far)  # better than the best before, or it had been cut
            return
        for choice in jobs[index]:
            if so_far.moves + choice.moves > cap:
                break  # choices are sorted by moves
            chosen = _add(so_far, choice)
            least = _add(chosen, rest[index + 1])
            if not all(map(int.__le__, least.use, rooms)):
                continue
            if best is None or least_score(least) < best:
                visit(index + 1, chosen, cap)

    root = least_score(rest[0])
    limit = most if max_moves is None else min(most, max_moves)
    for cap in (*range(min(5, limit)), limit):
        visit(0, _nothing(world), cap)  # few moves first: a good plan found early cuts the last round
        if best is not None and best[:2] == root[:2] and not world.by_gpu_seconds:
            break  # more moves cannot be better
    if best is None:
        raise ValueError("the snapshot overfills a node as it stands")
    return best


def _nothing(world: World) -> _Choice:
    return _Choice((0,) * len(world.places), (0,) * len(world.bounds), 0, 0, 0.0, 0)


def _add(one: _Choice, other: _Choice) -> _Choice:
    return _Choice(_sum(one.use, other.use), _sum(one.loads, other.loads), *map(add, one[2:], other[2:]))


def _least_of_the_rest(world: World, jobs: Sequence[list[_Choice]]) -> list[_Choice]:
    """At index i the least that jobs i, i+1, ... add, component by component."""
    rest = [_nothing(world)]
    for options in reversed(jobs):
        uses, loads, *costs = zip(*options, strict=True)
        least = _Choice(_least(uses), _least(loads), *map(min, costs))
        rest.append(_add(least, rest[-1]))
    return rest[::-1]


def _least(vectors: Iterable[_Vector]) -> _Vector:
    return tuple(map(min, zip(*vectors, strict=True)))


def _sum(one: _Vector, other: _Vector) -> _Vector:
    return tuple(map(int.__add__, one, other))


def _vector(keys: Iterable[Any], values: Mapping[Any, int]) -> _Vector:
    return tuple(values.get(key, 0) for key in keys)
