"""Tiny snapshots, each with a plan written by hand that holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Document = dict[str, Any]
Case = tuple[Document, Document]


def snapshot(racks: Sequence[Document], jobs: Sequence[Document], **members: Any) -> Document:
    base = {"format": 1, "cluster": "lab", "taken_at": "2026-11-29T18:00:00Z"}
    return {**base, "racks": list(racks), "jobs": list(jobs), **members}


def job(name: str, workers: Sequence[str], *, mobility: str = "live", **group: Any) -> Document:
    return {
        "id": name,
        "mobility": mobility,
        "replica_groups": [{"id": "0", "workers": list(workers), **group}],
    }


def plan(**members: Any) -> Document:
    """A ready plan of an empty cluster, with ``members`` instead of its own."""
    return {
        "format": 1, "id": "p", "cluster": "lab", "created_at": "2026-11-29T18:00:01Z",
        "state": "ready", "status": "optimal", "failure": None,
        "solver": {"name": "cbc", "version": "2.10", "seconds": 0.1, "tried": []},
        "moves_needed": 0, "lower_bound": 0, "undrained": [], "excess": 0, "excess_proved": True,
        "limited_by": None, "jobs_paused": 0, "pause_s": 0.0,
        "objective": {"name": "moves", "value": 0, "ties_proved": True},
        "racks": {}, "pods": {}, "moves": [], "rings": [], "flows": [],
        "transients": [], "shared_uplinks": [], "unguaranteed": [], "certificate": None,
        **members,
    }  # fmt: skip


def load(bound: Any, before: Any, after: Any) -> Document:
    return {"bound": bound, "before": before, "after": after}


def move(name: str, rank: int, source: str, target: str, wave: int = 0, *, staged: bool = False) -> Document:
    return {
        "job": name, "group": "0", "rank": rank, "from": source, "to": target,
        "wave": wave, "staged": staged, "because": [],
    }  # fmt: skip


def ring(name: str, order: Sequence[int], *, changed: bool = False) -> Document:
    return {"job": name, "group": "0", "order": list(order), "changed": changed}


def flow(
    name: str,
    ranks: tuple[int, int],
    racks: tuple[str, str],
    uplink: int | None,
    number: int = 0,
    rail: int = 0,
) -> Document:
    return {
        "job": name, "group": "0", "ring": number, "rail": rail, "from_rank": ranks[0], "to_rank": ranks[1],
        "from_rack": racks[0], "to_rack": racks[1], "uplink": uplink,
    }  # fmt: skip


def moved() -> Case:
    """B's lone worker in r2 joins the others: r1 and r2 then carry one flow each. 5 more jobs sit still."""
    racks: list[Document] = [
        {"id": "r1", "uplinks": 1, "nodes": {"n1": 2, "n2": 2}},
        {"id": "r2", "uplinks": 1, "nodes": {"n3": 2, "n4": {"slots": 4, "held": 1}}},
        {
            "id": "r3",
            "uplinks": 1,
            "nodes": {
                "n5": 8,
                "n6": {"slots": 4, "cordoned": True},
                "n7": {"slots": 4, "drain": True},
                "n8": {"slots": 4, "class": "h200"},
            },
        },
    ]
    jobs = [
        job("A", ["n1", "n3"]),
        job("B", ["n1", "n2", "n3"]),
        job("C", ["n4", "n4", "n4"], mobility="none"),
        job("D", ["n5", "n5", "n5"], order_fixed=True),
        job("E", ["n5"], pinned=[0]),
        job("F", ["n5", "n5"], mobility="restart", rings=0),
    ]
    return snapshot(racks, jobs, planning={"max_moves": 3}), plan(
        moves_needed=1,
        lower_bound=1,
        jobs_paused=1,
        pause_s=9.26,
        objective={"name": "moves", "value": 1, "ties_proved": True},
        racks={"r1": load(1, 2, 1), "r2": load(1, 2, 1), "r3": load(1, 0, 0)},
        moves=[move("B", 2, "n3", "n2")],
        rings=[
            ring("A", [0, 1]),
            ring("B", [1, 2, 0]),
            ring("C", [0, 1, 2]),
            ring("D", [0, 1, 2]),
            ring("F", [0, 1]),
        ],
        flows=[flow("A", (0, 1), ("r1", "r2"), 0), flow("A", (1, 0), ("r2", "r1"), 0)],
    )


