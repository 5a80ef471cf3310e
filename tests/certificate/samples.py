"""Snapshots with a known optimum, and plans that claim it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import monkeytree
from monkeytree.certify import certify
from monkeytree.checker import Fault
from monkeytree.checker.certificate import certificate_faults
from monkeytree.checker.reading import read_placement

Document = dict[str, Any]
INSTANCES = Path(__file__).parents[1] / "data" / "instances"


def instance(name: str) -> tuple[Document, int]:
    """A snapshot document and its fewest moves."""
    expected = json.loads((INSTANCES / f"{name}.expect.json").read_text())
    return json.loads((INSTANCES / f"{name}.json").read_text()), expected["optimum"]


def made(snapshot: Document, moves: int) -> Document | None:
    """The certificate for a snapshot document, as it comes out of JSON."""
    loaded = monkeytree.load_snapshot(snapshot)
    certificate = certify(loaded, moves, deadline=time.monotonic() + 60)
    return None if certificate is None else json.loads(json.dumps(certificate))


def faults(snapshot: Document, certificate: Any, bound: int | None) -> list[Fault]:
    """What the checker says of a certificate in a complying plan of that lower bound."""
    plan = {"certificate": certificate, "lower_bound": bound, "undrained": [], "excess": 0}
    return list(certificate_faults(plan, read_placement(snapshot)))


def leaves(node: Document) -> list[Document]:
    """The leaves of a tree."""
    return leaves(node["most"]) + leaves(node["more"]) if "column" in node else [node]
