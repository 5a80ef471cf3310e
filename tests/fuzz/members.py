"""Members of later releases, drawn at random onto a random snapshot document: pending jobs, addresses and
``fabric.hash`` (or a learned table), and what predictions read."""

from __future__ import annotations

import copy
from itertools import permutations
from random import Random
from typing import Any

import monkeytree
from monkeytree.ecmp.epoch import topology_epoch
from monkeytree.fabric_hash import ALGORITHMS, HASH_FIELDS

Document = dict[str, Any]


def with_members(document: Document, rng: Random) -> Document:
    """``document``, changed in place."""
    _widen(document, rng)
    fabric = document.setdefault("fabric", {})
    fabric["routing"] = rng.choice(["steered", "steered", "steered", "ecmp", "adaptive"])
    addresses = _addresses(document, rng)
    if rng.random() < 0.85:
        learned = rng.random() < 0.25
        fabric["hash"] = _learned(document, addresses, rng) if learned else _hash(document, rng)
    for job in document["jobs"]:
        if rng.random() < 0.8:
            job["remaining_s"] = rng.choice([0, 1, 3600, 1e9, rng.random() * 1e4])
        for group in job["replica_groups"]:
            if rng.random() < 0.85:
                group["iteration_s"] = rng.choice([1e-6, 0.5, 10, 1e6])
            if rng.random() < 0.85:
                group["traffic_gb"] = rng.choice([1e-9, 0.02, 1, 50, 1e6])
    if rng.random() < 0.7:
        document["pending"] = [_pending(number, rng) for number in range(rng.randint(1, 4))]
    document.setdefault("planning", {})["trigger"] = rng.choice(["always", "worthwhile"])
    return document


def _widen(document: Document, rng: Random) -> None:
    """More uplinks for some racks and pods, so that there is something to choose from."""
    for rack in document["racks"]:
        if rng.random() < 0.4:
            count = rng.choice([2, 3, 4, 5, 8])
            rack["uplinks"] = count if rng.random() < 0.5 else sorted(rng.sample(range(count + 2), count))
    for pod in document.get("pods", ()):
        if rng.random() < 0.6:
            pod["uplinks"] = rng.choice([2, 4, 7, 8, 16])


def _addresses(document: Document, rng: Random) -> list[list[str]]:
    form = rng.choice(["10.{}.0.{}", "10.{}.0.{}", "fd00::{:x}:{:x}"])
    rails = document["fabric"].get("rails", 1)
    found: list[list[str]] = []
    for rack in document["racks"]:
        for name, node in rack["nodes"].items():
            if rng.random() < 0.9:
                row = [form.format(rail + 1, len(found) + 1) for rail in range(rails)]
                rack["nodes"][name] = {
                    **(node if isinstance(node, dict) else {"slots": node}),
                    "addresses": row,
                }
                found.append(row)
    return found


def _hash(document: Document, rng: Random) -> Document:
    nodes = (node for rack in document["racks"] for node in rack["nodes"].values() if isinstance(node, dict))
    ipv6 = any(":" in address for node in nodes for address in node.get("addresses", ()))
    made: Document = {"leaf": _stage(rng, ipv6)}
    if rng.random() < 0.4:
        made["pod"] = _stage(rng, ipv6)
    if rng.random() < 0.4:
        made["leaf_seeds"] = {f"{rng.choice(document['racks'])['id']}/0": rng.randrange(2**32)}
    if document.get("pods") and rng.random() < 0.4:
        with_spines = [rack for rack in document["racks"] if rack["uplinks"]]
        made["pod_seeds"] = {f"{rack['pod']}/0": rng.randrange(2**32) for rack in with_spines[:1]}
    return made


def _stage(rng: Random, ipv6: bool) -> Document:
    made: Document = {"algorithm": rng.choice(ALGORITHMS), "seed": rng.choice([0, 1, 65_536, 2**32 - 1])}
    if rng.random() < 0.5:
        known = [name for name in HASH_FIELDS if name != "dst_qp" or rng.random() < 0.2]
        if not ipv6:
            known.remove("flow_label")
        made["fields"] = rng.sample(known, rng.randint(1, len(known)))
    made["offset"] = rng.choice([0, 0, 3, 31])
    made["select"] = rng.choice(["modulo", "high"])
    if made["algorithm"] == "toeplitz" and rng.random() < 0.5:
        made["key"] = rng.randbytes(rng.choice([1, 5, 40])).hex()
    return made