def foretold() -> Case:
    """:func:`moved` with predictions: A and B, each sending a quarter of the time, shared an uplink."""
    before, after = moved()
    for index, (traffic_gb, iteration_s, remaining_s) in enumerate([(50, 4, 1000), (25, 2, 200)]):
        before["jobs"][index]["remaining_s"] = remaining_s
        before["jobs"][index]["replica_groups"][0].update(traffic_gb=traffic_gb, iteration_s=iteration_s)
    # Sending a quarter, each is late by a quarter of that; then each sends 5/17, and then 22/73 of the time.
    saved = (2 * 1000 + 3 * 200) / 4 * 22 / 73
    return before, {
        **after,
        "predicted": {"saved_gpu_s": saved, "lost_gpu_s": 3 * 9.26},
        "worthwhile": True,
    }


def swapped() -> Case:
    """A full cluster: A and B swap a worker through staging."""
    racks: list[Document] = [
        {"id": "r1", "uplinks": 1, "nodes": {"x1": 1, "x2": 1}},
        {"id": "r2", "uplinks": 1, "nodes": {"y1": 1, "y2": 1}},
    ]
    jobs = [job("A", ["x1", "y1"]), job("B", ["x2", "y2"], mobility="restart", state_gb=50)]
    return snapshot(racks, jobs), plan(
        moves_needed=2,
        lower_bound=2,
        jobs_paused=2,
        pause_s=9.26 + 120,
        objective={"name": "moves", "value": 2, "ties_proved": True},
        racks={"r1": load(1, 2, 0), "r2": load(1, 2, 0)},
        moves=[move("A", 1, "y1", "x2", staged=True), move("B", 0, "x2", "y1", staged=True)],
        rings=[ring("A", [0, 1]), ring("B", [0, 1])],
    )


def reordered() -> Case:
    """A zigzags between two racks: a new order is enough."""
    racks = [{"id": rack, "uplinks": 1, "nodes": {f"{rack}n": 2}} for rack in ("r1", "r2")]
    order = [0, 2, 1, 3]
    return snapshot(racks, [job("A", ["r1n", "r2n", "r1n", "r2n"])]), plan(
        jobs_paused=1,
        pause_s=9.02,
        racks={"r1": load(1, 2, 1), "r2": load(1, 2, 1)},
        rings=[ring("A", order, changed=True)],
        flows=[flow("A", (2, 1), ("r1", "r2"), 0), flow("A", (3, 0), ("r2", "r1"), 0)],
    )


def podded() -> Case:
    """Compliant as it is: A crosses pods of 3 and 2 spines, B stays in a pod where spine 0 is dead."""
    racks: list[Document] = [
        {"id": "r1", "uplinks": 3, "pod": "p1", "nodes": {"n1": 2}},
        {"id": "r2", "uplinks": [1, 2], "pod": "p1", "nodes": {"n2": 2}},
        {"id": "r3", "uplinks": 2, "pod": "p2", "nodes": {"n3": 2}},
    ]
    jobs = [job("A", ["n1", "n3"], kind="tree"), job("B", ["n1", "n2"])]
    pods = [{"id": "p1", "uplinks": 6}, {"id": "p2", "uplinks": 5}]
    return snapshot(racks, jobs, pods=pods), plan(
        status="compliant",
        racks={"r1": load(3, 2, 2), "r2": load(2, 1, 1), "r3": load(2, 1, 1)},
        pods={"p1": load(6, 1, 1), "p2": load(5, 1, 1)},
        rings=[ring("A", [0, 1]), ring("B", [0, 1])],
        flows=[
            # core 3 is reached from spine 3 mod 3 = 0 of p1 and 3 mod 2 = 1 of p2
            {**flow("A", (0, 1), ("r1", "r3"), 0), "pod_uplink": 3},
            {**flow("A", (1, 0), ("r3", "r1"), 1), "pod_uplink": 1},
            flow("B", (0, 1), ("r1", "r2"), 2),
            flow("B", (1, 0), ("r2", "r1"), 2),
        ],
        unguaranteed=[{"job": "A", "group": "0", "kind": "tree"}],
    )


