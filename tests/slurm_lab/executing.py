"""What the tests of ``monkeytree slurm execute`` share: jobs out of place, plans, runs, crashes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import monkeytree
from monkeytree.identity import dump_snapshot
from monkeytree.plan import Plan
from monkeytree.slurm.build import build_snapshot
from monkeytree.slurm.hostlist import expand
from monkeytree.slurm.site_reading import read_site
from monkeytree.slurm.sources import LiveSource
from monkeytree.slurm.steps import read_steps
from monkeytree.snapshot import Snapshot

from .lab import Lab, eventually

WRAPPER = """#!/bin/sh
# {command} of Slurm: what changes something ends its caller, once before the call and once after it.
case "$*" in {reading}) exec {real} "$@";; esac
calls={folder}/calls
call="{command} $*"
if ! grep -qxF "before $call" $calls; then echo "before $call" >>$calls; kill -9 $PPID; exit 1; fi
after=; grep -qxF "after $call" $calls || {{ after=1; echo "after $call" >>$calls; }}
{body}
"""
AFTER = '{real} "$@"; rc=$?; [ -z "$after" ] || kill -9 $PPID; exit $rc'
STAYS = '[ -z "$after" ] || kill -9 $PPID; exec {real} "$@"'


@dataclass
class Case:
    """A plan of a cluster, in files, and how it is carried out."""

    lab: Lab
    folder: Path
    snapshot: Snapshot
    plan: Plan
    bin: Path | None = None

    @property
    def jobs(self) -> set[int]:
        """Jobs that move."""
        return {int(move.job) for move in self.plan.moves}

    def command(self, *options: str) -> list[str]:
        """The command line."""
        return [
            sys.executable, "-m", "monkeytree.cli", "slurm", "execute", "plan.json", "snapshot.json",
            "--site", "site.yaml", "--journal", "journal.jsonl", *options,
        ]  # fmt: skip

    def execute(self, *options: str, limit_s: float = 150) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            self.command(*options), cwd=self.folder, capture_output=True, text=True, timeout=limit_s,
            check=False, stdin=subprocess.DEVNULL, env=self.lab.environment,
        )  # fmt: skip

    def crash_until_done(self, *options: str, most: int = 60) -> list[str]:
        """Kill it at each command that changes something, before it and after it; these commands."""
        self.crashing()
        for _ in range(most):
            done = self.execute(*options)
            if done.returncode != -9:
                break
        calls = self.calls()
        assert done.returncode == 0, (done.stderr, calls[-5:])
        return calls

    def calls(self) -> list[str]:
        """Where it was killed."""
        assert self.bin is not None
        return (self.bin / "calls").read_text().splitlines()

    def crashing(self) -> None:
        """Put wrappers in front of Slurm's commands."""
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        (self.bin / "calls").touch()
        for command in ("squeue", "sinfo", "scontrol", "salloc", "scancel", "srun", "sacct"):
            real = shutil.which(command)
            assert real is not None
            reading = {"scontrol": "show*|--oneliner*|ping*", "salloc": "''", "srun": "''", "scancel": "''"}
            body = (STAYS if command == "srun" else AFTER).format(real=real)
            file = self.bin / command
            file.write_text(
                WRAPPER.format(
                    command=command, reading=reading.get(command, "*"), real=real, folder=self.bin, body=body
                )
            )
            file.chmod(0o755)
        write_site(self.lab, self.folder, bin=str(self.bin))

    def journal(self) -> list[dict[str, Any]]:
        """Its entries."""
        return [json.loads(line) for line in (self.folder / "journal.jsonl").read_text().splitlines()]


def write_site(lab: Lab, folder: Path, **slurm: Any) -> None:
    """A site file that starts a worker which only sleeps."""
    document = {
        **SITE,
        "slurm": {"timeout_s": 20, "conf": lab.conf, **slurm},
        "moves": {"start_worker": "exec sleep 600"},
    }
    (folder / "site.yaml").write_text(json.dumps(document))


SITE: dict[str, Any] = {"racks": {"uplinks": 2}}


def snapshot_of(lab: Lab, **site: Any) -> Snapshot:
    """A snapshot of the cluster as it is."""
    where = read_site({**SITE, **site})
    found: Snapshot = build_snapshot(LiveSource(where, lab.client).read(), where).snapshot
    return found


def planned(lab: Lab, folder: Path, **site: Any) -> Case:
    """A plan for the cluster as it is, by the library."""
    snapshot = snapshot_of(lab, **site)
    plan = monkeytree.make_plan(snapshot)
    assert monkeytree.check(snapshot, plan) == []
    (folder / "snapshot.json").write_text(json.dumps(dump_snapshot(snapshot)))
    (folder / "plan.json").write_text(json.dumps(monkeytree.dump_plan(plan)))
    write_site(lab, folder)
    return Case(lab, folder, snapshot, plan)


def place(lab: Lab, nodes: dict[str, str], *options: str, exclusive: bool = True) -> dict[str, int]:
    """Submit jobs onto these nodes, one step a worker, and wait for their steps; ids by name."""
    shape = ("--exclusive",) if exclusive else ()
    jobs = {name: lab.submit(name, where, *shape, *options) for name, where in nodes.items()}
    lab.running(list(jobs.values()))
    return jobs


def nodes_of(lab: Lab, job: int) -> set[str]:
    """Nodes that it is on."""
    return set(expand(lab.states()[job][1]))


def steps_of(lab: Lab) -> set[tuple[str, str]]:
    """Each step of a worker, and its node."""
    found = set()
    for line in lab.client.steps().splitlines():
        step, _, node = line.partition("|")
        if step.rpartition(".")[2].isdecimal():
            found.add((step, node))
    return found


def one_step_a_node(lab: Lab, jobs: Sequence[int]) -> bool:
    """Whether every node of these jobs has one step, not two, and no step is elsewhere."""
    steps = read_steps(lab.client.steps())
    return all(
        sorted(node for nodes in steps.get(str(job), ()) for node in nodes) == sorted(nodes_of(lab, job))
        for job in jobs
    )


def nothing_is_left(lab: Lab, jobs: Sequence[int]) -> None:
    """No donor, no reservation, and no node taken but those of ``jobs``, each of which runs."""
    assert eventually(lambda: set(lab.states()) == set(jobs)), lab.states()
    told = lab.client.run("scontrol", "--oneliner", "show", "reservation")
    assert "ReservationName" not in told
    assert all(state == "RUNNING" for state, _ in lab.states().values())
    taken = sum(len(nodes_of(lab, job)) for job in jobs)
    assert eventually(lambda: lab.idle() == lab.nodes - taken), lab.client.run("sinfo")


def complies(lab: Lab, **site: Any) -> bool:
    """Whether a plan for the cluster as it is moves nothing."""
    return monkeytree.make_plan(snapshot_of(lab, **site)).status == "compliant"
