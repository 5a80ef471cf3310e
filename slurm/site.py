"""What Slurm cannot tell about a site: uplinks, rails, what a slot is, how jobs are laid out.

A site file is YAML (docs/slurm.md, examples/slurm-site.yaml); :func:`monkeytree.slurm.site_reading.read_site`
reads it. Every member has a default, so that a first snapshot needs no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from monkeytree.snapshot import Fabric, Planning

from .jobs import SlurmJob

Profile = Literal["live", "requeue", "none"]
Uplinks = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopologySite:
    """Where racks come from.

    Attributes:
        file: a file (or, for LLDP, a folder); None asks ``scontrol show topology``.
        kind: one of the importers' kinds; None tells it from the file.
        levels: level keys from the top down; the last makes racks, the one above it pods.
        qualify: name racks by their whole path; None as the source needs it.
        interfaces: for LLDP, those that count.
        unknown: what becomes of nodes that the topology does not know: an error, or left out.
    """

    file: str | None = None
    kind: str | None = None
    levels: tuple[str, ...] = ()
    qualify: bool | None = None
    interfaces: tuple[str, ...] = ()
    unknown: Literal["error", "ignore"] = "error"


@dataclass(frozen=True, slots=True)
class UplinkSite:
    """Live uplinks of racks or pods: one number (or list of spines) for all, and the exceptions by id."""

    uplinks: Uplinks
    exceptions: Mapping[str, Uplinks] = field(default_factory=dict)

    def of(self, name: str) -> Uplinks:
        """Those of ``name``."""
        return self.exceptions.get(name, self.uplinks)


@dataclass(frozen=True, slots=True)
class NodeSite:
    """What nodes offer.

    Attributes:
        slots: ``gpus``: a slot is one generic resource ``gres``; ``whole``: a node is one slot;
            ``auto``: ``gpus`` where any node has some.
        classes: what tells node classes apart: ``partitions``, ``gres`` types, ``features``.
        draining: what a drained node becomes: ``drain`` (its workers must leave) or ``cordon``.
        ignore: nodes that are none of ours, such as login nodes.
    """

    slots: Literal["auto", "gpus", "whole"] = "auto"
    gres: str = "gpu"
    classes: tuple[str, ...] = ("partitions", "gres")
    draining: Literal["drain", "cordon"] = "drain"
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """How the workers of a job are laid out; None where nothing is said.

    Attributes:
        tp, pp, dp: degrees of tensor, pipeline and data parallelism, in GPUs.
        groups: replica groups as lists of workers, a worker being the index of its node in the job.
        orders: ring order of each of ``groups``, likewise.
    """

    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    rings: int | None = None
    state_gb: float | None = None
    traffic_gb: float | None = None
    iteration_s: float | None = None
    groups: tuple[tuple[int, ...], ...] | None = None
    orders: tuple[tuple[int, ...], ...] | None = None
    mobility: Literal["live", "restart", "none"] | None = None
    kind: Literal["ring", "tree", "all_to_all", "other"] | None = None

    def over(self, other: Layout) -> Layout:
        """This, with what it does not say taken from ``other``."""
        names = Layout.__slots__
        return Layout(**{name: _first(getattr(self, name), getattr(other, name)) for name in names})


def _first(one: Any, other: Any) -> Any:
    return other if one is None else one


@dataclass(frozen=True, slots=True)
class Rule:
    """A layout for the jobs that match all of ``match`` (shell patterns; every member a field of the job).

    ``ignore`` makes of them no jobs at all: what they hold is held.
    """

    match: Mapping[str, str]
    layout: Layout = Layout()
    ignore: bool = False

    def matches(self, job: SlurmJob) -> bool:
        """Whether ``job`` is one of them."""
        return all(fnmatchcase(str(getattr(job, name)), pattern) for name, pattern in self.match.items())


@dataclass(frozen=True, slots=True)
class JobSite:
    """How jobs move, and how their workers are laid out.

    Attributes:
        profile: ``live`` (expand and shrink, else requeue), ``requeue`` or ``none``.
        steps: ``check`` that each worker is a step of its own before calling a job live, or ``assume`` it.
        pin_batch_host: ``auto`` pins it in jobs that move live; ``always``, ``never``.
        environment: variable of the job's environment that says a degree, by member of :class:`Layout`;
            they are asked of slurmdbd (``AccountingStoreFlags=job_env``).
        remaining: ``time_limit`` takes the rest of a job's time limit as the time it has still to run, for
            predictions; an upper bound, so off unless users set their limits with care.
        layout: what holds where neither the job nor a rule says otherwise: pure data parallel.
    """

    profile: Profile = "live"
    steps: Literal["check", "assume"] = "check"
    pin_batch_host: Literal["auto", "always", "never"] = "auto"
    environment: Mapping[str, str] = field(default_factory=dict)
    remaining: Literal["unknown", "time_limit"] = "unknown"
    layout: Layout = Layout()
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class SlurmSite:
    """How Slurm is asked."""

    timeout_s: float = 20.0
    conf: str | None = None
    bin: str | None = None


@dataclass(frozen=True, slots=True)
class WatchSite:
    """How often it is asked.

    Attributes:
        interval_s: seconds between two looks at the cluster.
        floor_s: seconds between two looks at least, however often a hook calls.
        longest_s: seconds between two looks at most, while Slurm or the service does not answer.
    """

    interval_s: float = 30.0
    floor_s: float = 5.0
    longest_s: float = 300.0


@dataclass(frozen=True, slots=True)
class MoveSite:
    """How plans are carried out.

    Attributes:
        start_worker: command of the shell that starts a worker on its new node, where its job does not say.
        reconfigure: whether to run ``scontrol reconfigure`` after live moves, as Slurm 22.05 needs it.
        hold_s: seconds after which the reservation of a destination expires unless it is renewed.
        settle_s: seconds for what Slurm does in a moment: give a node, start a step, end a job's processes.
        start_s: seconds for a requeued job to run again.
        patience_s: seconds in which a controller that does not answer is waited for.
        state_s: seconds that the state command may take.
    """

    start_worker: str | None = None
    reconfigure: bool = True
    hold_s: float = 600.0
    settle_s: float = 60.0
    start_s: float = 180.0
    patience_s: float = 300.0
    state_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Site:
    """All of it.

    Attributes:
        cluster: name in snapshots; None takes Slurm's ClusterName.
        pods: uplinks of pods; None makes snapshots without pods.
        pending: whether snapshots list pending jobs.
    """

    cluster: str | None = None
    fabric: Fabric = field(default_factory=Fabric)
    topology: TopologySite = TopologySite()
    racks: UplinkSite = UplinkSite(8)
    pods: UplinkSite | None = None
    nodes: NodeSite = NodeSite()
    jobs: JobSite = JobSite()
    slurm: SlurmSite = SlurmSite()
    watch: WatchSite = WatchSite()
    moves: MoveSite = MoveSite()
    planning: Planning = field(default_factory=Planning)
    labels: Mapping[str, str] = field(default_factory=dict)
    pending: bool = False
