"""Documents and strategies that the tests of the wire share."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from monkeytree.fabric_hash import ALGORITHMS, HASH_FIELDS, FabricHash, HashStage, LearnedPair, LearnedTable
from monkeytree.plan import (
    Flow,
    Load,
    Move,
    Objective,
    PendingPlacement,
    Plan,
    Predicted,
    Ring,
    SharedUplink,
    SolverReport,
    Transient,
    Trial,
    Undrained,
    Unguaranteed,
    Unsteered,
)
from monkeytree.snapshot import Fabric, Job, Node, Pending, Planning, Pod, Rack, ReplicaGroup, Snapshot


def good() -> dict[str, Any]:
    """The example of docs/contract.md, section 1."""
    return {
        "format": 1,
        "cluster": "prod-east",
        "taken_at": "2026-11-29T18:00:00Z",
        "sequence": 41,
        "fabric": {"nic_gbps": 400, "uplink_gbps": 400, "routing": "steered"},
        "racks": [
            {
                "id": "r1",
                "uplinks": 2,
                "pod": "p1",
                "nodes": {"r1n1": 2, "r1n2": {"slots": 2, "cordoned": True}},
            },
            {
                "id": "r2",
                "uplinks": [0, 2],
                "pod": "p1",
                "nodes": {"r2n1": 2, "r2n2": {"slots": 2, "class": "h200"}},
            },
        ],
        "pods": [{"id": "p1", "uplinks": 8}],
        "jobs": [
            {
                "id": "A",
                "mobility": "live",
                "labels": {"tenant": "t1"},
                "replica_groups": [
                    {
                        "id": "0",
                        "rings": 1,
                        "slots_per_worker": 1,
                        "state_gb": 12.0,
                        "workers": ["r1n1", "r1n1", "r2n1"],
                        "order": [0, 1, 2],
                        "pinned": [0],
                    }
                ],
            }
        ],
        "planning": {
            "objective": "moves",
            "time_limit_s": 10,
            "solver": "auto",
            "max_moves": None,
            "previous_plan_id": None,
        },
    }


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6)
labels = st.dictionaries(names, st.text(st.characters(codec="utf-8"), max_size=8), max_size=2)
amounts = st.floats(0, 1e6) | st.integers(0, 10**6).map(float)
rates = st.floats(0.5, 1e5) | st.sampled_from([100.0, 200.0, 400.0])


ports = st.integers(0xC000, 0xFFFF)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def stages(draw: st.DrawFn) -> HashStage:
    algorithm = draw(st.sampled_from(ALGORITHMS))
    return HashStage(
        algorithm=algorithm,  # type: ignore[arg-type]
        fields=tuple(draw(st.permutations(HASH_FIELDS))[: draw(st.integers(1, 7))]),  # type: ignore[arg-type]
        seed=draw(seeds),
        offset=draw(st.integers(0, 31)),
        select=draw(st.sampled_from(["modulo", "high"])),
        key=draw(st.none() | st.binary(min_size=1, max_size=8).map(bytes.hex))
        if algorithm == "toeplitz"
        else None,
    )


@st.composite
def ways(draw: st.DrawFn) -> dict[int, tuple[int, ...]]:
    """Ports of some uplinks; a port leads to one."""
    uplinks = draw(st.lists(st.integers(0, 99), max_size=3, unique=True))
    distinct = draw(st.lists(ports, min_size=len(uplinks), max_size=9, unique=True))
    return {uplink: tuple(distinct[at :: len(uplinks)]) for at, uplink in enumerate(uplinks)}


@st.composite
def learned(draw: st.DrawFn) -> LearnedTable:
    pairs = [
        LearnedPair(
            src=f"10.0.0.{number}" if number else "fd00::2",
            dst="10.0.1.1" if number else "fd00::1",
            ports=draw(ways()),
            method=draw(st.sampled_from(["probed", "affine"])),
            probes=draw(st.integers(0, 99)),
            confidence=draw(st.floats(0, 1)),
        )
        for number in range(draw(st.integers(0, 2)))
    ]
    return LearnedTable(draw(st.integers(1, 99)), draw(names), tuple(pairs))


hashes = st.builds(FabricHash, leaf=stages(), pod=st.none() | stages()) | st.builds(
    FabricHash, learned=learned()
)


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    return Fabric(
        nic_gbps=draw(rates),
        uplink_gbps=draw(st.none() | rates),
        routing=draw(st.sampled_from(["steered", "ecmp", "adaptive"])),
        rails=draw(st.integers(1, 8)),
        hash=draw(st.none() | hashes),
    )


@st.composite
def plannings(draw: st.DrawFn) -> Planning:
    return Planning(
        objective=draw(st.sampled_from(["moves", "gpu_seconds"])),
        time_limit_s=draw(st.floats(0.001, 86_400)),
        solver=draw(names),
        max_moves=draw(st.none() | st.integers(0, 99)),
        previous_plan_id=draw(st.none() | names),
        pause_overhead_s=draw(amounts),
        restart_s=draw(amounts),
        trigger=draw(st.sampled_from(["always", "worthwhile"])),
    )


@st.composite
def nodes(draw: st.DrawFn, name: str, addresses: tuple[str, ...]) -> Node:
    slots = draw(st.integers(0, 8))
    return Node(
        id=name,
        slots=slots,
        held=draw(st.integers(0, slots) | st.just(0)),
        cordoned=draw(st.booleans()),
        drain=draw(st.booleans()),
        node_class=draw(st.sampled_from(["", "", "h100", "h200"])),
        labels=draw(st.just({}) | labels),
        addresses=addresses,
    )


@st.composite
def groups(draw: st.DrawFn, name: str, free: dict[str, int]) -> ReplicaGroup | None:
    """A group on slots taken from ``free``; None where no slot is left."""
    size = draw(st.integers(1, 3))
    workers = []
    for _ in range(draw(st.integers(1, 4))):
        open_nodes = sorted(node for node, left in free.items() if left >= size)
        if open_nodes:
            workers.append(draw(st.sampled_from(open_nodes)))
            free[workers[-1]] -= size
    if not workers:
        return None
    ranks = list(range(len(workers)))
    return ReplicaGroup(
        id=name,
        workers=tuple(workers),
        rings=draw(st.integers(0, 8)),
        slots_per_worker=size,
        state_gb=draw(amounts),
        order=draw(st.none() | st.permutations(ranks).map(tuple)),
        order_fixed=draw(st.booleans()),
        pinned=draw(st.frozensets(st.sampled_from(ranks))),
        kind=draw(st.sampled_from(["ring", "tree", "all_to_all", "other"])),
        traffic_gb=draw(st.none() | st.floats(1e-9, 1e6)),
        iteration_s=draw(st.none() | st.floats(1e-6, 1e6)),
    )


@st.composite
def jobs(draw: st.DrawFn, name: str, free: dict[str, int]) -> Job:
    ids = draw(st.lists(names, min_size=1, max_size=2, unique=True))
    drawn = [draw(groups(group, free)) for group in ids]
    return Job(
        id=name,
        replica_groups=tuple(group for group in drawn if group is not None),
        mobility=draw(st.sampled_from(["live", "restart", "none"])),
        classes=draw(st.none() | st.frozensets(st.sampled_from(["", "h100", "h200"]))),
        labels=draw(st.just({}) | labels),
        remaining_s=draw(st.none() | st.floats(0, 1e9)),
    )


@st.composite
def pending(draw: st.DrawFn, name: str) -> Pending:
    return Pending(
        id=name,
        workers=draw(st.integers(1, 99)),
        slots_per_worker=draw(st.integers(1, 8)),
        rings=draw(st.integers(0, 8)),
        classes=draw(st.none() | st.frozensets(st.sampled_from(["", "h100", "h200"]))),
        one_per_node=draw(st.booleans()),
        submitted_at=draw(st.none() | st.just("2026-11-29T17:59:00Z")),
        labels=draw(st.just({}) | labels),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Valid snapshots with every member in use."""
    pods = [Pod(name, draw(st.integers(0, 64))) for name in draw(st.lists(names, max_size=2, unique=True))]
    racks = []
    fabric, addressed = draw(fabrics()), draw(st.booleans())
    stages = () if fabric.hash is None else (fabric.hash.leaf, fabric.hash.pod)
    labelled = any(stage is not None and "flow_label" in stage.fields for stage in stages)
    form = "fd00:a{}:b{}::{:x}" if labelled or draw(st.booleans()) else "10.{}.{}.{}"

    def addresses(rack: int, node: int) -> tuple[str, ...]:
        return tuple(form.format(rack, node, rail + 1) for rail in range(fabric.rails)) if addressed else ()

    for index, name in enumerate(draw(st.lists(names, min_size=1, max_size=3, unique=True))):
        racks.append(
            Rack(
                id=name,
                spines=tuple(sorted(draw(st.sets(st.integers(0, 5), max_size=4)))),
                nodes=tuple(
                    draw(nodes(f"{index}/{n}~", addresses(index, n))) for n in range(draw(st.integers(0, 3)))
                ),
                pod=draw(st.sampled_from(pods)).id if pods else None,
            )
        )
    free = {node.id: node.usable for rack in racks for node in rack.nodes}
    return Snapshot(
        cluster=draw(names),
        taken_at="2026-11-29T18:00:00Z",
        racks=tuple(racks),
        jobs=tuple(draw(jobs(name, free)) for name in draw(st.lists(names, max_size=3, unique=True))),
        fabric=fabric,
        pods=tuple(pods),
        planning=draw(plannings()),
        sequence=draw(st.none() | st.integers(0, 2**63 - 1)),
        pending=tuple(
            draw(pending(f"{name}~pending")) for name in draw(st.lists(names, max_size=2, unique=True))
        ),
        labels=draw(labels),
    )


