"""Who decides on paths and placement: one file a router, behind one protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .cassini import Cassini
from .crux import Crux
from .ecmp import Ecmp
from .perfect import Perfect
from .protocol import DynamicRouter, Router
from .sglb import Sglb
from .spray import Spray

AnyRouter = Router | DynamicRouter


@dataclass(frozen=True, slots=True)
class System:
    """A router, and whether MonkeyTree defragments above it.

    Attributes:
        with_pods: its planner bounds the pods' uplinks to the cores too.
    """

    router: Callable[[], AnyRouter]
    defragments: bool = False
    with_pods: bool = False


SYSTEMS: Mapping[str, System] = {
    "ecmp": System(Ecmp),
    "crux": System(Crux),
    "perfect": System(Perfect),
    "sglb": System(Sglb),
    "cassini": System(Cassini),
    "spray": System(Spray),
    "monkeytree": System(Perfect, defragments=True),
    "monkeytree-ecmp": System(Ecmp, defragments=True),
    "monkeytree-crux": System(Crux, defragments=True),
    "monkeytree-sglb": System(Sglb, defragments=True),
    "monkeytree-perfect": System(Perfect, defragments=True),
    "monkeytree-cassini": System(Cassini, defragments=True),
    "monkeytree-spray": System(Spray, defragments=True),
    "monkeytree3": System(Perfect, defragments=True, with_pods=True),
}
"""By the name that ``Setup.system`` gives."""
