"""Small fabrics and runs for these tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from monkeytree.validation import binding
from monkeytree.validation.errors import ValidationUnavailable
from monkeytree.validation.runner import run_scenario

Document = dict[str, Any]
TIMEOUT_S = 300.0


def _why_not() -> str | None:
    try:
        binding.find_wheel()
    except ValidationUnavailable as error:
        return str(error)
    return None


WHY_NOT = _why_not()
needs_ns3 = pytest.mark.skipif(
    WHY_NOT is not None and os.environ.get("MONKEYTREE_REQUIRE_NS3") != "1",
    reason=f"ns-3 is not here ({WHY_NOT}); MONKEYTREE_REQUIRE_NS3=1 makes this a failure",
)


def flow(name: int | str, src: int, dst: int, size: int, **more: Any) -> Document:
    return {
        "id": name,
        "src": src,
        "dst": dst,
        "bytes": size,
        "start_ns": 0,
        "path": None,
        "ack_path": None,
    } | more


def star(hosts: int, flows: list[Document], gbps: float = 100, **params: Any) -> Document:
    """All hosts on one switch."""
    links = [[host, hosts, gbps, 1000] for host in range(hosts)]
    return scenario(hosts, [hosts], links, flows, **params)


def incast(senders: int, size: int, **params: Any) -> Document:
    """Senders 0, 1, ... to one receiver, all on one switch."""
    return star(senders + 1, [flow(at, at, senders, size) for at in range(senders)], **params)


def scenario(
    hosts: int, switches: list[int], links: Sequence[Sequence[float]], flows: list[Document], **params: Any
) -> Document:
    return {
        "format": 1,
        "hosts": hosts,
        "switches": switches,
        "links": [list(link) for link in links],
        "flows": flows,
        "params": params,
    }


def run(document: Document) -> Document:
    result: Document = run_scenario(document, timeout_s=TIMEOUT_S)
    return result


def fcts(result: Document) -> dict[int | str, float]:
    assert result["totals"]["finished"] is True
    return {row["id"]: row["fct_ns"] for row in result["flows"]}
