"""A site file, read and checked whole: every offence by its path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from monkeytree import limits
from monkeytree.errors import Offence
from monkeytree.limits import is_name
from monkeytree.snapshot import Fabric, Planning, Routing

from .errors import InvalidSite, offence, refuse_site
from .site import (
    JobSite,
    Layout,
    MoveSite,
    NodeSite,
    Rule,
    Site,
    SlurmSite,
    TopologySite,
    UplinkSite,
    WatchSite,
)
from .site_checks import (
    Check,
    Wrong,
    choice,
    flag,
    hostlist,
    layout,
    name,
    real,
    seconds,
    string,
    strings,
    subset,
    whole,
)
from .topology import KINDS
from .yamls import NotYaml, load_yaml

MATCHES = ("name", "user", "account", "partition", "comment")
"""Fields of a job that a rule may match."""


class Reader:
    """Reads members and gathers what is wrong with them."""

    def __init__(self) -> None:
        self.offences: list[Offence] = []

    def refuse(self, path: str, message: str, value: Any) -> None:
        self.offences.append(offence(path or "/", message, value))

    def section(self, value: Any, path: str, members: Mapping[str, Check]) -> dict[str, Any]:
        """The members of ``value`` that are there, each read with its check."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.refuse(path, "must be an object", value)
            return {}
        read: dict[str, Any] = {}
        for key, given in value.items():
            here = f"{path}/{key}"
            if key not in members:
                self.refuse(here, f"is not known here; known are {', '.join(members)}", given)
                continue
            if given is None:  # null says nothing
                continue
            try:
                read[key] = members[key](given)
            except Wrong as error:
                self.refuse(here, str(error), given)
        return read


def read_site_file(path: Path) -> Site:
    """The site in a file.

    Raises:
        InvalidSite: every offence by its path.
        OSError: it cannot be read.
    """
    try:
        document = load_yaml(path.read_text("utf-8-sig"))
    except (NotYaml, UnicodeDecodeError) as error:
        raise refuse_site([offence(path.name, f"is no YAML: {error}")]) from None
    return read_site({} if document is None else document, base=path.parent)


def read_site(document: Any, base: Path | None = None) -> Site:
    """The site in plain data.

    Args:
        base: folder that a relative ``topology.file`` starts from.

    Raises:
        InvalidSite: every offence by its path.
    """
    reader = Reader()
    part = _Parts(reader)
    top = reader.section(
        document,
        "",
        {
            "cluster": name,
            "fabric": part.fabric,
            "topology": part.topology,
            "racks": part.uplinks("/racks"),
            "pods": part.uplinks("/pods"),
            "nodes": part.nodes,
            "jobs": part.jobs,
            "slurm": part.slurm,
            "watch": part.watch,
            "moves": part.moves,
            "planning": part.planning,
            "labels": part.labels,
            "pending": flag,
        },
    )
    if reader.offences:
        raise InvalidSite(reader.offences)
    site = Site(**{key: value for key, value in top.items() if value is not None})
    return _rebased(site, base)


def _rebased(site: Site, base: Path | None) -> Site:
    file = site.topology.file
    if base is None or file is None or Path(file).is_absolute():
        return site
    return replace(site, topology=replace(site.topology, file=str(base / file)))


