"""What makes it fast changes no result: every link followed, no leaps, no bundles give the same rows."""

from __future__ import annotations

import pytest

from monkeytree.simulation import Setup, simulate
from monkeytree.simulation.execution import Execution
from monkeytree.simulation.running import Running


@pytest.mark.parametrize("system", ["ecmp", "perfect", "monkeytree"])
def test_the_long_way_gives_the_same(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(system=system, gpus=256, gpus_per_rack=64, spines=8, jobs=45, seed=5, compress=100)
    fast = simulate(setup)

    def every_link(self: Execution, link: int, flows: int) -> bool:
        return True

    def event_by_event(self: Execution, job: Running, now: int) -> None:
        self._begin(job, now)

    monkeypatch.setattr(Execution, "_is_hot", every_link)
    monkeypatch.setattr(Execution, "proceed", event_by_event)
    slow = simulate(setup)
    assert slow.summary["iterations_followed"] > fast.summary["iterations_followed"]
    assert slow.jobs == fast.jobs
    if system != "monkeytree":
        assert any(row.slowdown > 1 for row in fast.jobs)
