"""What a set-up must be like to be simulated, and the fabric and jobs that it names."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from typing import get_args

from .fabrics import Fabric, FabricName, LeafSpine, Pods, Rails
from .mix import GPUS_PER_BLOCK, MIXES, JobType
from .scheduling import SchedulerName
from .setup import BadSetup, Queue, Setup
from .systems import SYSTEMS
from .traces import TraceJob, draw_trace, size_fault

_LARGEST = 2**20
"""Of GPUs and switches: a slip of the hand would not end otherwise."""
_MOST = 1e6
"""Of seconds and 10^9 bytes that a move costs, and of Gb/s: as in a snapshot."""


def check_setup(setup: Setup) -> None:
    """Whether every member of ``setup`` is one that can be simulated, each for itself.

    Raises:
        BadSetup: the first that is not.
    """
    _choose("system", setup.system, SYSTEMS)
    _choose("job mix", setup.mix, MIXES)
    _choose("scheduler", setup.scheduler, get_args(SchedulerName))
    _choose("queue", setup.queue, get_args(Queue))
    _choose("fabric", setup.fabric, get_args(FabricName))
    for name in ("gpus", "gpus_per_rack", "spines", "racks_per_pod", "cores", "compress"):
        if getattr(setup, name) < 1:
            raise BadSetup(f"{name} must be at least 1, not {getattr(setup, name)}")
    for name in ("gpus", "spines", "cores"):
        if getattr(setup, name) > _LARGEST:
            raise BadSetup(f"{name} must be at most {_LARGEST:,}, not {getattr(setup, name)}")
    if setup.threshold is not None and setup.threshold < 0:
        raise BadSetup(f"threshold must be at least 0, not {setup.threshold}")
    if not (math.isfinite(setup.load) and setup.load > 0):
        raise BadSetup(f"load must be a finite number above 0, not {setup.load}")
    for name, rate in (("nic_gbps", setup.nic_gbps), ("uplink_gbps", setup.uplink_gbps)):
        if not 0 < rate <= _MOST:
            raise BadSetup(f"{name} must be above 0 and at most {_MOST:,.0f}, not {rate}")
    for name, cost in (("pause_s", setup.migration.pause_s), ("state_gb", setup.migration.state_gb)):
        if cost is not None and not 0 <= cost <= _MOST:
            raise BadSetup(f"{name} must be from 0 to {_MOST:,.0f}, not {cost}")


def _choose(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise BadSetup(f"no {what} {name!r}; there are {', '.join(known)}")


def jobs_of(setup: Setup) -> tuple[TraceJob, ...]:
    """The jobs of a set-up by arrival: those of its trace, or as many drawn.

    Raises:
        BadSetup: there is none, or one that cannot run on the cluster.
    """
    mix = MIXES[setup.mix]
    if setup.trace is None:
        trace = draw_trace(
            mix, gpus=setup.gpus, load=setup.load, jobs=setup.jobs, seed=setup.seed, nic_gbps=setup.nic_gbps
        )
    else:
        trace = tuple(sorted(setup.trace, key=lambda job: job.arrival_us))
    if not trace:
        raise BadSetup("there is no job to simulate")
    for job in trace:
        _check_job(job, job.own or mix.get(job.type), setup)
    return trace


def _check_job(job: TraceJob, kind: JobType | None, setup: Setup) -> None:
    which = f"the job that arrives at {job.arrival_us} us ({job.type})"
    if kind is None:
        raise BadSetup(f"{which} has a type that the mix {setup.mix!r} lacks")
    if job.gpus > setup.gpus:
        raise BadSetup(f"{which} needs {job.gpus} GPUs; the cluster has {setup.gpus}")
    fault = size_fault(kind, job.gpus)
    if fault is not None:
        raise BadSetup(f"{which}: {fault}")
    if job.arrival_us < 0 or job.iterations < 1:
        raise BadSetup(f"{which} has {job.iterations} iterations; arrivals are from 0, iterations from 1")


def build_fabric(setup: Setup) -> Fabric:
    """The fabric that a set-up names.

    Raises:
        BadSetup: its numbers do not fit together.
    """
    per_rack, remainder = divmod(setup.gpus_per_rack, GPUS_PER_BLOCK)
    if remainder or per_rack < 1:
        raise BadSetup(f"gpus_per_rack must be a multiple of {GPUS_PER_BLOCK}, not {setup.gpus_per_rack}")
    racks, remainder = divmod(setup.gpus, setup.gpus_per_rack)
    if remainder or racks < 1:
        raise BadSetup(
            f"{setup.gpus} GPUs do not fill racks of {setup.gpus_per_rack}: "
            "gpus must be a multiple of gpus_per_rack"
        )
    for rack, spine in sorted(setup.failed):
        if not (0 <= rack < racks and 0 <= spine < setup.spines):
            raise BadSetup(
                f"no uplink {rack}:{spine} can fail: "
                f"racks are 0 to {racks - 1}, spines 0 to {setup.spines - 1}"
            )
    if setup.fabric == "pods":
        pods, remainder = divmod(racks, setup.racks_per_pod)
        if remainder or pods < 1:
            raise BadSetup(f"{racks} racks do not fill pods of {setup.racks_per_pod}")
        found: Fabric = Pods(
            pods, setup.racks_per_pod, per_rack, setup.spines, setup.cores, setup.uplink_gbps, setup.failed
        )
    else:
        build = Rails if setup.fabric == "rails" else LeafSpine
        found = build(racks, per_rack, setup.spines, setup.uplink_gbps, setup.failed)
    if setup.failed:
        _check_paths(found)
    return found


def _check_paths(fabric: Fabric) -> None:
    """Jobs go wherever there is room, so all racks must reach each other."""
    gpus = fabric.blocks_per_rack * GPUS_PER_BLOCK
    for here, there in combinations(range(fabric.racks), 2):
        for one, other in ((here, there), (there, here)):
            ends = fabric.ends(one * gpus, other * gpus)
            if ends is not None and not fabric.choices(*ends):
                raise BadSetup(f"racks {here} and {there} share no live path: leave them a spine in common")