def _learned(document: Document, addresses: list[list[str]], rng: Random) -> Document:
    pairs = []
    for one, other in permutations(addresses, 2):
        for src, dst in zip(one, other, strict=True):
            ports = rng.sample(range(0xC000, 0x10000), 8)
            known = {str(uplink): [ports.pop() for _ in range(rng.randint(0, 2))] for uplink in range(4)}
            confidence = rng.choice([0, 0.5, 1])
            pairs.append({"src": src, "dst": dst, "ports": known, "probes": 9, "confidence": confidence})
    epoch = topology_epoch(monkeytree.load_snapshot(document)) if rng.random() < 0.8 else "another"
    return {"learned": {"version": 1, "epoch": epoch, "pairs": pairs}}


def _pending(number: int, rng: Random) -> Document:
    job: Document = {"id": f"P{number} é,;", "workers": rng.randint(1, 8), "rings": rng.randint(0, 3)}
    job["slots_per_worker"] = rng.choice([1, 1, 2, 3])
    job["one_per_node"] = rng.random() < 0.3
    if rng.random() < 0.4:
        job["classes"] = rng.choice([["no such"], [""], ["a100", "h200"], []])
    return job


def broken(plan: Document, rng: Random) -> list[tuple[str, Document]]:
    """Plans that differ from ``plan`` in one member each, by a name; none of them holds."""
    made: list[tuple[str, Document]] = []

    def change(name: str, **members: Any) -> None:
        made.append((name, {**copy.deepcopy(plan), **members}))

    saved, lost = plan["predicted"]["saved_gpu_s"], plan["predicted"]["lost_gpu_s"]
    change("saved", predicted={"saved_gpu_s": 1.001 * (saved or 0) + 1, "lost_gpu_s": lost})
    change("lost", predicted={"saved_gpu_s": saved, "lost_gpu_s": 1.001 * lost + 1})
    for word in {True, False, None} - {plan["worthwhile"]}:
        change("worthwhile", worthwhile=word)
    steered = [at for at, flow in enumerate(plan["flows"]) if "udp_source_port" in flow]
    if steered:
        at = rng.choice(steered)
        flow = plan["flows"][at]
        bare = {key: flow[key] for key in flow if key not in ("udp_source_port", "flow_label")}
        for name, row in (
            ("port dropped", bare),
            ("label", {**flow, "flow_label": flow["flow_label"] ^ 1}),
            ("port", {**flow, "udp_source_port": rng.choice([4791, 0xBFFF, -1])}),
        ):
            change(name, flows=[*plan["flows"][:at], row, *plan["flows"][at + 1 :]])
        change("both", unsteered=[*plan["unsteered"], {"reason": "polarised", "flows": [at]}])
    for at, entry in enumerate(plan["unsteered"]):
        rest = plan["unsteered"][:at] + plan["unsteered"][at + 1 :]
        change("unsteered dropped", unsteered=rest)
        wrong = "polarised" if entry["reason"] != "polarised" else "no_uplink"
        change("reason", unsteered=[*rest, {**entry, "reason": wrong}])
    for at, placed in enumerate(plan["placements"]):
        before, behind = plan["placements"][:at], plan["placements"][at + 1 :]
        change("placement dropped", placements=[*before, *behind])
        wrongs = [{**placed, "within_bound": not placed["within_bound"]}, {**placed, "because": ["r99"]}]
        if placed["nodes"]:
            none: Document = {"nodes": [], "after": {}, "within_bound": False, "because": ["no_room"]}
            wrongs += [{**placed, "nodes": placed["nodes"][1:]}, {**placed, **none}, {**placed, "after": {}}]
        for wrong_row in wrongs:
            change("placement", placements=[*before, wrong_row, *behind])
    return made