class _Parts:
    """The sections of a site file."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def _read(self, value: Any, path: str, members: Mapping[str, Check]) -> dict[str, Any]:
        return self.reader.section(value, path, members)

    def fabric(self, value: Any) -> Fabric:
        members = {
            "nic_gbps": real(limits.GBPS),
            "uplink_gbps": real(limits.GBPS),
            "routing": choice(get_args(Routing)),
            "rails": whole(limits.RAILS),
        }
        return Fabric(**self._read(value, "/fabric", members))

    def topology(self, value: Any) -> TopologySite:
        members: dict[str, Check] = {
            "file": string,
            "kind": choice(KINDS),
            "levels": strings,
            "qualify": flag,
            "interfaces": strings,
            "unknown": choice(("error", "ignore")),
        }
        return TopologySite(**self._read(value, "/topology", members))

    def uplinks(self, path: str) -> Check:
        """Reads ``{uplinks: 8, exceptions: {rack07: [0, 2, 3]}}``."""
        rule = limits.UPLINKS if path == "/racks" else limits.POD_UPLINKS

        def read(value: Any) -> UplinkSite | None:
            exceptions = partial(self._exceptions, path, rule)
            got = self._read(value, path, {"uplinks": _uplinks(path, rule), "exceptions": exceptions})
            if isinstance(value, Mapping) and "uplinks" not in value:
                raise Wrong("must say its `uplinks`")
            return UplinkSite(**got) if "uplinks" in got else None

        return read

    def _exceptions(self, path: str, rule: limits.Whole, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Wrong("must map ids to uplinks")
        members = {key: _uplinks(path, rule) for key in value}
        return {str(key): got for key, got in self._read(value, f"{path}/exceptions", members).items()}

    def labels(self, value: Any) -> dict[str, str]:
        if not isinstance(value, Mapping) or not all(is_name(key) for key in value):
            raise Wrong("must map names to strings")
        return self._read(value, "/labels", dict.fromkeys(value, string))

    def nodes(self, value: Any) -> NodeSite:
        members: dict[str, Check] = {
            "slots": choice(("auto", "gpus", "whole")),
            "gres": name,
            "classes": lambda given: subset(given, ("partitions", "gres", "features")),
            "draining": choice(("drain", "cordon")),
            "ignore": hostlist,
        }
        return NodeSite(**self._read(value, "/nodes", members))

    def jobs(self, value: Any) -> JobSite:
        members: dict[str, Check] = {
            "profile": choice(("live", "requeue", "none")),
            "steps": choice(("check", "assume")),
            "pin_batch_host": choice(("auto", "always", "never")),
            "environment": self._environment,
            "remaining": choice(("unknown", "time_limit")),
            "layout": layout,
            "rules": self._rules,
        }
        return JobSite(**self._read(value, "/jobs", members))

    def _environment(self, value: Any) -> dict[str, str]:
        known = ("tp", "pp", "dp", "rings", "state_gb", "traffic_gb", "iteration_s")
        return self._read(value, "/jobs/environment", dict.fromkeys(known, string))

    def _rules(self, value: Any) -> tuple[Rule, ...]:
        if not isinstance(value, list):
            raise Wrong("must be a list of rules")
        rules = []
        for index, given in enumerate(value):
            path = f"/jobs/rules/{index}"
            match = partial(self._match, f"{path}/match")
            got = self._read(given, path, {"match": match, "layout": layout, "ignore": flag})
            rules.append(Rule(got.get("match", {}), got.get("layout", Layout()), got.get("ignore", False)))
        return tuple(rules)

    def _match(self, path: str, value: Any) -> dict[str, Any]:
        return self._read(value, path, dict.fromkeys(MATCHES, string))

    def slurm(self, value: Any) -> SlurmSite:
        members: dict[str, Check] = {"timeout_s": seconds, "conf": string, "bin": string}
        return SlurmSite(**self._read(value, "/slurm", members))

    def watch(self, value: Any) -> WatchSite:
        got = WatchSite(
            **self._read(value, "/watch", dict.fromkeys(("interval_s", "floor_s", "longest_s"), seconds))
        )
        if not got.floor_s <= got.interval_s <= got.longest_s:
            raise Wrong("must have floor_s <= interval_s <= longest_s")
        return got

    def moves(self, value: Any) -> MoveSite:
        times = ("hold_s", "settle_s", "start_s", "patience_s", "state_s")
        members: dict[str, Check] = {"start_worker": string, "reconfigure": flag}
        return MoveSite(**self._read(value, "/moves", {**members, **dict.fromkeys(times, seconds)}))

    def planning(self, value: Any) -> Planning:
        members: dict[str, Check] = {
            "objective": choice(("moves", "gpu_seconds")),
            "time_limit_s": real(limits.TIME_LIMIT_S),
            "solver": name,
            "max_moves": whole(limits.MAX_MOVES),
            "pause_overhead_s": real(limits.PAUSE_S),
            "restart_s": real(limits.PAUSE_S),
        }
        return Planning(**self._read(value, "/planning", members))


def _uplinks(path: str, rule: limits.Whole) -> Check:
    def read(value: Any) -> Any:
        if isinstance(value, list) and path == "/racks":
            if (
                not value
                or not all(limits.SPINE.holds(spine) for spine in value)
                or len(set(value)) < len(value)
            ):
                raise Wrong("must list different spines")
            return tuple(sorted(value))
        if not rule.holds(value):
            raise Wrong(rule.message + (", or a list of spines" if path == "/racks" else ""))
        return value

    return read
