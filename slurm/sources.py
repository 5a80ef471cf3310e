"""Where a reading comes from: Slurm's commands, slurmrestd, or files of their answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import answers
from .build import Reading, now
from .client import SlurmClient
from .errors import refuse_topology
from .jobs import SlurmJob, read_jobs
from .nodes import read_nodes
from .rest import RestClient
from .site import Site
from .steps import Steps, read_steps
from .topology import Topology, read_topology, read_topology_file

TOPOLOGY_LASTS_S = 600.0
"""Seconds after which the live topology is asked for anew; at once where a node is missing in it."""
NO_TOPOLOGY = (
    "this cluster has none (TopologyPlugin=topology/none or flat): say racks in a file, "
    "`topology.file` of the site file or --topology"
)


def client_for(site: Site) -> SlurmClient:
    """The commands as the site file says."""
    return SlurmClient(site.slurm.timeout_s, site.slurm.conf, site.slurm.bin)


def wants_steps(site: Site) -> bool:
    """Whether mobility depends on the layout of steps."""
    return site.jobs.profile == "live" and site.jobs.steps == "check"


@dataclass
class LiveSource:
    """Reads a running cluster by Slurm's commands.

    A reading costs ``squeue`` and ``sinfo``, with profile ``live`` ``squeue --steps``; the topology is
    kept for :data:`TOPOLOGY_LASTS_S`, a job's environment and the cluster's name for good.
    """

    site: Site
    client: SlurmClient
    clock: Callable[[], float] = time.monotonic
    _topology: tuple[float, Topology] | None = None
    _environments: dict[int, dict[str, str]] = field(default_factory=dict)
    _cluster: str | None = None

    def read(self) -> Reading:
        """One reading.

        Raises:
            SlurmFailed, InvalidAnswer, InvalidTopology, OSError.
        """
        told = self.client.jobs()
        taken_at = now()
        jobs, nodes = read_jobs(told), read_nodes(self.client.nodes())
        names = [node.name for node in nodes if node.name not in self.site.nodes.ignore]
        return Reading(
            jobs=jobs,
            nodes=nodes,
            topology=self._read_topology(names),
            cluster=self.cluster(told),
            steps=self._steps(),
            environments=self._read_environments(jobs),
            taken_at=taken_at,
        )

    def cluster(self, told: Any = None) -> str | None:
        """The cluster's name: the site's, that of an answer, or ClusterName of the configuration."""
        self._cluster = self._cluster or self.site.cluster or answers.cluster_of(told)
        if self._cluster is None:
            self._cluster = self.client.config().get("ClusterName")
        return self._cluster

    def _steps(self) -> Steps | None:
        return read_steps(self.client.steps()) if wants_steps(self.site) else None

    def _read_topology(self, names: list[str]) -> Topology:
        if self._topology is not None:
            read_at, topology = self._topology
            fresh = self.clock() - read_at < TOPOLOGY_LASTS_S
            if fresh and all(name in topology.nodes for name in names):
                return topology
        topology = site_topology(self.site) or live_topology(self.client)
        self._topology = (self.clock(), topology)
        return topology

    def _read_environments(self, jobs: tuple[SlurmJob, ...]) -> dict[int, dict[str, str]]:
        if not self.site.jobs.environment:
            return {}
        running = {job.job_id for job in jobs if job.running and job.batch}
        self._environments = {job: known for job, known in self._environments.items() if job in running}
        for job in sorted(running - self._environments.keys()):
            self._environments[job] = self.client.job_environment(job)
        return self._environments


def site_topology(site: Site) -> Topology | None:
    """The topology of the site's file, None where it names none.

    Raises:
        InvalidTopology, OSError.
    """
    wanted = site.topology
    if wanted.file is None:
        return None
    return read_topology_file(Path(wanted.file), wanted.kind, wanted.interfaces)


def live_topology(client: SlurmClient) -> Topology:
    """What ``scontrol show topology`` says.

    Raises:
        InvalidTopology: nothing.
        SlurmFailed: it refuses.
    """
    text = client.topology()
    if "=" not in text:
        raise refuse_topology("scontrol show topology", NO_TOPOLOGY, text.strip()[:80])
    return read_topology(text, "slurm", source="scontrol show topology")


@dataclass
class RestSource:
    """Reads a running cluster through slurmrestd; the topology must come from the site's file."""

    site: Site
    client: RestClient

    def read(self) -> Reading:
        """One reading.

        Raises:
            SlurmFailed, InvalidAnswer, InvalidTopology, OSError.
        """
        topology = site_topology(self.site)
        if topology is None:
            raise refuse_topology(
                "topology", "slurmrestd does not tell it: name a file with --topology or topology.file"
            )
        told = self.client.jobs()
        taken_at = now()
        cluster = self.site.cluster or answers.cluster_of(told)
        return Reading(read_jobs(told), read_nodes(self.client.nodes()), topology, cluster, taken_at=taken_at)


def read_files(
    site: Site,
    squeue: Path,
    sinfo: Path,
    topology: Path | None = None,
    steps: Path | None = None,
    taken_at: str | None = None,
) -> Reading:
    """A reading from files: ``squeue --json``, ``sinfo --json``, a topology, and ``squeue --steps``.

    Raises:
        InvalidAnswer, InvalidTopology: naming the field.
        OSError: a file cannot be read.
    """
    told = answers.parse(squeue.read_bytes(), squeue.name)
    found = (
        read_topology_file(topology, site.topology.kind, site.topology.interfaces)
        if topology
        else site_topology(site)
    )
    if found is None:
        raise refuse_topology("topology", "name a file with --topology or topology.file of the site file")
    nodes = answers.parse(sinfo.read_bytes(), sinfo.name)
    return Reading(
        jobs=read_jobs(told),
        nodes=read_nodes(nodes),
        topology=found,
        cluster=site.cluster or answers.cluster_of(told) or answers.cluster_of(nodes),
        steps=read_steps(steps.read_text("utf-8", "replace")) if steps else None,
        taken_at=taken_at or now(),
    )
