"""Source ports for the flows of a 65,536-GPU plan: what finding them costs beyond planning."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median

import monkeytree
from monkeytree.ecmp.label import PORTS
from monkeytree.ecmp.search import find_port, forget, tries
from monkeytree.ecmp.stage import Packet, choose, hash_value
from monkeytree.ecmp.ways import Choice
from monkeytree.fabric_hash import ALGORITHMS, Algorithm, FabricHash, HashStage
from monkeytree.plan import Plan
from monkeytree.snapshot import Snapshot
from monkeytree.steering import steer

from .churn import Shape, one_worker_a_gpu, states
from .measure import quantile, spending
from .table import heading, number, show

RACKS, QUICK_RACKS = 1024, 64
MEASURED: tuple[Algorithm, ...] = ("crc16_ccitt", "crc32", "toeplitz", "murmur3")
UPLINKS = (2, 8, 16, 64)


def report(seed: int, repeats: int, *, quick: bool) -> None:
    """Print the cost of ports and the tries of a search without tables."""
    racks = QUICK_RACKS if quick else RACKS
    _, state = next(iter(states(Shape(racks, 8), "seq", seed)))
    plan = monkeytree.make_plan(state, time_limit_s=60)
    heading(f"Source ports of a plan of {racks * 64:,} GPUs ({len(plan.flows):,} flows)")
    wide = one_worker_a_gpu(state)
    print(f"With a worker a GPU: {len(monkeytree.make_plan(wide, time_limit_s=60).flows):,} flows.\n")
    rows = [_cost(algorithm, state, plan, repeats) for algorithm in MEASURED]
    show(["hash of the leaves", "CPU ms, cold", "CPU ms, warm", "us a flow", "unsteered"], rows)
    heading("Ports tried until one takes the uplink, median (95 %)")
    show(
        ["hash", *(f"{uplinks} uplinks" for uplinks in UPLINKS)], [_tries(name, seed) for name in ALGORITHMS]
    )
    if not quick:
        _sweep(seed)


def _sweep(seed: int) -> None:
    """Every hash with 2 to 64 uplinks, one stage and two: steered, or impossible as all ports tried tell."""
    heading("Flows steered, and named impossible (all 16,384 ports tried), with 2 to 64 uplinks")
    rows = []
    for algorithm in ALGORITHMS:
        rng = random.Random(f"{seed}/{algorithm}")
        cells: list[str] = [algorithm]
        for tiers in (2, 3):
            found = [_is_steered(algorithm, uplinks, tiers, rng) for uplinks in range(2, 65)]
            cells.append(f"{sum(found)}, {len(found) - sum(found)}")
        rows.append(cells)
    show(["hash of the leaves", "two tiers", "three tiers"], rows)


def _is_steered(algorithm: str, uplinks: int, tiers: int, rng: random.Random) -> bool:
    packet = Packet(f"10.{rng.randrange(256)}.0.1", f"10.1.{rng.randrange(256)}.2", 0)
    targets = []
    other = rng.choice(ALGORITHMS), rng.choice((2, 3, 4, 6, 8, 16))
    for name, count in ((algorithm, uplinks), other)[: tiers - 1]:
        stage = HashStage(
            name,  # type: ignore[arg-type]
            seed=rng.randrange(2**32), offset=rng.randrange(16), select=rng.choice(("modulo", "high")),
        )  # fmt: skip
        targets.append((Choice(stage, tuple(range(count))), rng.randrange(count)))
    port = find_port(packet, targets)
    if port is None:
        if tries(packet, targets) < PORTS:
            raise AssertionError(f"{targets} of {packet} can be met")
        return False
    for choice, at in targets:
        value = hash_value(choice.stage, replace(packet, sport=port))
        if choose(choice.stage, value, len(choice.uplinks)) != at:
            raise AssertionError(f"port {port} does not meet {targets} of {packet}")
    return True


def addressed(snapshot: Snapshot, stage: HashStage) -> Snapshot:
    """The same with an address for each NIC and the hash of its leaves."""
    rails = range(snapshot.fabric.rails)
    racks = tuple(
        replace(
            rack,
            nodes=tuple(
                replace(
                    node,
                    addresses=tuple(f"10.{r >> 8}.{r & 255}.{n * len(rails) + rail + 1}" for rail in rails),
                )
                for n, node in enumerate(rack.nodes)
            ),
        )
        for r, rack in enumerate(snapshot.racks)
    )
    return replace(snapshot, racks=racks, fabric=replace(snapshot.fabric, hash=FabricHash(leaf=stage)))


def _cost(algorithm: Algorithm, state: Snapshot, plan: Plan, repeats: int) -> list[str]:
    snapshot = addressed(state, HashStage(algorithm))
    nodes = _nodes_after(snapshot, plan)
    cold: list[float] = []
    warm: list[float] = []
    lost = 0
    for _ in range(repeats):
        forget()
        for kept in (cold, warm):
            with spending() as spent:
                _, unsteered = steer(snapshot, nodes, plan.flows)
            kept.append(spent.cpu_ms)
        lost = sum(len(row.flows) for row in unsteered)
    cells = [quantile(cold, 0.5), quantile(warm, 0.5), 1e3 * quantile(cold, 0.5) / max(1, len(plan.flows))]
    return [algorithm, *map(number, cells), str(lost)]


def _nodes_after(snapshot: Snapshot, plan: Plan) -> dict[tuple[str, str], list[str]]:
    nodes = {(job.id, group.id): list(group.workers) for job, group in snapshot.groups}
    for move in plan.moves:
        nodes[move.job, move.group][move.rank] = move.target
    return nodes


def _tries(algorithm: str, seed: int) -> list[str]:
    rng = random.Random(f"{seed}/{algorithm}")
    stage = HashStage(algorithm)  # type: ignore[arg-type]
    cells = []
    for uplinks in UPLINKS:
        counted = []
        for _ in range(200):
            packet = Packet(
                f"10.{rng.randrange(256)}.{rng.randrange(256)}.1", f"10.1.{rng.randrange(256)}.2", 0
            )
            counted.append(tries(packet, [(Choice(stage, tuple(range(uplinks))), rng.randrange(uplinks))]))
        cells.append(f"{median(counted):g} ({quantile(counted, 0.95):g})")
    return [algorithm, *cells]
