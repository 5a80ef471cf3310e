"""Gives every cross-rack flow an uplink of its own, as far as the fabric allows."""

from __future__ import annotations

from collections.abc import Sequence

from .budget import Budget
from .equal import colour_equal
from .listed import colour_listed
from .model import Colouring, Direction, Hop, Share, Topology
from .routes import Route, Routes, find_routes


def colour_flows(topology: Topology, hops: Sequence[Hop]) -> Colouring:
    """Choose the spine (and core) of each flow so that few flows share an uplink.

    Flows that interact are coloured together, component by component. Where their leaves have the
    same live spines, König's theorem gives at most ceil(d / U) flows an uplink and direction for a
    leaf of d flows and U spines: nobody shares on a leaf within its bound U k. Elsewhere (unequal
    spines, pods) it is a list colouring that need not exist; then the flows that share on leaves
    and pods within their bound are kept few (exactly fewest in small components), and what is over
    its bound folds as evenly as it can. Seeds are kept wherever they do no harm, and colouring the
    same flows again, seeded with the answer, changes nothing. Deterministic.

    Raises:
        ValueError: when ``flows_per_uplink`` is below 1.
    """
    if topology.flows_per_uplink < 1:
        raise ValueError(f"flows_per_uplink must be at least 1, got {topology.flows_per_uplink!r}")
    routes = find_routes(topology, hops)
    labels: list[int | None] = [None] * len(hops)
    budget = Budget()
    equal: dict[tuple[int, ...], list[int]] = {}
    for flows in _components(routes):
        if _is_equal(routes, flows):
            equal.setdefault(routes.flows[flows[0]].labels, []).extend(flows)
        else:
            for flow, label in colour_listed(routes, flows, budget).items():
                labels[flow] = label
    for spines, flows in equal.items():
        _colour_equal_flows(routes, spines, flows, labels)
    return _assemble(routes, labels)


def _components(routes: Routes) -> list[list[int]]:
    """Flows that load a common node, directly or through others; ascending in each component."""
    parent = list(range(len(routes.places)))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for route in routes.flows:
        for node, _ in route.terms[1:]:
            parent[root(node)] = root(route.terms[0][0])
    components: dict[int, list[int]] = {}
    for flow, route in enumerate(routes.flows):
        if route.terms:
            components.setdefault(root(route.terms[0][0]), []).append(flow)
    return list(components.values())


def _is_equal(routes: Routes, flows: Sequence[int]) -> bool:
    """Whether König's theorem serves: one list of spines, and it is every leaf's or it suffices."""
    labels = routes.flows[flows[0]].labels
    room = len(labels) * routes.flows_per_uplink

    def serves(route: Route) -> bool:
        return (
            len(route.terms) == 2
            and route.labels == labels
            and all(
                len(routes.live[node]) == len(labels) or routes.degree[node] <= room
                for node, _ in route.terms
            )
        )

    return all(serves(routes.flows[flow]) for flow in flows)


def _colour_equal_flows(
    routes: Routes, spines: tuple[int, ...], flows: Sequence[int], labels: list[int | None]
) -> None:
    colour_of = {spine: colour for colour, spine in enumerate(spines)}
    chosen = [routes.flows[flow] for flow in flows]
    ends = [(route.terms[0][0], route.terms[1][0]) for route in chosen]
    seeds = [None if route.seed is None else colour_of.get(route.seed) for route in chosen]
    for flow, colour in zip(flows, colour_equal(ends, seeds, len(spines)), strict=True):
        labels[flow] = spines[colour]


def _assemble(routes: Routes, labels: Sequence[int | None]) -> Colouring:
    uplinks: list[int | None] = []
    loads: dict[int, list[int]] = {}
    for flow, label in enumerate(labels):
        if label is None:
            uplinks.append(None)
            continue
        uplinks.append(label % routes.flows[flow].terms[0][1])
        for resource in routes.resources(flow, label):
            loads.setdefault(resource, []).append(flow)
    cores = tuple(
        label if route.crosses_core else None for route, label in zip(routes.flows, labels, strict=True)
    )
    crowded = (item for item in loads.items() if len(item[1]) > routes.flows_per_uplink)
    shared = sorted((_share(routes, resource, flows) for resource, flows in crowded), key=_share_order)
    return Colouring(tuple(uplinks), cores, tuple(shared))


def _share(routes: Routes, resource: int, flows: list[int]) -> Share:
    node, uplink = divmod(resource, routes.stride)
    place, direction = routes.places[node]
    if isinstance(place, str):
        return Share(uplink, direction, tuple(flows), pod=place)
    return Share(uplink, direction, tuple(flows), rack=place[0], rail=place[1])


def _share_order(share: Share) -> tuple[bool, str, int, int, Direction]:
    is_pod = share.pod is not None
    return (is_pod, share.pod or share.rack or "", share.rail or 0, share.uplink, share.direction)
