"""Figure 13: migrations and slowdown over the threshold; and the rule that weighs benefit against pause."""

from __future__ import annotations

from typing import Any

from ..setup import Setup
from ..triggers import worthwhile
from .drawing import COLOURS, theirs
from .figure import Figure, Find, Row, Sample, found, load_seed
from .measure import averaged, mean, p99, pooled
from .published import published

THRESHOLDS = (2, 3, 4, 5, 6, 7, 8)
UPLINKS = 4
FEWER, SLOWER = 0.45, 0.002
"""What the rule is held to: so many migrations fewer than at threshold 2, at so much higher mean slowdown."""


def _setup(sample: Sample, repetition: int, **members: Any) -> Setup:
    return Setup(
        spines=UPLINKS,
        mix="one-ring",
        jobs=sample.jobs,
        compress=sample.compress,
        seed=load_seed(1.0, repetition),
        **members,
    )


def point(threshold: int, sample: Sample) -> list[Setup]:
    """All repetitions at a threshold."""
    return [_setup(sample, r, threshold=threshold) for r in range(1, sample.repetitions + 1)]


def ruled(sample: Sample) -> list[Setup]:
    """All repetitions under the rule, at the bound of the uplinks."""
    return [_setup(sample, r, trigger=worthwhile) for r in range(1, sample.repetitions + 1)]


def setups(sample: Sample) -> list[Setup]:
    """Thresholds 2 and 4 and the rule first."""
    order = (2, 4, None, 3, 8, 5, 6, 7)
    return [setup for one in order for setup in (ruled(sample) if one is None else point(one, sample))]


def rows(sample: Sample, find: Find) -> list[Row]:
    """Migrations, mean and p99 at every threshold, then under the rule."""
    table = []
    for threshold in THRESHOLDS:
        migrations, *slowdowns = published("fig13")["thresholds"][str(threshold)]
        runs = found(point(threshold, sample), find)
        where = (f"threshold {threshold}",)
        ours = averaged([float(run.summary["migrations"]) for run in runs])
        table.append(Row(where, "migrations", ours, migrations))
        table.append(Row(where, "mean", pooled(runs, mean), slowdowns[0]))
        table.append(Row(where, "p99", pooled(runs, p99), slowdowns[1]))
    runs = found(ruled(sample), find)
    where = ("worthwhile",)
    table.append(Row(where, "migrations", averaged([float(r.summary["migrations"]) for r in runs]), None))
    table.append(Row(where, "mean", pooled(runs, mean), None))
    table.append(Row(where, "p99", pooled(runs, p99), None))
    return table


def rule_against_two(sample: Sample, find: Find) -> tuple[float, float] | None:
    """(part of threshold 2's migrations that the rule saves, mean slowdown it adds), over the same seeds."""
    two, rule = found(point(2, sample), find), found(ruled(sample), find)
    if len(two) != len(rule) or not two:
        return None
    fewer = 1 - sum(r.summary["migrations"] for r in rule) / sum(r.summary["migrations"] for r in two)
    slow, slow_two = pooled(rule, mean), pooled(two, mean)
    assert slow is not None
    assert slow_two is not None
    return fewer, slow.value - slow_two.value


def draw(picture: Any, sample: Sample, find: Find) -> None:
    """Migrations (bars) and mean slowdown (line) by threshold; the rule on the right."""
    axes = picture.subplots()
    slow = axes.twinx()
    places = [*THRESHOLDS, THRESHOLDS[-1] + 1]
    runs = {threshold: found(point(threshold, sample), find) for threshold in THRESHOLDS}
    runs[places[-1]] = found(ruled(sample), find)
    for at in places:
        colour = COLOURS["monkeytree"] if at in THRESHOLDS else COLOURS["sglb"]
        ours = averaged([float(run.summary["migrations"]) for run in runs[at]])
        if ours is not None:
            axes.bar(at, ours.value, 0.7, color=colour, alpha=0.7, yerr=ours.half_width, capsize=2)
    for threshold in THRESHOLDS:
        migrations, slowdown, _ = published("fig13")["thresholds"][str(threshold)]
        theirs(axes, threshold - 0.2, migrations, COLOURS["monkeytree"])
        theirs(slow, threshold + 0.2, slowdown)
    for part in (THRESHOLDS, places[-1:]):
        known = [(at, estimate.value) for at in part if (estimate := pooled(runs[at], mean)) is not None]
        slow.plot([at for at, _ in known], [value for _, value in known], "ko-", lw=1, markersize=4)
    axes.set(ylabel="migrations a repetition (bars; diamonds: the authors)", ylim=(0, None))
    slow.set(ylabel="mean slowdown (points; diamonds: the authors)")
    slow.grid(visible=False)
    axes.set_xticks(places, [*(f"threshold {at}" for at in THRESHOLDS), "worthwhile"], fontsize=8)


FIGURE = Figure(
    name="fig13",
    title="Figure 13: migrations and slowdown over the threshold",
    columns=("rule",),
    samples={"quick": Sample(1, 120, 20), "stated": Sample(3, 1000, 10), "paper": Sample(5, 2400)},
    setups=setups,
    rows=rows,
    draw=draw,
    remarks=(
        "The authors name neither uplinks nor job mix. That no rack ever exceeds 8 flows although it holds 8 "
        "servers says that each job counts as one ring there, however many it has in Figure 6; the cliff "
        f"between thresholds 4 and 5 then says {UPLINKS} uplinks a rack. So this is run: the jobs of Figure "
        "6, each with a single ring. A migration here is a server moved; what theirs counts is not said.",
    ),
)
