"""A schedule under improvement: waves of units, with what each node holds after every wave."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from .budget import Budget
from .model import Transfer, Unit, count_unstaged

PASSES = 3
WAVES_TRIED = 24
TRIALS_PER_UNIT = 60
GAP = 4

Cost = tuple[int, int, int]
"""(staged, (job, wave) pairs, waves): what is minimised, in this order."""


class Timeline:
    """Waves of the units of one cluster, changed by whole moves that never make it worse."""

    def __init__(self, transfers: Sequence[Transfer], free: Mapping[str, int]) -> None:
        self.transfers = transfers
        self.free = free
        self.wave: dict[Unit, int] = {}
        self._landings: dict[str, dict[int, list[int]]] = {}
        self._released: dict[str, dict[int, int]] = {}
        self._pairs: Counter[tuple[str, int]] = Counter()
        self._units_in: Counter[int] = Counter()
        self._staged: dict[str, int] = {}
        self._total_staged = 0

    @property
    def cost(self) -> Cost:
        """The cost of the schedule as it stands."""
        return self._total_staged, len(self._pairs), len(self._units_in)

    def place_all(self, waves: Mapping[Unit, int]) -> None:
        """Add units; together with what was added before they must be a valid schedule."""
        for unit, wave in waves.items():
            self._place(unit, wave)
        for unit in waves:
            for node in self._nodes(unit):
                staged = self._count_staged(node)
                if staged is None:
                    raise ValueError(f"node {node!r} holds more than its slots in these waves")
                self._note({node: staged})

    def improve(self, parts: Sequence[Sequence[Unit]], budget: Budget) -> None:
        """Bring transfers of one job into one wave, and waves together, where no more get staged."""
        for _ in range(PASSES):
            before = self.cost
            self._join_jobs(budget)
            self._join_waves(parts, budget)
            if self.cost == before or budget.checks <= 0:
                break

    def wander(self, budget: Budget) -> None:
        """Random changes (fixed seed) that stage no more and pause no job more often.

        Steps that gain nothing are taken too, also into new waves between the old ones: they make
        way for steps that gain.
        """
        choice = random.Random(0)
        units = list(self.wave)
        by_job: dict[str, list[Unit]] = {}
        for unit in units:
            by_job.setdefault(unit.job, []).append(unit)
        number = {wave: GAP * position for position, wave in enumerate(sorted(self._units_in))}
        for unit in units:
            wave = self.wave[unit]
            self._remove(unit)
            self._place(unit, number[wave])
        last = max(number.values()) + GAP
        for _ in range(TRIALS_PER_UNIT * len(units)):
            unit = choice.choice(units)
            source = self.wave[unit]
            others = sorted({self.wave[other] for other in by_job[unit.job]} - {source})
            target = choice.choice(others) if others and choice.random() < 0.5 else choice.randrange(last)
            moved = [unit]
            if choice.random() < 0.5:
                moved = [other for other in by_job[unit.job] if self.wave[other] == source]
            if target != source:
                self._try(moved, target, budget, level=True)

    def blocks(self) -> list[Unit]:
        """What runs of each job in each wave, as one unit."""
        blocks: dict[tuple[str, int], list[int]] = {}
        for unit, wave in self.wave.items():
            blocks.setdefault((unit.job, wave), []).extend(unit.members)
        return [Unit(job, tuple(members)) for (job, _), members in blocks.items()]

    def compact(self) -> dict[Unit, int]:
        """The wave of each unit, from 0 without gaps."""
        number = {wave: position for position, wave in enumerate(sorted(self._units_in))}
        return {unit: number[wave] for unit, wave in self.wave.items()}

    def _join_jobs(self, budget: Budget) -> None:
        by_job: dict[str, list[Unit]] = {}
        for unit in self.wave:
            by_job.setdefault(unit.job, []).append(unit)
        for units in by_job.values():
            for source, moved in self._by_wave(units):
                for target in sorted({self.wave[unit] for unit in units} - {source}):
                    if self._try(moved, target, budget):
                        break

    def _join_waves(self, parts: Sequence[Sequence[Unit]], budget: Budget) -> None:
        for units in [*parts, list(self.wave)]:
            for source, moved in self._by_wave(units):
                for target in sorted(self._units_in.keys() - {source})[:WAVES_TRIED]:
                    if self._try(moved, target, budget):
                        break

    def _by_wave(self, units: Sequence[Unit]) -> list[tuple[int, list[Unit]]]:
        """The units of each wave, ascending, as the waves are now."""
        waves: dict[int, list[Unit]] = {}
        for unit in units:
            waves.setdefault(self.wave[unit], []).append(unit)
        return sorted(waves.items(), key=lambda item: item[0])

    def _try(self, units: Sequence[Unit], wave: int, budget: Budget, *, level: bool = False) -> bool:
        """Move units to another wave if the schedule stays valid and gets better.

        With ``level``, also if it stages no more and has no more (job, wave) pairs.
        """
        if budget.checks <= 0:
            return False
        budget.checks -= len(units)
        before, old_waves = self.cost, [self.wave[unit] for unit in units]
        nodes = {node for unit in units for node in self._nodes(unit)}
        old_staged = {node: self._staged[node] for node in nodes}
        for unit in units:
            self._remove(unit)
            self._place(unit, wave)
        staged = {node: self._count_staged(node) for node in nodes}
        known = {node: count for node, count in staged.items() if count is not None}
        self._note(known)
        better = self.cost[:2] <= before[:2] if level else self.cost < before
        if len(known) == len(nodes) and better:
            return True
        for unit, old in zip(units, old_waves, strict=True):
            self._remove(unit)
            self._place(unit, old)
        self._note(old_staged)
        return False

    def _note(self, staged: Mapping[str, int]) -> None:
        for node, count in staged.items():
            self._total_staged += count - self._staged.get(node, 0)
            self._staged[node] = count

    def _count_staged(self, node: str) -> int | None:
        """Staged landings on a node over all waves; None where it holds too much after one."""
        landings, released = self._landings.get(node, {}), self._released.get(node, {})
        room, staged = self.free[node], 0
        for wave in sorted(landings.keys() | released.keys()):
            slots = landings.get(wave, [])
            if slots:
                staged += len(slots) - count_unstaged(sorted(slots), room)
            room += released.get(wave, 0) - sum(slots)
            if room < 0:
                return None
        return staged

    def _nodes(self, unit: Unit) -> list[str]:
        arcs = (self.transfers[member] for member in unit.members)
        return [node for arc in arcs for node in (arc.source, arc.target)]

    def _place(self, unit: Unit, wave: int) -> None:
        self.wave[unit] = wave
        self._pairs[unit.job, wave] += 1
        self._units_in[wave] += 1
        for arc in (self.transfers[member] for member in unit.members):
            self._landings.setdefault(arc.target, {}).setdefault(wave, []).append(arc.slots)
            released = self._released.setdefault(arc.source, {})
            released[wave] = released.get(wave, 0) + arc.slots

    def _remove(self, unit: Unit) -> None:
        wave = self.wave[unit]
        self._pairs[unit.job, wave] -= 1
        if not self._pairs[unit.job, wave]:
            del self._pairs[unit.job, wave]
        self._units_in[wave] -= 1
        if not self._units_in[wave]:
            del self._units_in[wave]
        for arc in (self.transfers[member] for member in unit.members):
            self._landings[arc.target][wave].remove(arc.slots)
            self._released[arc.source][wave] -= arc.slots