def crowded_pod() -> Case:
    """Two flows leave p1 by its only uplink: the pod is over, and the pod uplink is shared."""
    racks: list[Document] = [
        {"id": "r1", "uplinks": 2, "pod": "p1", "nodes": {"n1": 2}},
        {"id": "r2", "uplinks": 2, "pod": "p2", "nodes": {"n2": 2}},
    ]
    pods = [{"id": "p1", "uplinks": 1}, {"id": "p2", "uplinks": 4}]
    there, back = flow("A", (0, 1), ("r1", "r2"), 0), flow("A", (1, 0), ("r2", "r1"), 0)
    jobs = [job("A", ["n1", "n2"], rings=2)]
    return snapshot(racks, jobs, pods=pods, planning={"max_moves": 0}), plan(
        status="best_effort",
        limited_by="max_moves",
        excess=1,
        racks={"r1": load(2, 2, 2)},
        pods={"p1": load(1, 2, 2)},
        rings=[ring("A", [0, 1])],
        flows=[{**entry, "ring": number, "pod_uplink": 0} for number in range(2) for entry in (there, back)],
        shared_uplinks=[
            {"pod": "p1", "uplink": 0, "direction": "up", "flows": [0, 2]},
            {"pod": "p1", "uplink": 0, "direction": "down", "flows": [1, 3]},
            {"pod": "p2", "uplink": 0, "direction": "up", "flows": [1, 3]},
            {"pod": "p2", "uplink": 0, "direction": "down", "flows": [0, 2]},
            {"rack": "r1", "rail": 0, "uplink": 0, "direction": "up", "flows": [0, 2]},
            {"rack": "r1", "rail": 0, "uplink": 0, "direction": "down", "flows": [1, 3]},
            {"rack": "r2", "rail": 0, "uplink": 0, "direction": "up", "flows": [1, 3]},
            {"rack": "r2", "rail": 0, "uplink": 0, "direction": "down", "flows": [0, 2]},
        ],
    )


def railed() -> Case:
    """Two rails, three rings: two of them on rail 0. Uplinks carry k = 2 flows."""
    racks = [{"id": rack, "uplinks": 2, "nodes": {f"{rack}n": 2}} for rack in ("r1", "r2")]
    fabric = {"nic_gbps": 100, "uplink_gbps": 250, "rails": 2}
    ends = (("r1", "r2"), (0, 1)), (("r2", "r1"), (1, 0))
    return snapshot(racks, [job("A", ["r1n", "r2n"], rings=3)], fabric=fabric), plan(
        status="compliant",
        racks={"r1": load([4, 4], [2, 1], [2, 1]), "r2": load([4, 4], [2, 1], [2, 1])},
        rings=[ring("A", [0, 1])],
        flows=[
            flow("A", ranks, racks, 0, number, number % 2) for number in range(3) for racks, ranks in ends
        ],
    )


def folded() -> Case:
    """AAA|AAB|BBB with one uplink a rack: no placement complies, r2 folds two flows on its uplink."""
    racks = [{"id": rack, "uplinks": 1, "nodes": {f"{rack}n": 3}} for rack in ("r1", "r2", "r3")]
    jobs = [job("A", ["r1n"] * 3 + ["r2n"] * 2), job("B", ["r2n"] + ["r3n"] * 3)]
    return snapshot(racks, jobs), plan(
        status="best_effort",
        excess=1,
        racks={"r2": load(1, 2, 2)},
        rings=[ring("A", range(5)), ring("B", range(4))],
        flows=[
            flow("A", (2, 3), ("r1", "r2"), 0),
            flow("A", (4, 0), ("r2", "r1"), 0),
            flow("B", (0, 1), ("r2", "r3"), 0),
            flow("B", (3, 0), ("r3", "r2"), 0),
        ],
        shared_uplinks=[
            {"rack": "r2", "rail": 0, "uplink": 0, "direction": "up", "flows": [1, 2]},
            {"rack": "r2", "rail": 0, "uplink": 0, "direction": "down", "flows": [0, 3]},
        ],
    )


def drained() -> Case:
    """A leaves a draining node in two waves; in between both racks, which have no uplink, are over."""
    racks: list[Document] = [
        {"id": "r1", "uplinks": 0, "nodes": {"n1": {"slots": 2, "drain": True}}},
        {"id": "r2", "uplinks": 0, "nodes": {"n2": 2}},
    ]
    return snapshot(racks, [job("A", ["n1", "n1"], state_gb=100)], fabric={"nic_gbps": 100}), plan(
        moves_needed=2,
        lower_bound=2,
        jobs_paused=1,
        pause_s=2 * (9.02 + 8),
        objective={"name": "moves", "value": 2, "ties_proved": False},
        moves=[move("A", 0, "n1", "n2", 0), move("A", 1, "n1", "n2", 1)],
        rings=[ring("A", [1, 0])],
        transients=[
            {"rack": "r1", "rail": 0, "wave": 0, "f": 1},
            {"rack": "r2", "rail": 0, "wave": 0, "f": 1},
        ],
    )


