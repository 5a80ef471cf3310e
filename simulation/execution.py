"""Iterations over time: lanes step by step, flows at max-min rates, lonely jobs in one leap.

A job whose links nobody else uses repeats the same iteration, so it is not followed: its end is known.
When its surroundings change, the iteration it is in is replayed up to that instant (:meth:`wake`), and
it is followed event by event from then on, until it is alone again. The clock is in whole microseconds,
as the authors' is; a flow ends in the microsecond of its last bit, rounded down.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from monkeytree.fluid import Flow, Network

from .fabrics import Fabric, Path
from .program import COMPUTE, SEND, bits_per_us, ideal_iteration_us
from .running import Running
from .systems.protocol import DynamicRouter, Router, Shifter

Timer = tuple[int, int, Running | None, int, int]
"""(us, serial, job, what, epoch); what: a lane >= 0, ~send, or one of those below."""
_ROUNDING = 1 + 1e-9
_LEAP, _TICK, _HELD = -(10**9), -(10**9) - 1, -(10**9) - 2


@dataclass(slots=True)
class _Route:
    """Where a job's flows go from now on, and what they meet there; see :class:`~.running.Running`."""

    paths: tuple[Path, ...] | None
    usage: dict[int, int]
    hot: frozenset[int] = frozenset()
    alone: bool = True
    at_line_rate: bool = False


