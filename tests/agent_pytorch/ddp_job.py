"""A job of the ways of DistributedDataParallel: batch norm, dropout, accumulation, a schedule, a loader.

``python -m tests.agent_pytorch.ddp_job`` forks jobs as it is told on standard input, a JSON line each, and
says the exit codes of the ranks; as a standby it is one rank.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # DistributedDataParallel would import it in each rank
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from monkeytree.agent.pytorch.ddp import Batches, Moved, Place, ShardSampler, Training
from monkeytree.agent.pytorch.store import host_store
from monkeytree.agent.standby import STANDBY_VARIABLE

SPEC_VARIABLE, DEATH_VARIABLE = "TEST_SPEC", "TEST_DEATH"
BATCH, FEATURES, WIDTH = 4, 16, 520
MICRO = 2  # backward passes an iteration


class Net(nn.Module):
    """Something of everything that has state."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.wide = nn.Linear(WIDTH, WIDTH)  # more than a MiB: a piece of its own
        self.last = nn.Linear(WIDTH, 3)
        self.fall = 0.0

    def forward(self, batch: Tensor) -> Tensor:
        """(batch, FEATURES) to (batch, 3)."""
        hidden = functional.relu(self.norm(self.first(batch)))
        hidden = functional.dropout(functional.relu(self.wide(hidden)), 0.2, self.training)
        found: Tensor = self.last(hidden)
        return found


def make(place: Place, **more: Any) -> tuple[Training, Batches, Any]:
    """The rank of the job at its start."""
    torch.manual_seed(1)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 6, 12], 0.7)
    dataset = TensorDataset(torch.randn(90, FEATURES), torch.randint(3, (90,)))
    sampler = ShardSampler(dataset, num_replicas=place.world_size, rank=place.rank, seed=3)
    batches = Batches(DataLoader(dataset, BATCH, sampler=sampler, drop_last=True))
    carry = {"data": batches, "scheduler": scheduler}
    training = Training(model, optimizer, place, carry=carry, timeout_s=120.0, **more)
    torch.manual_seed(100 + place.rank)
    return training, batches, (optimizer, scheduler)


def iterate(training: Training, batches: Batches, rest: Any, stop: bool = False) -> tuple[float, float, bool]:
    """The body of an iteration: mean loss, own loss, and whether any rank wants to stop."""
    optimizer, scheduler = rest
    ddp, own = training.ddp, 0.0
    for part in range(MICRO):
        inputs, labels = next(batches)
        if part < MICRO - 1:
            with ddp.no_sync():
                loss = functional.cross_entropy(ddp(inputs), labels) / MICRO
                loss.backward()
        else:
            loss = functional.cross_entropy(ddp(inputs), labels) / MICRO
            die(training)
            loss.backward()
        own += float(loss.detach())
    mean, stopping = training.mean(own), training.mean(float(stop)) > 0
    optimizer.step()
    scheduler.step()
    return mean, own, stopping


def die(training: Training) -> None:
    """Where a standby is told to: in the middle of its first iteration."""
    if os.environ.get(DEATH_VARIABLE) and training.place.standby:
        os.kill(os.getpid(), signal.SIGKILL)


def train(spec: dict[str, Any], place: Place) -> None:
    """A rank from start to end; a line for each iteration."""
    torch.set_num_threads(1)
    folder = Path(spec["folder"])
    env = {SPEC_VARIABLE: json.dumps(spec), "PYTHONPATH": os.pathsep.join(sys.path), **spec.get("env", {})}
    command = [sys.executable, "-m", __name__ if __name__ != "__main__" else "tests.agent_pytorch.ddp_job"]
    training, batches, rest = make(
        place, standby_env=env, standby_command=command, warm_up=_warm_up, **spec.get("ddp", {})
    )
    with open(folder / f"rank-{os.getpid()}.jsonl", "a", encoding="utf-8") as log:

        def say(**members: Any) -> None:
            log.write(json.dumps({"rank": training.rank, **members}) + "\n")
            log.flush()

        begun = time.monotonic()
        for iteration in training.iterations(spec["steps"]):
            stopping = False
            with iteration:
                mean, own, stopping = iterate(training, batches, rest, (folder / "stop").exists())
            if not iteration.done:
                say(redone=iteration.step)
                continue
            say(step=training.step, mean=mean.hex(), own=own.hex(), at=time.monotonic() - begun)
            if stopping:
                break
            time.sleep(spec.get("pace_s", 0.0))
        training.close()
        say(final=training.step, digest=training.digest(), rate=rest[0].param_groups[0]["lr"])


def _warm_up(ddp: Any) -> None:
    ddp(torch.randn(BATCH, FEATURES)).sum().backward()


def start(spec: dict[str, Any], ranks: int, agents: list[str]) -> list[int]:
    """Fork a store and the ranks; their exit codes when all have ended."""
    port_end, port_told = os.pipe()
    store = _fork(lambda: _serve(port_told), spec)
    port = int(os.read(port_end, 16))
    pids = []
    for rank in range(ranks):
        environ = {
            "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_PORT": str(port), "MONKEYTREE_JOB": "A",
            "MONKEYTREE_AGENT": agents[rank] if agents else "",
        }  # fmt: skip
        pids.append(_fork(partial(_rank, spec, environ), spec))
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    while (Path(spec["folder"]) / "wait").exists():  # others of the job may use the store yet
        time.sleep(0.01)
    os.kill(store, signal.SIGKILL)
    os.waitpid(store, 0)
    return codes


def _rank(spec: dict[str, Any], environ: dict[str, str]) -> None:
    os.environ.update(environ)
    train(spec, Place.of_environment())


def _serve(told: int) -> None:
    store = host_store()
    os.write(told, str(store.port).encode())
    while True:
        signal.pause()


def _fork(work: Callable[[], None], spec: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # dies with its parent
    code = 1
    try:
        out = os.open(Path(spec["folder"]) / "errors", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        work()
        code = 0
    except Moved:
        code = 0
    except BaseException:  # noqa: BLE001  # nothing of the parent may run here
        traceback.print_exc()
        code = 3
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """A standby, or the place where jobs are forked."""
    if os.environ.get(STANDBY_VARIABLE):
        train(json.loads(os.environ[SPEC_VARIABLE]), Place.of_environment())
        return
    torch.set_num_threads(1)
    waiting = b""
    while True:
        select.select([0], [], [])
        part = os.read(0, 1 << 16)
        if not part:
            return
        *lines, waiting = (waiting + part).split(b"\n")
        for line in lines:
            told = json.loads(line)
            codes = start(told["spec"], told["ranks"], told.get("agents") or [])
            sys.stdout.write(json.dumps(codes) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
