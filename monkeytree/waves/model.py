"""What the scheduling of waves takes and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transfer:
    """One worker that changes node.

    Attributes:
        slots: slots it occupies, on both nodes.
        together: it belongs to a restart: all such transfers of its job share one wave.
    """

    job: str
    source: str
    target: str
    slots: int
    together: bool = False


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The wave of one transfer, from 0, and whether it waits in host memory for its slot."""

    wave: int
    staged: bool


@dataclass(frozen=True, slots=True)
class Unit:
    """Transfers (by index) that share a wave by demand: one, or a whole restart."""

    job: str
    members: tuple[int, ...]


def find_units(transfers: Sequence[Transfer]) -> list[Unit]:
    """Restarts as one unit each, every other transfer as its own; by first member."""
    units: dict[str | int, list[int]] = {}
    for index, transfer in enumerate(transfers):
        units.setdefault(transfer.job if transfer.together else index, []).append(index)
    return [Unit(transfers[members[0]].job, tuple(members)) for members in units.values()]


def count_unstaged(landings: Sequence[int], room: int) -> int:
    """How many landings, given by slots ascending, fit into the slots free before the wave."""
    fitting = 0
    for slots in landings:
        room -= slots
        if room < 0:
            break
        fitting += 1
    return fitting


def total_by_node(transfers: Sequence[Transfer]) -> Mapping[str, int]:
    """Slots that land on each node in all."""
    landing: dict[str, int] = {}
    for transfer in transfers:
        landing[transfer.target] = landing.get(transfer.target, 0) + transfer.slots
    return landing
