"""Topology importers: one interface, from Slurm, Topograph, Kubernetes, LLDP and Lingjun."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from monkeytree.slurm.errors import InvalidTopology
from monkeytree.slurm.topology import Topology, group, levels_of, read_topology, read_topology_file
from monkeytree.slurm.topology.lingjun import read_jobs, read_workers

from .samples import DATA

TREE = """# two racks
switchname=leaf1 nodes=n[1-2] linkspeed=100
SwitchName=leaf2 Nodes=n[3-4]
SWITCHNAME=top Switches=leaf[1-2]  # above
"""
BLOCKS = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockName=b3 Nodes=n5\nBlockSizes=2,4\n"
YAML = """
- topology: spare
  cluster_default: false
  flat: true
- topology: main
  cluster_default: true
  tree:
    switches:
      - {switch: top, children: "leaf[1-2]"}
      - {switch: leaf1, nodes: "n[1-2]"}
      - {switch: leaf2, nodes: "n[3-4]"}
"""
YAML_BLOCK = """
- topology: only
  block:
    block_sizes: [2, 4]
    blocks:
      - {block: b1, nodes: "n[1-2]"}
      - {block: b2, nodes: "n[3-4]"}
"""
GRAPH = {
    "instances": [
        {
            "id": f"n{n}",
            "type": "H100",
            "network_layers": [f"leaf{(n + 1) // 2}", "top"],
            "attributes": {"nvlink": "v1"},
        }
        for n in range(1, 5)
    ]
}
MODEL = (
    "switches:\n  top: {switches: [leaf1, leaf2]}\n  leaf1: {nodes: ['n[1-2]']}\n  leaf2: {nodes: [n3, n4]}\n"
)
RACKS = {"leaf1": ("n1", "n2"), "leaf2": ("n3", "n4")}


def configmap(text: str, name: str = "topology.conf") -> str:
    return yaml.safe_dump(
        {"kind": "ConfigMap", "metadata": {"name": "slurm"}, "data": {name: text, "slurm.conf": "x"}}
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (TREE, "slurm"),
        (YAML, "slurm-yaml"),
        (json.dumps(GRAPH), "topograph-graph"),
        (MODEL, "topograph-model"),
        (configmap(TREE), "slinky"),
        (configmap(YAML, "topology.yaml"), "slinky"),
    ],
)
@pytest.mark.parametrize("told", [True, False])
def test_all_say_the_same_of_the_same_tree(text: str, kind: str, told: bool) -> None:
    topology = read_topology(text, kind if told else None)
    found = group(topology, ["level1", "level0"])
    assert dict(found.racks) == RACKS
    assert dict(found.pod_of) == {"leaf1": "top", "leaf2": "top"}
    assert dict(group(topology).racks) == RACKS
    assert group(topology).pod_of == {}


def test_scontrol_says_what_the_file_says() -> None:
    told = read_topology_file(DATA / "scontrol_show_topology.txt")
    file = read_topology_file(DATA / "topology.conf")
    assert told.nodes == file.nodes
    assert told.keys == ("level2", "level1", "level0")
    found = group(file, ["level1", "level0"])
    assert len(found.racks) == 16
    assert found.racks["rack03"][0] == "node017"
    assert found.pod_of["rack16"] == "spine04"


@pytest.mark.parametrize("text", [BLOCKS, BLOCKS.replace("Nodes=n5", "Nodes=n[5-6]")])
def test_blocks_and_their_aggregates(text: str) -> None:
    found = group(read_topology(text), ["block2", "block"])
    assert found.racks["b1"] == ("n1", "n2")
    assert found.pod_of == {"b1": "block2-0", "b2": "block2-0", "b3": "block2-1"}


def test_blocks_as_scontrol_and_yaml_tell_them() -> None:
    told = read_topology(
        "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
        "BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
        "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-4] BlockSize=4\n"
    )
    assert group(told, ["block2", "block"]) == group(read_topology(YAML_BLOCK), ["block2", "block"])


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("SwitchName=a Nodes=n[1-\n", "line 1, nodes", "bracket is not closed"),
        ("SwitchName=a\n", "line 1", "neither nodes nor switches"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "line 2", "stands at line 1"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n", "line 2", "hangs on 'a' already"),
        ("SwitchName=a Switches=b\n", "line 1, switches", "no known switch"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "line 1, switches", "hangs below itself"),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n",
            "line 3, switches",
            "one parent",
        ),
        ("SwitchName=a Nodes=n1 Nodes=n2\n", "line 1, nodes", "stands twice"),
        ("SwitchName=a Nodes=n1 oops\n", "line 1", "no Key=Value"),
        ("SwitchName=a \\\n", "line 1", "backslash"),
        ("SwitchName=a Nodes=n1\nRack=b Nodes=n2\n", "line 2, rack", "neither a switch"),
        ("BlockName=a Nodes=n1\nBlockSizes=2,3\n", "topology, BlockSizes", "power of two"),
        ("BlockName=a Nodes=n1\nBlockSizes=x\n", "line 2, blocksizes", "no number"),
        ("- topology: a\n  flat: true\n", "/0", "no racks"),
        (
            "- topology: a\n  tree: {switches: [{switch: s, nodes: 'n['}]}\n",
            "/0/tree/switches/0/nodes",
            "not closed",
        ),
        ("- topology: a\n  tree: {switches: [{nodes: n1}]}\n", "/0/tree/switches/0/switch", "must be a name"),
        ("- {topology: a, flat: true}\n- {topology: b, flat: true}\n", "topology", "no topology chosen"),
        ('{"instances": [{"id": "n1"}]}', "/instances/0/network_layers", "nearest first"),
        ('{"instances": [{"id": "n1", "network_layers": ["a"]}', "topology", "is not JSON"),
        ("switches: {a: {nodes: 7}}", "/switches/a/nodes", "list of names"),
        ('{"items": [{"metadata": {}}]}', "/items/0/metadata/name", "must be the node's name"),
        ("ip,DSW,PSW,ASW\nh1,G6,P1\n", "topology line 2, ASW", "cut off"),
        ("ip,DSW,PSW\nh1,G6,P1\n", "topology line 1", "no column ASW"),
        ("ip,DSW,PSW,ASW\nh1,G6,P1,\n", "topology line 2, ASW", "is empty"),
        ("hello: [world", "topology", "is not YAML"),
        ("hello: world", "topology", "no topology that can be told"),
    ],
)
def test_what_is_wrong_is_named(text: str, where: str, why: str) -> None:
    with pytest.raises(InvalidTopology) as caught:
        read_topology(text)
    (found,) = caught.value.offences
    assert found.pointer == where
    assert why in found.message


def nodes(*labels: dict[str, str]) -> str:
    return json.dumps(
        {"items": [{"metadata": {"name": f"n{n}", "labels": one}} for n, one in enumerate(labels, 1)]}
    )


@pytest.mark.parametrize(
    ("above", "leaf"),
    [
        ("network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf"),
        ("network.topology.nvidia.com/tier-1", "network.topology.nvidia.com/tier-0"),
        ("fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0"),
        ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"),
        ("topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-3"),
        ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"),
        ("oci.oraclecloud.com/host.network_block_id", "oci.oraclecloud.com/host.rack_id"),
    ],
)
def test_labels_of_kubernetes(above: str, leaf: str) -> None:
    text = nodes({above: "s", leaf: "a", "x": "y"}, {above: "s", leaf: "a"}, {above: "s", leaf: "b"})
    topology = read_topology(text)
    assert topology.levels == (leaf,)
    found = group(topology, [above, leaf])
    assert dict(found.racks) == {"a": ("n1", "n2"), "b": ("n3",)}
    assert dict(found.pod_of) == {"a": "s", "b": "s"}


def test_levels_as_kueue_writes_them() -> None:
    spec = [{"nodeLabel": "a/block"}, {"nodeLabel": "a/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    levels = levels_of({"kind": "Topology", "spec": {"levels": spec}})
    assert levels == ("a/block", "a/rack")
    with pytest.raises(InvalidTopology, match="/spec/levels/0/nodeLabel"):
        levels_of({"spec": {"levels": [{"label": "x"}]}})


def neighbour(name: str, chassis: str | None) -> dict[str, Any]:
    identity: dict[str, Any] = {} if chassis is None else {"id": [{"type": "mac", "value": chassis}]}
    return {"name": name, "via": "LLDP", "chassis": [{**identity, "descr": [{"value": "leaf"}]}]}


def test_lldp(tmp_path: Path) -> None:
    hosts = {"n1": "00:11", "n2": "00:11", "n3": "00:22"}
    for host, chassis in hosts.items():
        answer = {"lldp": [{"interface": [neighbour("eno1", chassis), neighbour("ib0", "ff:ff")]}]}
        (tmp_path / f"{host}.json").write_text(json.dumps(answer))
    with pytest.raises(InvalidTopology, match="more than one chassis"):
        read_topology_file(tmp_path)
    topology: Topology = read_topology_file(tmp_path, interfaces=["eno1"])
    assert dict(group(topology).racks) == {"00:11": ("n1", "n2"), "00:22": ("n3",)}
    (tmp_path / "n4.json").write_text(json.dumps({"lldp": [{}]}))
    with pytest.raises(InvalidTopology, match=r"n4.*no neighbour"):
        read_topology_file(tmp_path, interfaces=["eno1"])


@pytest.mark.parametrize(
    ("answer", "where"),
    [
        ({"lldp": {"interface": {"eno1": {}}}}, "n1/lldp"),
        ({"lldp": [{"interface": [neighbour("eno1", None)]}]}, "n1: /lldp/0/interface/0/chassis/0/id"),
        ({"lldp": [{"interface": [{"name": "eno1"}]}]}, "n1: /lldp/0/interface/0/chassis"),
    ],
)
def test_bad_lldp_is_named(answer: Any, where: str) -> None:
    with pytest.raises(InvalidTopology) as caught:
        read_topology(json.dumps({"n1": answer}), "lldp")
    assert caught.value.offences[0].pointer == where


TOPO = "ip,DSW,PSW,ASW\nh1,G6,P10,S1\nh2,G6,P10,S1\nh3,G6,P12,S1\n"


def test_lingjun_racks_are_pairs() -> None:
    topology = read_topology(TOPO)
    found = group(topology)
    assert dict(found.racks) == {"P10/S1": ("h1", "h2"), "P12/S1": ("h3",)}
    assert dict(found.pod_of) == {"P10/S1": "P10", "P12/S1": "P12"}
    with pytest.raises(InvalidTopology, match=r"'S1'|below both") as caught:
        group(topology, ["PSW", "ASW"], qualify=False)
    assert "qualify: true" in caught.value.offences[0].message
    assert len(group(topology, ["ASW"], qualify=False).racks) == 1, "the trap: one rack where there are two"


WORKERS = """id,job_name,worker_name,replica_type,host_ip,gmt_created,gmt_pod_running,gmt_pod_finished,RES
1,j1,j1-master-0,master,h1,2023/7/15 00:47,,2023/7/15 00:49,"{'cpu': '96', 'nvidia.com/gpu': '8'}"
2,j1,j1-worker-0,worker,h2,2023/7/15 00:47,,,"{'cpu': '96', 'nvidia.com/gpu': '8'}"
3,j2,j2-worker-0,worker,h2,2023/7/15 00:47,,,"{'cpu': '96'}"
4,j3,j3-worker-0,worker,h3,2023/7/15 00:47,,,
"""


def test_lingjun_workers_and_jobs() -> None:
    workers = read_workers(WORKERS)
    assert [(one.job, one.host, one.gpus) for one in workers] == [("j1", "h1", 8), ("j1", "h2", 8)]
    assert workers[0].ended is not None
    assert (workers[0].ended - workers[0].started).total_seconds() == 120
    jobs = read_jobs("job_name,kind,model,status\nj1,PyTorchJob,llama_30b,Failed\nj2,PyTorchJob,,\n")
    assert jobs == {
        "j1": {"kind": "PyTorchJob", "model": "llama_30b", "status": "Failed"},
        "j2": {"kind": "PyTorchJob"},
    }
    with pytest.raises(InvalidTopology, match=r"worker.csv line 2, RES"):
        read_workers(WORKERS.replace("{'cpu': '96', 'nvidia.com/gpu': '8'}", "{'cpu': ", 1))
    with pytest.raises(InvalidTopology, match=r"worker.csv line 2, gmt_created"):
        read_workers(WORKERS.replace("2023/7/15 00:47", "yesterday", 1))


def test_levels_are_checked() -> None:
    topology = read_topology(TREE)
    with pytest.raises(InvalidTopology, match=r"levels/0.*no such level"):
        group(topology, ["pod", "level0"])
    with pytest.raises(InvalidTopology, match="named twice"):
        group(topology, ["level0", "level0"])
    uneven = read_topology(TREE + "SwitchName=lone Nodes=n9\n")
    with pytest.raises(InvalidTopology, match="n9: has no level1"):
        group(uneven, ["level1", "level0"])
    assert group(topology, nodes=["n1", "n9"]).outside == ("n9",)
