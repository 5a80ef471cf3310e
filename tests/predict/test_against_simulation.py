"""Predicted slowdowns beside those of the flow-level simulator, which follows every flow."""

from __future__ import annotations

from bisect import bisect_left
from statistics import fmean

import pytest

from monkeytree.plan import Plan
from monkeytree.predict import slowdowns
from monkeytree.simulation import Result, Setup, simulate
from monkeytree.snapshot import Snapshot


def congested(**members: object) -> tuple[Result, list[dict[str, float]]]:
    """A run in which plans are made and none is carried out, and what was predicted at each."""
    predicted: list[dict[str, float]] = []

    def refuse(snapshot: Snapshot, _: Plan) -> bool:
        predicted.append(slowdowns(snapshot))
        return False

    setup = Setup(system="monkeytree", compress=20, trigger=refuse, **members)
    return simulate(setup), predicted


def over_its_life(result: Result, predicted: list[dict[str, float]]) -> list[tuple[float, float]]:
    """(predicted, simulated) slowdown of each job: predictions hold until the next job starts or ends."""
    said = dict(zip((plan.time_us for plan in result.plans), predicted, strict=True))
    events = sorted({time for job in result.jobs for time in (job.start_us, job.end_us)})
    pairs = []
    for job in result.jobs:
        work, at = 0.0, bisect_left(events, job.start_us)
        while events[at] < job.end_us:
            slowed = said.get(events[at], {}).get(f"j{job.id}", 1.0)
            work += (events[at + 1] - events[at]) / slowed
            at += 1
        pairs.append(((job.end_us - job.start_us) / work, job.slowdown))
    return pairs


@pytest.mark.parametrize(
    ("mix", "spines", "load"), [("paper", 16, 1.3), ("one-ring", 2, 1.3)], ids=["rings of 8", "single rings"]
)
def test_predictions_are_of_the_right_size(mix: str, spines: int, load: float) -> None:
    pairs = over_its_life(*congested(gpus=256, jobs=250, mix=mix, spines=spines, load=load))
    excess, actual = (fmean(pair[side] - 1 for pair in pairs) for side in (0, 1))
    assert actual > 0.005  # there is something to predict
    assert 0.65 < excess / actual < 1.2
    apart = [(said, was) for said, was in pairs if was > 1.05]
    calm = [said for said, was in pairs if was < 1.001]
    assert fmean(said for said, _ in apart) > fmean(calm) + 0.01
