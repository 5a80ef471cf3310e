"""Planning functions for the tests: what a plan says is not asked here, only how it comes about."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from monkeytree.errors import SolverFailed
from monkeytree.plan import Objective, Plan, SolverReport
from monkeytree.snapshot import Snapshot
from monkeytree.wire.snapshot import snapshot_id

#: A job with this label tells the planner what to do.
BEHAVIOUR = "test"


def behave(snapshot: Snapshot, *, previous: Plan | None = None, plan_id: str | None = None) -> Plan:
    """Do what the snapshot's label says: ``sleep:SECONDS``, ``kill``, ``kill-once:FILE``, ``fail``, ``bug``.

    ``child:FILE`` starts a process of its own, as solvers do, writes its id to the file and waits.
    """
    for order in filter(None, snapshot.labels.get(BEHAVIOUR, "").split(",")):
        verb, _, argument = order.partition(":")
        _obey(verb, argument)
    return Plan(
        id=plan_id or "-",
        snapshot_id=snapshot_id(snapshot),
        cluster=snapshot.cluster,
        created_at="2026-01-01T00:00:00Z",
        status="compliant",
        solver=SolverReport("none", "1", 0.01),
        moves_needed=0,
        lower_bound=0,
        undrained=(),
        excess=0,
        excess_proved=True,
        limited_by=None,
        jobs_paused=0,
        pause_s=0.0,
        objective=Objective("moves", 0, ties_proved=True),
        racks={},
        pods={},
        moves=(),
        rings=(),
        flows=(),
        certificate=None if previous is None else {"previous": previous.id},
    )


def _obey(verb: str, argument: str) -> None:
    match verb:
        case "sleep":
            time.sleep(float(argument))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "note":
            with Path(argument).open("a") as file:
                file.write("start\n")
        case "fail":
            raise SolverFailed(f"the solver said {argument!r}")
        case "bug":
            raise ZeroDivisionError(argument)
        case "child":
            child = subprocess.Popen(["sleep", "600"], preexec_fn=_die_with_parent)
            Path(argument).write_text(f"{os.getpid()} {child.pid}")
            child.wait()


def _die_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
