"""MonkeyTree: the fewest worker moves that give every flow an uplink of its own.

This module is a lazy facade: importing it costs nothing heavy. See docs/contract.md, section 5.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checker import check
    from .planner import make_plan
    from .wire.plan import dump_plan, load_plan
    from .wire.snapshot import dump_snapshot, load_snapshot, snapshot_id

__version__ = "0.1.0"

_HOMES = {
    "check": ".checker",
    "dump_plan": ".wire.plan",
    "dump_snapshot": ".wire.snapshot",
    "load_plan": ".wire.plan",
    "load_snapshot": ".wire.snapshot",
    "make_plan": ".planner",
    "snapshot_id": ".wire.snapshot",
}

__all__ = [
    "__version__",
    "check",
    "dump_plan",
    "dump_snapshot",
    "load_plan",
    "load_snapshot",
    "make_plan",
    "snapshot_id",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'monkeytree' has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