def undrained() -> Case:
    """A pinned worker cannot leave its draining node."""
    racks = [{"id": "r1", "uplinks": 1, "nodes": {"n1": {"slots": 2, "drain": True}, "n2": 2}}]
    return snapshot(racks, [job("A", ["n1", "n2"], pinned=[0])]), plan(
        status="infeasible",
        undrained=[{"job": "A", "group": "0", "rank": 0, "node": "n1"}],
        racks={"r1": load(1, 0, 0)},
        rings=[ring("A", [0, 1])],
    )


def weighed() -> Case:
    """gpu_seconds: both jobs leave a draining node, A live in two waves, B by a restart."""
    racks = [{"id": "r1", "uplinks": 1, "nodes": {"n1": {"slots": 8, "drain": True}, "n2": 8}}]
    jobs = [
        job("A", ["n1", "n1"], slots_per_worker=2, state_gb=50),
        job("B", ["n1", "n2"], mobility="restart", rings=0),
    ]
    planning = {"objective": "gpu_seconds", "pause_overhead_s": 5, "restart_s": 60}
    value = 4 * (5 + 1) + 2 * 60
    return snapshot(racks, jobs, planning=planning), plan(
        moves_needed=3,
        lower_bound=None,
        jobs_paused=2,
        pause_s=2 * (5 + 1) + 60.0,
        objective={"name": "gpu_seconds", "value": value, "ties_proved": True, "lower_bound": value},
        moves=[move("A", 0, "n1", "n2", 0), move("A", 1, "n1", "n2", 1), move("B", 0, "n1", "n2", 1)],
        rings=[ring("A", [0, 1]), ring("B", [0, 1])],
    )


def cut() -> Case:
    """Two racks without a common live spine: their flows have no uplink, and that is said."""
    racks: list[Document] = [
        {"id": "r1", "uplinks": [0], "nodes": {"n1": 1}},
        {"id": "r2", "uplinks": [1], "nodes": {"n2": 1}},
    ]
    return snapshot(racks, [job("A", ["n1", "n2"])]), plan(
        status="compliant",
        racks={"r1": load(1, 1, 1)},
        rings=[ring("A", [0, 1])],
        flows=[flow("A", (0, 1), ("r1", "r2"), None), flow("A", (1, 0), ("r2", "r1"), None)],
        unguaranteed=[{"job": "A", "group": "0", "kind": "ring"}],
    )


def cut_pods() -> Case:
    """Pod uplinks that lead only from spine 0 of p1, which is dead at r1."""
    racks: list[Document] = [
        {"id": "r1", "uplinks": [1], "pod": "p1", "nodes": {"n1": 1}},
        {"id": "r2", "uplinks": 2, "pod": "p2", "nodes": {"n2": 1}},
    ]
    pods = [{"id": "p1", "uplinks": 1}, {"id": "p2", "uplinks": 2}]
    return snapshot(racks, [job("A", ["n1", "n2"])], pods=pods), plan(
        status="compliant",
        rings=[ring("A", [0, 1])],
        flows=[
            {**flow("A", (0, 1), ("r1", "r2"), None), "pod_uplink": None},
            {**flow("A", (1, 0), ("r2", "r1"), None), "pod_uplink": None},
        ],
        unguaranteed=[{"job": "A", "group": "0", "kind": "ring"}],
    )


def spread() -> Case:
    """Two uplinks and two flows a rack, each on its own."""
    racks = [{"id": rack, "uplinks": 2, "nodes": {f"{rack}n": 2}} for rack in ("r1", "r2")]
    return snapshot(racks, [job("A", ["r1n", "r2n"]), job("B", ["r1n", "r2n"])]), plan(
        status="compliant",
        rings=[ring("A", [0, 1]), ring("B", [0, 1])],
        flows=[
            flow("A", (0, 1), ("r1", "r2"), 0),
            flow("A", (1, 0), ("r2", "r1"), 0),
            flow("B", (0, 1), ("r1", "r2"), 1),
            flow("B", (1, 0), ("r2", "r1"), 1),
        ],
    )