class Execution:
    """All running jobs on one fabric.

    Attributes:
        finished: jobs whose last iteration has ended, for the caller to take.
        stopped: jobs that were asked to stop (``Running.stops``) and are at the end of an iteration.
        events: flow ends and timers handled, leaps counted as one.
        followed: iterations followed event by event.
    """

    def __init__(self, fabric: Fabric, nic_gbps: float, router: Router | DynamicRouter) -> None:
        self.fabric = fabric
        self.router = router
        self.dynamic = router if isinstance(router, DynamicRouter) else None
        self.nic_gbps = nic_gbps
        self._nic = bits_per_us(nic_gbps)
        self._capacity = [bits_per_us(gbps) for gbps in fabric.capacity]
        self._fast_links = min(self._capacity) >= self._nic
        self.net = self._new_network()
        self.heap: list[Timer] = []
        self.finished: list[Running] = []
        self.stopped: list[Running] = []
        self.events = 0
        self.followed = 0
        self._serial = 0
        self._ticking = False

    def _new_network(self) -> Network:
        return Network(self._capacity, self._nic, whole_ticks=True)

    def next_time(self) -> float:
        """When something happens next; ``math.inf`` if nothing does."""
        timer = self.heap[0][0] if self.heap else math.inf
        end: float = self.net.next_end()
        return min(timer, end)

    def step(self, now: int) -> None:
        """Handle all that happens at ``now``."""
        for flow in self.net.take_ended(now):
            self.events += 1
            job, send, _ = flow.owner
            job.pending[send] -= 1
            if not job.pending[send]:
                self._sent(job, send, now)
            if self.dynamic:
                self._schedule_tick(now)
        heap = self.heap
        while heap and heap[0][0] <= now:
            _, _, job, what, epoch = heapq.heappop(heap)
            if job is None:
                self._tick(now)
            elif job.epoch == epoch:
                self.events += 1
                if what >= 0:
                    self._go_on(job, what, now)
                elif what == _LEAP:
                    job.done = job.iterations
                    job.skips_from = None
                    self.finished.append(job)
                elif what == _HELD:
                    self._begin(job, now)
                else:
                    job.pending[~what] -= 1
                    if not job.pending[~what]:
                        self._sent(job, ~what, now)
        self.net.settle(now)

    def _push(self, at: int, job: Running | None, what: int) -> None:
        self._serial += 1
        heapq.heappush(self.heap, (at, self._serial, job, what, job.epoch if job else 0))

    def proceed(self, job: Running, now: int) -> None:
        """Start the next iteration, or leap over all that are left."""
        if job.alone and job.lone_us is not None:
            job.epoch += 1
            job.skips_from = now
            self._push(now + (job.iterations - job.done) * job.lone_us, job, _LEAP)
        elif job.hold_us:
            self._push(now + job.hold_us, job, _HELD)
            job.hold_us = 0
        else:
            self._begin(job, now)

    def _begin(self, job: Running, now: int) -> None:
        lanes, sends = len(job.lanes), len(job.bits)
        job.position = [0] * lanes
        job.lanes_left = lanes
        job.pending = [-1] * sends
        job.sent_from = [-1] * sends
        job.sender = [-1] * sends
        job.waiter = [-1] * sends
        job.began = now
        job.steady = True
        for lane in range(lanes):
            self._go_on(job, lane, now)

    def _go_on(self, job: Running, lane: int, now: int) -> None:
        """Take the lane to its next step that takes time."""
        steps = job.lanes[lane]
        at = job.position[lane]
        while at < len(steps):
            what, number = steps[at]
            at += 1
            if what == COMPUTE:
                job.position[lane] = at
                self._push(now + number, job, lane)
                return
            if what == SEND:
                job.position[lane] = at
                job.sender[number] = lane
                self._start_send(job, number, now)
                return
            if job.pending[number]:
                job.position[lane] = at
                job.waiter[number] = lane
                return
        job.position[lane] = at
        job.lanes_left -= 1
        if not job.lanes_left:
            self._iteration_over(job, now)

    def _start_send(self, job: Running, send: int, now: int) -> None:
        """Flows on uplinks are never faster than the rest of their send, which runs at line rate."""
        flows = job.flows_of(send)
        job.sent_from[send] = now
        if not flows:
            job.pending[send] = 1
            self._push(now + job.wire_us[send], job, ~send)
            return
        job.pending[send] = len(flows)
        if self.dynamic is None:
            (self.net.start_all if self._fast_links else self.net.start_each)(flows, job.bits[send], now)
            return
        for flow in flows:
            demand = job.wiring.demands[flow.owner[2][0]]
            flow.path = self.dynamic.choose(demand, job.number, self.fabric, self.net)
            self.net.start(flow, job.bits[send], now)
        self._schedule_tick(now)

    def _sent(self, job: Running, send: int, now: int) -> None:
        waiter = job.waiter[send]
        self._go_on(job, job.sender[send], now)
        if waiter >= 0:
            self._go_on(job, waiter, now)

    def _iteration_over(self, job: Running, now: int) -> None:
        self.followed += 1
        job.done += 1
        if job.done == job.iterations:
            self.finished.append(job)
        elif job.stops:
            self.stopped.append(job)
        else:
            if job.alone and job.steady:
                job.lone_us = now - job.began
            self.proceed(job, now)

    # Where surroundings change.

    def rewire(self, jobs: Sequence[Running], now: int) -> None:
        """Route ``jobs``, all that hold servers or move state, and see who can hold up whom."""
        routed = [job for job in jobs if job.wiring.demands]
        routes = self._routes(routed)
        total: Counter[int] = Counter()
        for route in routes:
            total.update(route.usage)
        hot = {link for link, count in total.items() if self._is_hot(link, count)}
        changed = []
        for job, route in zip(routed, routes, strict=True):
            route.hot = frozenset(hot.intersection(route.usage))
            route.alone = all(total[link] == route.usage[link] for link in route.hot)
            own = any(
                count * self._nic > self._capacity[link] * _ROUNDING for link, count in route.usage.items()
            )
            route.at_line_rate = not own and not self.dynamic
            same = route.paths == job.paths and route.hot == job.hot
            if job.skips_from is not None:
                pace = same or (job.at_line_rate and route.at_line_rate)
                if not (route.alone and pace):
                    self.wake(job, now)
            if not same:
                changed.append((job, route))
            if not same or route.alone != job.alone:
                job.steady = False
            job.alone = route.alone
        self._reroute(changed, now)
        if isinstance(self.router, Shifter):
            self.router.shift(routed, now, self.nic_gbps)
        for job in jobs:
            # At line rate the formula is what following an iteration would give.
            if job.lone_us is None and job.kind is not None and job.at_line_rate:
                job.lone_us = ideal_iteration_us(job.kind, job.gpus, self.nic_gbps)

    def _is_hot(self, link: int, flows: int) -> bool:
        """Whether ``flows`` at once on ``link`` may get less than line rate."""
        return flows * self._nic > self._capacity[link] * _ROUNDING

    def _routes(self, routed: Sequence[Running]) -> list[_Route]:
        if isinstance(self.router, DynamicRouter):  # any path that it may choose
            return [_Route(None, self._possible(job)) for job in routed]
        return [
            _Route(paths, job.usage if paths == job.paths else job.usage_on(paths))
            for job, paths in zip(routed, self.router.route(routed, self.fabric), strict=True)
        ]

    def _possible(self, job: Running) -> dict[int, int]:
        """Links it may use where paths are chosen as flows start; counted so that all are hot if shared."""
        leaves = {(demand.source_leaf, demand.target_leaf) for demand in job.wiring.demands}
        return {link: 1 for pair in leaves for path in self.fabric.choices(*pair) for link in path}

    def _reroute(self, changed: Sequence[tuple[Running, _Route]], now: int) -> None:
        """New paths and hot links, also for flows under way."""
        flying: dict[int, list[Flow]] = {}
        if changed and not self.dynamic:
            for flow in self.net.running(now):
                flying.setdefault(id(flow.owner[0]), []).append(flow)
        for job, route in changed:
            if not (job.at_line_rate and route.at_line_rate):
                job.lone_us = None
            job.paths, job.usage, job.hot = route.paths, route.usage, route.hot
            job.at_line_rate = route.at_line_rate
            if self.dynamic:
                continue
            job.flows = None
            under_way: dict[int, set[int]] = {}
            for flow in flying.get(id(job), ()):
                _, send, members = flow.owner
                under_way.setdefault(send, set()).update(members)
                self._split(job, send, members, self.net.stop(flow, now), now)
                job.pending[send] -= 1
            if job.skips_from is None and job.paths is not None:
                self._heat(job, under_way, now)

    def _split(self, job: Running, send: int, members: Sequence[int], left: float, now: int) -> None:
        """Let ``members`` go on with ``left`` each."""
        assert job.paths is not None
        for path, some in job.group_by_hot(members).items():
            # What has been held up ends late even if nothing holds it up any more: it stays a flow.
            self.net.start(Flow(path or job.paths[some[0]], len(some), (job, send, some)), left, now)
            job.pending[send] += 1

    def _heat(self, job: Running, under_way: dict[int, set[int]], now: int) -> None:
        """Flows that nobody could hold up so far, and that cross a hot link now, start to be followed."""
        for send, pending in enumerate(job.pending):
            if pending <= 0 or not job.wiring.sends[send]:
                continue
            left = job.bits[send] - self._nic * (now - job.sent_from[send])
            if left <= 0 or now >= job.sent_from[send] + job.wire_us[send]:
                continue
            known = under_way.get(send, ())
            fresh = [index for index in job.wiring.sends[send] if index not in known]
            for path, some in job.group_by_hot(fresh).items():
                if path:
                    self.net.start(Flow(path, len(some), (job, send, some)), left, now)
                    job.pending[send] += 1

    def stop(self, job: Running, now: int) -> None:
        """Have ``job`` stop at the end of the iteration it is in, or at once if it is between two."""
        job.stops = True
        if job.skips_from is None:
            return
        assert job.lone_us is not None
        if (now - job.skips_from) % job.lone_us:
            self.wake(job, now)
            return
        whole = (now - job.skips_from) // job.lone_us
        if job.done + whole < job.iterations:
            job.done += whole
            job.skips_from = None
            job.epoch += 1
            self.stopped.append(job)

    def wake(self, job: Running, now: int) -> None:
        """Follow a leaping job event by event from ``now`` on: replay what it is in the middle of."""
        if job.skips_from is None:
            return
        assert job.lone_us is not None
        whole = (now - job.skips_from) // job.lone_us
        if job.done + whole >= job.iterations:
            return  # it ends now; the leap's own timer says so
        start = job.skips_from + whole * job.lone_us
        job.done += whole
        job.skips_from = None
        job.epoch += 1
        heap, net, ticking = self.heap, self.net, self._ticking
        self.heap, self.net, self._ticking = [], self._new_network(), False
        self._begin(job, start)
        self.net.settle(start)
        while self.next_time() <= now:
            self.step(int(self.next_time()))
        timers, flows, left = self.heap, self.net.running(now), []
        for flow in flows:
            left.append(self.net.stop(flow, now))
        self.heap, self.net, self._ticking = heap, net, ticking
        for timer in timers:
            if timer[2] is not None:
                heapq.heappush(self.heap, timer)
        for flow, rest in zip(flows, left, strict=True):
            self.net.start(flow, rest, now)
        if self.dynamic and flows:
            self._schedule_tick(now)

    # Routers that move flows under way.

    def _schedule_tick(self, now: int) -> None:
        if self.dynamic and not self._ticking:
            self._ticking = True
            period = self.dynamic.period_us
            self._push((now // period + 1) * period, None, _TICK)

    def _tick(self, now: int) -> None:
        """Let the router move flows; it is asked again only once something has changed."""
        assert self.dynamic is not None
        self._ticking = False
        self.net.settle(now)
        for flow in self.net.running(now):
            path = self.dynamic.move(flow, self.fabric, self.net)
            if path is not None:
                left = self.net.stop(flow, now)
                flow.path = path
                self.net.start(flow, left, now)
                self._schedule_tick(now)
