"""A job of plain workers under Slurm, each beside an agent of its node; all nodes share this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from monkeytree.adapters.agents import AgentClient, AgentRefused, AgentUnreachable
from monkeytree.agent.store import SocketStore, StoreServer
from monkeytree.slurm.hostlist import expand
from monkeytree.wire.agents import MoveStatus
from tests.agent.rig import reference

from .lab import Lab, eventually

SCRIPT = """#!/bin/bash
# As docs/slurm.md has it: an agent and a worker on each node, each a step of its own. The worker on the
# batch host never moves: when it ends the training is over, and the job ends with all its steps.
export PATH={bin}:$PATH
rank=0
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    srun --overlap -N1 -n1 -w "$node" {agent} --node "$node" --data "{folder}/agents/$node" \\
        >"{folder}/agent-$node.log" 2>&1 &
    srun --overlap -N1 -n1 -w "$node" env MONKEYTREE_AGENT="{folder}/agents/$node/agent.sock" \\
        {python} -m monkeytree.agent.plain --job "$SLURM_JOB_ID" --rank $rank \\
        --world "$SLURM_JOB_NUM_NODES" --store {store} --bytes {state} --pause-ms {pause_ms} \\
        --out "{folder}/out/$rank.json" \\
        >"{folder}/worker-$rank.log" 2>&1 &
    [ $rank = 0 ] && first=$!
    rank=$((rank + 1))
done
wait "$first"
sleep 20  # the others are about to end too
"""
AGENT = "{python} -m monkeytree.cli agent --listen 127.0.0.1:0 --token-file {folder}/token"
STATE = (
    "{python} -m monkeytree.cli slurm state --agents '{folder}/agents/{{node}}/url' "
    "--token-file {folder}/token"
)
STATE_BYTES = 2**20
PAUSE_MS = 50.0


@dataclass
class Training:
    """One such job.

    Attributes:
        folder: of the agents, one folder a node; real nodes would have one of their own each.
    """

    lab: Lab
    folder: Path
    store: SocketStore
    nodes: tuple[str, ...]
    job: int = 0

    @property
    def agent(self) -> str:
        """Command of an agent, but for its node and its folder."""
        return AGENT.format(python=sys.executable, folder=self.folder)

    @property
    def start_worker(self) -> str:
        """For ``--start-worker``: the new node's agent, which starts the worker when its state comes."""
        return f'exec {self.agent} --node "$MT_TARGET" --data "{self.folder}/agents/$MT_TARGET"'

    @property
    def state_command(self) -> str:
        """For ``--state-command``."""
        return STATE.format(python=sys.executable, folder=self.folder)

    def client(self, node: str) -> AgentClient:
        """Of the node's agent."""
        url = (self.folder / "agents" / node / "url").read_text().strip()
        return AgentClient(url, (self.folder / "token").read_text().strip(), node)

    def ranks(self) -> dict[int, str]:
        """Nodes of the ranks that train, as the agents tell."""
        return {rank: node for rank, (node, _) in self._workers().items()}

    def step(self) -> int:
        """Of the rank that is farthest."""
        return max(step for _, step in self._workers().values())

    def _workers(self) -> dict[int, tuple[str, int]]:
        found = {}
        for folder in sorted((self.folder / "agents").iterdir()):
            with suppress(AgentUnreachable, OSError), self.client(folder.name) as client:
                for worker in client.workers().workers:
                    if worker.state == "training":
                        found[worker.rank] = folder.name, worker.step
        return found

    def goes_on(self) -> bool:
        """Whether the training gets on from here."""
        before = self.step()
        return eventually(lambda: self.step() > before + 3)

    def attempts(self, node: str, name: str) -> list[MoveStatus]:
        """The attempts at a move that the node's agent knows; none while there is no agent."""
        found: list[MoveStatus] = []
        with suppress(AgentRefused, AgentUnreachable, OSError), self.client(node) as client:
            while True:
                found.append(client.move(f"{name}-t{len(found) + 1}-m0"))
        return found

    def finish(self) -> dict[int, dict[str, Any]]:
        """Let it end a little later; what the ranks wrote at the end."""
        self.store.set("plain/stop", str(self.step() + 20))
        files = {rank: self.folder / "out" / f"{rank}.json" for rank in range(len(self.nodes))}
        assert eventually(lambda: all(file.exists() for file in files.values())), self.logs()
        return {rank: json.loads(file.read_text()) for rank, file in files.items()}

    def assert_bit_identical(self, results: dict[int, dict[str, Any]]) -> None:
        """Every rank has what it has in the same job that never moved: state, generator, and every sum."""
        (steps,) = {result["step"] for result in results.values()}
        expected = reference(str(self.job), len(self.nodes), steps, STATE_BYTES)
        for rank, (digest, sums) in expected.items():
            assert results[rank]["digest"] == digest, f"rank {rank}"
            assert results[rank]["sums"] == sums, f"rank {rank}"

    def logs(self) -> str:
        """The end of what agents and workers wrote."""
        return "\n".join(f"{log.name}: {log.read_text()[-1_000:]}" for log in self.folder.glob("*.log"))


@contextmanager
def training(lab: Lab, name: str, nodes: str, folder: Path) -> Iterator[Training]:
    """Submit it, and wait until all ranks train."""
    (folder / "out").mkdir(parents=True)
    (folder / "agents").mkdir(mode=0o700)
    (folder / "token").touch(0o600)
    (folder / "token").write_text("mta_lab\n")
    server = StoreServer()
    made = Training(lab, folder, SocketStore(server.address), tuple(expand(nodes)))
    values = {
        "bin": Path(sys.executable).parent, "python": sys.executable, "agent": made.agent, "folder": folder,
        "store": server.address, "state": STATE_BYTES, "pause_ms": PAUSE_MS,
    }  # fmt: skip
    try:
        made.job = lab.submit(name, nodes, "--exclusive", script=SCRIPT.format(**values))
        assert eventually(lambda: made.ranks() == dict(enumerate(made.nodes))), made.logs()
        yield made
    finally:
        lab.client.run("scancel", str(made.job))
        _end(folder)
        made.store.close()
        server.close()


def _end(folder: Path) -> None:
    """The lab's container of a step (proctrack/linuxproc) loses sight of a worker whose mover has ended."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if any(word.startswith(str(folder)) for word in words) and "monkeytree" in " ".join(words):
                process.kill()
                process.wait(10)
