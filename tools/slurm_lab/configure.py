"""Writes the files of a lab cluster: ``configure.py DIR NODES PER_RACK [--gres] [--port-base N]``.

Everything lies under DIR and listens on loopback; nothing in /etc or /run is touched. Racks hang on one
spine for each four of them, spines on a core. Without --gres the nodes have no generic resources (so jobs
can be expanded live), with it eight fake GPUs each.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

RACKS_PER_SPINE = 4
GPUS = 8

SLURM_CONF = """\
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller_port}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={folder}/state/jwt.key
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=permit_job_expansion,bf_interval=2,sched_interval=5
TopologyPlugin=topology/tree
TreeWidth=65533
PriorityType=priority/basic
JobRequeue=1
KillWait=2
MinJobAge=3600
MessageTimeout=30
InactiveLimit=0
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={database_port}
AccountingStoreFlags=job_comment,job_env
AccountingStoragePass={folder}/run/munge.sock
{gres_lines}
NodeName={nodes} NodeAddr=127.0.0.1 NodeHostname=localhost Port=[{first_port}-{last_port}] CPUs=16 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=1024{gres} State=UNKNOWN
PartitionName=train Nodes={nodes} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""  # noqa: E501
SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={database_port}
SlurmUser=root
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""


def name(number: int) -> str:
    """Name of the n-th node, from 1."""
    return f"node{number:03d}"


def topology(nodes: int, per_rack: int) -> str:
    """topology.conf."""
    racks = [(at, min(at + per_rack - 1, nodes)) for at in range(1, nodes + 1, per_rack)]
    lines = [
        f"SwitchName=rack{rack:02d} Nodes=node[{first:03d}-{last:03d}]"
        for rack, (first, last) in enumerate(racks, 1)
    ]
    spines = range(0, len(racks), RACKS_PER_SPINE)
    for spine, at in enumerate(spines, 1):
        below = ",".join(
            f"rack{rack:02d}" for rack in range(at + 1, min(at + RACKS_PER_SPINE, len(racks)) + 1)
        )
        lines.append(f"SwitchName=spine{spine:02d} Switches={below}")
    above = ",".join(f"spine{spine:02d}" for spine in range(1, len(spines) + 1))
    return "\n".join([*lines, f"SwitchName=core Switches={above}"]) + "\n"


def secret(path: Path, size: int) -> None:
    """A key for its owner alone; an old one is kept."""
    if not path.exists():
        path.touch(0o600)
        path.write_bytes(os.urandom(size))


def configure(folder: Path, nodes: int, per_rack: int, *, gres: bool, port_base: int) -> None:
    """All files of the cluster."""
    for below in (
        "state",
        "log",
        "run",
        "munge",
        "db",
        "dev",
        *(f"spool/{name(n + 1)}" for n in range(nodes)),
    ):
        (folder / below).mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    (folder / "munge").chmod(0o700)
    secret(folder / "munge" / "key", 128)
    secret(folder / "state" / "jwt.key", 32)
    listed = f"node[001-{nodes:03d}]"
    values = {
        "folder": folder,
        "nodes": listed,
        "controller_port": port_base,
        "database_port": port_base + 1,
        "first_port": port_base + 2,
        "last_port": port_base + 1 + nodes,
        "gres": f" Gres=gpu:h100:{GPUS}" if gres else "",
        "gres_lines": "GresTypes=gpu\nAccountingStorageTRES=gres/gpu" if gres else "",
    }
    (folder / "slurm.conf").write_text(SLURM_CONF.format(**values))
    (folder / "topology.conf").write_text(topology(nodes, per_rack))
    if gres:  # plain files do; a count without File= leaves the nodes INVAL
        for gpu in range(GPUS):
            (folder / "dev" / f"gpu{gpu}").touch()
        line = f"NodeName={listed} Name=gpu Type=h100 Count={GPUS} File={folder}/dev/gpu[0-{GPUS - 1}]\n"
        (folder / "gres.conf").write_text(line)
    database = folder / "slurmdbd.conf"
    database.write_text(SLURMDBD_CONF.format(**values))
    database.chmod(0o600)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("nodes", type=int)
    parser.add_argument("per_rack", type=int)
    parser.add_argument("--gres", action="store_true")
    parser.add_argument("--port-base", type=int, default=16816)
    given = parser.parse_args()
    configure(given.folder.resolve(), given.nodes, given.per_rack, gres=given.gres, port_base=given.port_base)


if __name__ == "__main__":
    main()
