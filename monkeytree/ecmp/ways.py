"""Which uplinks stand to choice at each stage of a way, and where a hash sends a packet.

A leaf chooses among the live spines from which the target leaf can be reached; with pods the spine
then chooses among the cores that lead on to it. Choices are numbered in ascending order of spine or
core, as routing daemons list equal next hops. All the way down there is one way (pod uplink c leads
from spine c mod S to core c, docs/contract.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from monkeytree.fabric_hash import FabricHash, HashStage
from monkeytree.snapshot import Rack, Snapshot

from .stage import Packet, choose, hash_value, seeded

Way = tuple[int, int | None]
"""(spine, core); the core is None inside a pod."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A stage that chooses: the hash of that very switch, and what it chooses among."""

    stage: HashStage
    uplinks: tuple[int, ...]


class Ways:
    """The choices between the leaves of a snapshot.

    Args:
        snapshot: its racks and pods.
        dead: uplinks left out, as (rack id, spine).
    """

    def __init__(self, snapshot: Snapshot, dead: Iterable[tuple[str, int]] = ()) -> None:
        gone = set(dead)
        self._pod_of = {rack.id: rack.pod for rack in snapshot.racks}
        self._spines = {
            rack.id: tuple(spine for spine in rack.spines if (rack.id, spine) not in gone)
            for rack in snapshot.racks
        }
        self._uplinks = {pod.id: pod.uplinks for pod in snapshot.pods}
        self._pod_spines = pod_spines(snapshot.racks)

    def spines(self, source: str, target: str) -> tuple[int, ...]:
        """Spines the leaf of rack ``source`` chooses among on the way to ``target``."""
        own, other = self._spines[source], self._spines[target]
        if not self.leaves_pod(source, target):
            return _shared(own, other)
        return tuple(sorted(_cores(own, other, *self._between(source, target))))

    def cores(self, source: str, target: str, spine: int) -> tuple[int, ...]:
        """Cores that ``spine`` of the pod of ``source`` chooses among; none inside a pod."""
        if not self.leaves_pod(source, target):
            return ()
        own, other = self._spines[source], self._spines[target]
        return _cores(own, other, *self._between(source, target)).get(spine, ())

    def leaves_pod(self, source: str, target: str) -> bool:
        """Whether the way between two racks leaves the pod."""
        return self._pod_of[source] != self._pod_of[target]

    def choices(self, hash_: FabricHash, source: str, target: str, rail: int, spine: int) -> list[Choice]:
        """The stages that choose on a way by ``spine``: the leaf, and between pods the spine."""
        assert hash_.leaf is not None, "a learned table has no stages"
        leaf = seeded(hash_.leaf, hash_.leaf_seeds.get(f"{source}/{rail}") if hash_.leaf_seeds else None)
        found = [Choice(leaf, self.spines(source, target))]
        if self.leaves_pod(source, target):
            at = f"{self._pod_of[source]}/{spine}"
            stage = seeded(hash_.pod or hash_.leaf, hash_.pod_seeds.get(at))
            found.append(Choice(stage, self.cores(source, target, spine)))
        return found

    def way(self, hash_: FabricHash, packet: Packet, source: str, target: str, rail: int) -> Way | None:
        """Where the hashes send ``packet``, None where no live way leads to the target."""
        spines = self.spines(source, target)
        if not spines:
            return None
        leaf = self.choices(hash_, source, target, rail, spines[0])[0]
        spine = spines[choose(leaf.stage, hash_value(leaf.stage, packet), len(spines))]
        if not self.leaves_pod(source, target):
            return spine, None
        second = self.choices(hash_, source, target, rail, spine)[1]
        at = choose(second.stage, hash_value(second.stage, packet), len(second.uplinks))
        return spine, second.uplinks[at]

    def _between(self, source: str, target: str) -> tuple[int, int, int]:
        """S of both pods, and how many cores both have an uplink to."""
        pods = str(self._pod_of[source]), str(self._pod_of[target])
        up, down = (self._pod_spines.get(pod, 0) for pod in pods)
        return up, down, min(self._uplinks.get(pod, 0) for pod in pods) if up and down else 0


def pod_spines(racks: Iterable[Rack]) -> dict[str, int]:
    """S of each pod: 1 + the largest spine number of its racks."""
    spines: dict[str, int] = {}
    for rack in racks:
        if rack.pod is not None and rack.spines:
            spines[rack.pod] = max(spines.get(rack.pod, 0), rack.spines[-1] + 1)
    return spines


@lru_cache(maxsize=4096)
def _shared(own: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    there = set(other)
    return tuple(spine for spine in own if spine in there)


@lru_cache(maxsize=4096)
def _cores(
    own: tuple[int, ...], other: tuple[int, ...], up: int, down: int, reach: int
) -> dict[int, tuple[int, ...]]:
    """The cores from each spine of ``own`` that lead to one of ``other``."""
    mine, theirs = set(own), set(other)
    found: dict[int, list[int]] = {}
    for core in range(reach):
        if core % up in mine and core % down in theirs:
            found.setdefault(core % up, []).append(core)
    return {spine: tuple(cores) for spine, cores in found.items()}