def overfull() -> Case:
    """Three rings over two uplinks: one carries two flows, the other one."""
    racks = [{"id": rack, "uplinks": 2, "nodes": {f"{rack}n": 1}} for rack in ("r1", "r2")]
    ends = (("r1", "r2"), (0, 1)), (("r2", "r1"), (1, 0))
    return snapshot(racks, [job("A", ["r1n", "r2n"], rings=3)]), plan(
        status="best_effort",
        excess=2,
        racks={"r1": load(2, 3, 3), "r2": load(2, 3, 3)},
        rings=[ring("A", [0, 1])],
        flows=[flow("A", ranks, racks, number % 2, number) for number in range(3) for racks, ranks in ends],
        shared_uplinks=[
            {"rack": "r1", "rail": 0, "uplink": 0, "direction": "up", "flows": [0, 4]},
            {"rack": "r1", "rail": 0, "uplink": 0, "direction": "down", "flows": [1, 5]},
            {"rack": "r2", "rail": 0, "uplink": 0, "direction": "up", "flows": [1, 5]},
            {"rack": "r2", "rail": 0, "uplink": 0, "direction": "down", "flows": [0, 4]},
        ],
    )


def hashed() -> Case:
    """A's two rings have ports for a CRC-16/CCITT over four uplinks, B has no addresses."""
    racks: list[Document] = [
        {
            "id": f"r{n}",
            "uplinks": 4,
            "nodes": {f"a{n}": {"slots": 1, "addresses": [f"10.0.{n}.1"]}, f"b{n}": 1},
        }
        for n in (0, 1)
    ]
    jobs = [job("A", ["a0", "a1"], rings=2), job("B", ["b0", "b1"])]
    fabric = {"hash": {"leaf": {"algorithm": "crc16_ccitt"}}}
    ports = ({"udp_source_port": 49176, "flow_label": 24}, {"udp_source_port": 49168, "flow_label": 16})
    hops = (((0, 1), ("r0", "r1")), ((1, 0), ("r1", "r0")))
    return snapshot(racks, jobs, fabric=fabric), plan(
        status="compliant",
        racks={"r0": load(4, 3, 3), "r1": load(4, 3, 3)},
        rings=[ring("A", [0, 1]), ring("B", [0, 1])],
        flows=[
            *({**flow("A", *hop, ring_, ring_), **ports[ring_]} for ring_ in (0, 1) for hop in hops),
            *(flow("B", *hop, 2) for hop in hops),
        ],
        unsteered=[{"reason": "no_address", "flows": [4, 5]}],
    )


def advised() -> Case:
    """P fits into r2, Q goes to what is left of r1 and to r3 without uplinks, R finds no room."""
    racks: list[Document] = [
        {"id": "r1", "uplinks": 1, "nodes": {"n1": 2}},
        {"id": "r2", "uplinks": 1, "nodes": {"n2": 2, "n4": {"slots": 2, "cordoned": True}}},
        {"id": "r3", "uplinks": 0, "nodes": {"n3": 1, "n5": {"slots": 3, "class": "h200"}}},
    ]
    pending: list[Document] = [
        {"id": "P", "workers": 2, "submitted_at": "2026-11-29T17:00:00Z"},
        {"id": "Q", "workers": 2, "classes": [""]},
        {"id": "R", "workers": 2, "classes": ["h200"], "one_per_node": True},
    ]
    nothing: Document = {"within_bound": False, "proved": True, "because": ["no_room"]}
    return snapshot(racks, [job("A", ["n1"])], pending=pending), plan(
        status="compliant",
        placements=[
            {
                "job": "P", "nodes": ["n2", "n2"], "after": {"r2": 0},
                "within_bound": True, "proved": True, "because": [],
            },
            {
                "job": "Q", "nodes": ["n1", "n3"], "after": {"r1": 1, "r3": 1},
                "within_bound": False, "proved": True, "because": ["r3"],
            },
            {"job": "R", "nodes": [], "after": {}, **nothing},
        ],
    )  # fmt: skip


CASES: dict[str, Callable[[], Case]] = {
    case.__name__: case
    for case in (
        moved, foretold, swapped, reordered, podded, crowded_pod, railed, folded, drained,
        undrained, weighed, cut, cut_pods, spread, overfull, hashed, advised,
    )
}  # fmt: skip