def sample_plan(rails: int = 1) -> Plan:
    """A plan with something in every member."""
    pair = (2,) * rails
    return Plan(
        id="p",
        snapshot_id="s",
        cluster="c",
        created_at="2026-11-29T18:00:00Z",
        status="best_effort",
        solver=SolverReport("gurobi", "13.0.3", 0.04, (Trial("gurobi", 0.04, "optimal"),)),
        moves_needed=1,
        lower_bound=None,
        undrained=(Undrained("A", "0", 1, "n1"),),
        excess=2,
        excess_proved=True,
        limited_by="time",
        jobs_paused=1,
        pause_s=9.26,
        objective=Objective("gpu_seconds", 1.5, True, 1.25),
        racks={"r1": Load(pair, (3,) * rails, pair)},
        pods={"p1": Load((8,), (1,), (1,))},
        moves=(Move("C", "0", 3, "r3n1", "r4n5", 0, True, ("r3", "move:0")),),
        rings=(Ring("A", "0", (0, 2, 1), True),),
        flows=(
            Flow("A", "0", 0, 0, 1, 2, "r1", "r2", 0),
            Flow("A", "0", 0, 0, 2, 0, "r2", "r1", None, True, None),
            Flow("A", "0", 0, 0, 0, 1, "r1", "r3", 1, True, 4, 0xC00F, 0xF),
        ),
        transients=(Transient("r1", 0, 1, 5),),
        shared_uplinks=(
            SharedUplink(1, "up", (0, 2), rack="r1", rail=0),
            SharedUplink(3, "down", (1,), pod="p1"),
        ),
        unguaranteed=(Unguaranteed("A", "0", "tree"),),
        unsteered=(Unsteered("polarised", (0, 1)),),
        certificate={"kind": "dual", "values": [1, 2]},
        predicted=Predicted(12.5, 18.0),
        worthwhile=False,
        placements=(
            PendingPlacement("P", ("n1", "n2"), {"r1": (1,) * rails}, True, True),
            PendingPlacement("Q", (), {}, False, True, ("no_room",)),
        ),
    )
