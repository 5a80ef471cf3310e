"""One random network written in every format reads back as the same racks and pods."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from monkeytree.slurm.hostlist import fold
from monkeytree.slurm.topology import group, read_topology
from monkeytree.slurm.topology.lingjun import placement_at, read_workers
from tools.slurm_lab.configure import topology as lab_topology


@dataclass(frozen=True)
class Net:
    """Pods of racks of nodes."""

    pods: dict[str, dict[str, list[str]]]

    @property
    def racks(self) -> dict[str, tuple[str, ...]]:
        return {rack: tuple(nodes) for pod in self.pods.values() for rack, nodes in pod.items()}

    @property
    def pod_of(self) -> dict[str, str]:
        return {rack: pod for pod, racks in self.pods.items() for rack in racks}


@st.composite
def nets(draw: st.DrawFn) -> Net:
    pods: dict[str, dict[str, list[str]]] = {}
    numbers = iter(draw(st.permutations(range(1, 100))))
    for p in range(draw(st.integers(1, 3))):
        racks = {
            f"rack{p}{r}": sorted(f"n{next(numbers):03d}" for _ in range(draw(st.integers(1, 4))))
            for r in range(draw(st.integers(1, 3)))
        }
        pods[f"spine{p}"] = racks
    return Net(pods)


def conf(net: Net) -> str:
    lines = [f"SwitchName={rack} Nodes={fold(nodes)}" for rack, nodes in net.racks.items()]
    lines += [f"SwitchName={pod} Switches={fold(racks)}" for pod, racks in net.pods.items()]
    return "\n".join([*lines, f"SwitchName=core Switches={fold(net.pods)}", ""])


def told_by_scontrol(net: Net) -> str:
    lines = [
        f"SwitchName={rack} Level=0 LinkSpeed=1 Nodes={fold(nodes)}" for rack, nodes in net.racks.items()
    ]
    for pod, racks in net.pods.items():
        nodes = fold(node for row in racks.values() for node in row)
        lines.append(f"SwitchName={pod} Level=1 LinkSpeed=1 Nodes={nodes} Switches={','.join(racks)}")
    return "\n".join(lines)


def slurm_yaml(net: Net) -> str:
    switches = [{"switch": rack, "nodes": fold(nodes)} for rack, nodes in net.racks.items()]
    switches += [{"switch": pod, "children": fold(racks)} for pod, racks in net.pods.items()]
    return yaml.safe_dump([{"topology": "main", "cluster_default": True, "tree": {"switches": switches}}])


def graph(net: Net) -> str:
    rows = [
        {"id": node, "network_layers": [rack, pod]}
        for pod, racks in net.pods.items()
        for rack, nodes in racks.items()
        for node in nodes
    ]
    return json.dumps({"instances": rows})


def kubernetes(net: Net) -> str:
    keys = ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine")
    items = [
        {"metadata": {"name": node, "labels": dict(zip(keys, (rack, net.pod_of[rack]), strict=True))}}
        for rack, nodes in net.racks.items()
        for node in nodes
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


@settings(max_examples=60, deadline=None)
@given(nets())
def test_every_format_tells_the_same(net: Net) -> None:
    for write in (conf, told_by_scontrol, slurm_yaml, graph):
        found = group(read_topology(write(net)), ["level1", "level0"])
        assert (dict(found.racks), dict(found.pod_of)) == (net.racks, net.pod_of), write.__name__
    labels = ["network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf"]
    found = group(read_topology(kubernetes(net)), labels)
    assert (dict(found.racks), dict(found.pod_of)) == (net.racks, net.pod_of)


@settings(max_examples=60, deadline=None)
@given(nets())
def test_lingjun_labels_repeat_in_every_pod(net: Net) -> None:
    """Racks are named anew in each pod, as there; none is lost."""
    lines = ["ip,DSW,PSW,ASW"]
    wanted: dict[str, tuple[str, ...]] = {}
    for pod, racks in net.pods.items():
        for number, nodes in enumerate(racks.values()):
            wanted[f"{pod}/S{number}"] = tuple(nodes)
            lines += [f"{node},G6,{pod},S{number}" for node in nodes]
    assert dict(group(read_topology("\n".join(lines) + "\n")).racks) == wanted


def test_the_labs_own_topology() -> None:
    found = group(read_topology(lab_topology(128, 8)), ["level1", "level0"])
    assert len(found.racks) == 16
    assert found.racks["rack16"][-1] == "node128"
    assert found.pod_of["rack05"] == "spine02"


def test_who_ran_when_in_lingjun() -> None:
    text = "job_name,host_ip,gmt_created,gmt_pod_finished,RES\n"
    rows = [
        ("j1", "h1", "2023/7/15 00:10", "2023/7/15 00:20"),
        ("j1", "h2", "2023/7/15 00:10", ""),
        ("j2", "h1", "2023/7/15 00:20", ""),
    ]
    text += "".join(
        f"{job},{host},{start},{end},{{'nvidia.com/gpu': '8'}}\n" for job, host, start, end in rows
    )
    workers = read_workers(text)
    at = datetime(2023, 7, 15, 0, 15)
    assert {job: [one.host for one in placed] for job, placed in placement_at(workers, at).items()} == {
        "j1": ["h1", "h2"]
    }
    later = placement_at(workers, datetime(2023, 7, 15, 0, 20))
    assert {job: [one.host for one in placed] for job, placed in later.items()} == {
        "j1": ["h2"],
        "j2": ["h1"],
    }
