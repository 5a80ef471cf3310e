"""Is f_t the right thing to bound? 'Over its bound' against 'slowed at packet level', as a page section.

``python tools/isolation.py [LARGEST]`` replays every public instance and example of at most LARGEST
flows (default 800) before and after its plan and prints the confusion matrices as Markdown.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import monkeytree
from monkeytree.placement import sends
from monkeytree.snapshot import Snapshot
from monkeytree.validation.grouping import Buffers
from monkeytree.validation.profiles import resolve
from monkeytree.validation.replay import Replay, replay
from monkeytree.validation.runner import prepare, run_scenario
from monkeytree.validation.simulate import Simulator
from monkeytree.validation.traffic import Knobs
from monkeytree.validation.verdict import Run

ROOT = Path(__file__).parent.parent
PARAMS = {"profile": "dcqcn", "seed": 1}
KNOBS = Knobs(flow_bytes=4_000_000)
LARGEST = 800


@dataclass(frozen=True, slots=True)
class Sighting:
    """One placement, before or after its plan; k flows fit an uplink."""

    name: str
    when: str
    over: bool
    run: Run
    k: int


def main() -> int:
    """Print the section."""
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else LARGEST
    prepare()
    seen = list(sightings(largest))
    print("\n".join(section(seen, largest)))
    return 0


def sightings(largest: int) -> Iterator[Sighting]:
    """Every placement, before and after its plan."""
    files = [*(ROOT / "tests/data/instances").glob("*.json"), *(ROOT / "examples").glob("*.json")]
    for path in sorted({file.name: file for file in files if ".expect" not in file.name}.values()):
        snapshot = monkeytree.load_snapshot(path)
        if _flows(snapshot) > largest:
            continue
        plan = monkeytree.make_plan(snapshot)
        simulator = Simulator(run_scenario, PARAMS, Buffers.of(resolve(PARAMS)))
        found = replay(snapshot, plan, KNOBS, simulator)
        loads = (*plan.racks.values(), *plan.pods.values())
        before = any(f > bound for load in loads for f, bound in zip(load.before, load.bound, strict=True))
        k = snapshot.fabric.flows_per_uplink
        yield Sighting(path.stem, "before", before, _before(found), k)
        yield Sighting(path.stem, "after", plan.excess > 0, found.subject, k)


def _flows(snapshot: Snapshot) -> int:
    return sum(len(group.workers) * group.rings for _, group in snapshot.groups if sends(group))


def _before(found: Replay) -> Run:
    return next(run for run in found.controls if run.name == "before")


def section(seen: list[Sighting], largest: int) -> list[str]:
    """The section: matrices of placements and of leaves, and every exception."""
    placements = Counter((s.over, not s.run.isolated) for s in seen)
    leaves = Counter(leaf for s in seen for leaf in _leaves(s))
    flows = sum(len(s.run.crossing) for s in seen)
    odd = [s for s in seen if s.over == s.run.isolated]
    return [
        "## Is the bound on f_t the right one?",
        "",
        f"{len(seen) // 2} public instances and examples of at most {largest} flows, before and after their "
        f"plans: {flows} cross-rack flows of {KNOBS.flow_bytes // 10**6} MB, profile `dcqcn`.",
        "",
        "| placement | isolated | a flow is slowed |",
        "|---|---|---|",
        f"| no leaf or pod over its bound | {placements[False, False]} | {placements[False, True]} |",
        f"| some leaf or pod over | {placements[True, False]} | {placements[True, True]} |",
        "",
        "By leaf (flows that leave or enter it); some flows are slowed because their other end is over.",
        "",
        "| leaf | no flow slowed | slowed, other end over | slowed, both ends within |",
        "|---|---|---|---|",
        f"| within | {leaves[False, 'free']} | {leaves[False, 'other']} | {leaves[False, 'own']} |",
        f"| over | {leaves[True, 'free']} | {leaves[True, 'other']} | {leaves[True, 'own']} |",
        "",
        *(f"- {s.name}, {s.when}: {'; '.join(s.run.reasons) or 'over, but isolated'}" for s in odd),
    ]


def _leaves(seen: Sighting) -> Iterator[tuple[bool, str]]:
    """For each leaf with flows: is it over its bound, and why are flows of it slowed?"""
    run = seen.run
    leaving = Counter(verdict.flow.source for verdict in run.crossing)
    network = run.traffic.network
    over = {leaf for leaf, flows in leaving.items() if flows > len(network.spines[leaf[0]]) * seen.k}
    for leaf in leaving:
        ends = [(v.flow.source, v.flow.target) for v in run.crossing if not v.isolated]
        others = [pair[1] if pair[0] == leaf else pair[0] for pair in ends if leaf in pair]
        if not others:
            yield leaf in over, "free"
        elif all(other in over for other in others):
            yield leaf in over, "other"
        else:
            yield leaf in over, "own"


if __name__ == "__main__":
    sys.exit(main())
