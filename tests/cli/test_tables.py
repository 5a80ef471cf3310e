"""Plans as tables: what is trimmed says so, what is wrong is said."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

import monkeytree
from monkeytree.cli.tables import print_plan
from monkeytree.plan import Flow, Load, Plan, SharedUplink, Transient, Undrained, Unguaranteed, Unsteered

from .running import SEED_C


@pytest.fixture(scope="module")
def plan() -> Plan:
    return monkeytree.make_plan(monkeytree.load_snapshot(SEED_C))


def printed(plan: Plan, limit: int = 20) -> str:
    stream = StringIO()
    print_plan(Console(file=stream, width=200, force_terminal=False), plan, limit)
    return stream.getvalue()


def test_trimmed_tables_say_how_much_is_missing(plan: Plan) -> None:
    text = printed(plan, limit=3)
    assert f"… and {len(plan.flows) - 3} more" in text
    assert "1 rack before, 0 after" in text
    assert "more" not in printed(plan)


def test_what_is_not_as_wished_is_said(plan: Plan) -> None:
    flow = Flow("A", "0", 0, 0, 0, 1, "R1", "R2", None)
    pod_flow = Flow(
        "A", "0", 0, 0, 0, 1, "R1", "R2", 9, leaves_pod=True, udp_source_port=50_000, flow_label=848
    )
    worse = replace(
        plan,
        status="best_effort",
        excess=1,
        excess_proved=False,
        lower_bound=None,
        limited_by="time",
        undrained=(Undrained("A", "0", 0, "R1n0"),),
        racks={"R3": Load((2,), (3,), (3,))},
        flows=(flow, pod_flow),
        transients=(Transient("R1", 0, 0, 3),),
        shared_uplinks=(SharedUplink(0, "up", (0, 1), rack="R1", rail=0),),
        unguaranteed=(Unguaranteed("A", "0", "tree"),),
        unsteered=(Unsteered("polarised", (0,)),),
    )
    text = printed(worse)
    for words in (
        "excess 1 (not proved least), no lower bound",
        "limited by time",
        "1 worker cannot leave a draining node",
        "1 rack above the bound between waves",
        "1 uplink with more flows than fit",
        "isolation is not claimed for 1 tree",
        "1 flow cannot be steered: polarised",
        "50000",
        "none",
        "9 / core none",
    ):
        assert words in text


def test_names_with_brackets_are_names(plan: Plan) -> None:
    move = replace(plan.moves[0], job="[red]job[/red]", because=("pod:p1", "[x]"))
    text = printed(replace(plan, moves=(move,)))
    assert "[red]job[/red]" in text
    assert "pod:p1, [x]" in text
