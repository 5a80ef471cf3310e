"""The drill's training job as one rank sees it: model, optimizer, data; everything follows from the spec."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import Tensor

from . import extras, tensors
from .groups import Bucket, GlooGroup
from .model import Transformer, next_token_loss, shape_for

STOP = "stop"
"""Name of the file that ends a job: all ranks see it in the same iteration, it rides on the gradients."""
GO = "go"
"""Name of the file that ends all holds."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What every rank of a job is told.

    Attributes:
        name: of the job.
        world_size: ranks.
        steps: iterations to train, unless a file ``stop`` in ``folder`` ends the training earlier.
        state_bytes: weights and optimizer state, about.
        seed: of weights, dropout and data.
        batch: sequences of a rank and iteration.
        rate: learning rate.
        iteration_s: no iteration is shorter: keeps a tiny job long enough to be moved.
        timeout_s: of one collective operation.
        store_port: of the job's store on this host.
        folder: where the ranks write their losses.
        holds: state of a move -> seconds that a rank stays in it at most, until a file ``go`` is in
            ``folder``: so a drill can kill something there. PAUSED, DECIDED and REFORMED are the ranks' own
            states; the movers hold the others.
        digests: log the digest after each iteration too.
    """

    name: str
    world_size: int
    steps: int
    state_bytes: float
    folder: str
    store_port: int
    seed: int = 1
    batch: int = 4
    rate: float = 3e-4
    iteration_s: float = 0.0
    timeout_s: float = 30.0
    holds: Mapping[str, float] = field(default_factory=dict)
    digests: bool = False

    def hold(self, state: str) -> None:
        """Stay in a state for as long as a drill asked for."""
        deadline = time.monotonic() + self.holds.get(state, 0.0)
        while time.monotonic() < deadline and not (Path(self.folder) / GO).exists():
            time.sleep(0.01)

    @classmethod
    def read(cls, text: str) -> JobSpec:
        """From JSON.

        Raises:
            ValueError: not such an object.
        """
        found = json.loads(text)
        known = {one.name for one in fields(cls)}
        if not isinstance(found, dict) or set(found) - known:
            raise ValueError(f"a job spec has the members {sorted(known)}, not {text!r}")
        return cls(**found)

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))


class Rank:
    """One rank's share of the job.

    Attributes:
        step: iterations finished.
    """

    def __init__(self, spec: JobSpec, rank: int) -> None:
        torch.manual_seed(spec.seed)
        self.spec, self.rank, self.step = spec, rank, 0
        self.shape = shape_for(spec.state_bytes)
        self.model = Transformer(self.shape)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=spec.rate, fused=True)
        tensors.prime(self.optimizer)
        self.bucket = Bucket(self.model.parameters())
        torch.manual_seed(spec.seed * 1000 + rank)
        self.data = torch.Generator().manual_seed(spec.seed * 1000 + rank + 500)

    def sizes(self) -> dict[str, int]:
        """Name -> bytes of each region that the state needs."""
        return tensors.sizes_of(tensors.tensors_of(self.model, self.optimizer))

    def adopt(self, memory: tensors.Memory, *, keep: bool) -> None:
        """Train on ``memory`` from now on."""
        tensors.adopt(memory, self.model, self.optimizer, keep=keep)

    def pack(self) -> bytes:
        """What has to move besides the memory."""
        return extras.pack(self.step, self.rank, self.optimizer, {"data": self.data})

    def unpack(self, document: bytes | memoryview) -> None:
        """Go on where another process stood."""
        found = extras.unpack(document, self.optimizer, {"data": self.data})
        self.step, self.rank = found["step"], found["rank"]

    def forward_backward(self) -> Tensor:
        """Gradients of the next batch; its loss."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = next_token_loss(self.model, self._batch())
        torch.autograd.backward(loss)
        return loss.detach()

    def reduce(self, group: GlooGroup, loss: Tensor) -> tuple[float, bool]:
        """Average gradients over the ranks; the mean loss, and whether to stop after this iteration."""
        return self.bucket.reduce(group, loss, (Path(self.spec.folder) / STOP).exists())

    def update(self) -> None:
        """The optimizer's step: ends the iteration."""
        self.optimizer.step()
        self.step += 1

    def digest(self) -> str:
        """Of weights and optimizer state."""
        return tensors.digest(self.model, self.optimizer)

    def _batch(self) -> Tensor:
        """Sequences that step through the vocabulary, each with a stride of its own: something to learn."""
        shape = (self.spec.batch, 1)
        start = torch.randint(self.shape.vocabulary, shape, generator=self.data)
        stride = torch.randint(1, 8, shape, generator=self.data)
        return (start + stride * torch.arange(self.shape.context + 1)) % self.shape.vocabulary


class Log:
    """A rank's losses, one JSON line for each finished iteration, and the digest at the end."""

    def __init__(self, folder: str, rank: int) -> None:
        path = Path(folder) / f"rank-{rank}-{os.getpid()}.jsonl"
        self._file: TextIO = path.open("w", encoding="utf-8")
        self.rank = rank

    def iteration(self, step: int, loss: float, own: float, more: Mapping[str, Any]) -> None:
        """Losses go in hexadecimal: equal is equal to the last bit. ``more`` has seconds and the digest."""
        self._line({"step": step, "loss": loss.hex(), "own": own.hex(), **more})

    def final(self, step: int, digest: str) -> None:
        """The job is finished on this rank."""
        self._line({"final": step, "digest": digest})

    def event(self, name: str, **more: Any) -> None:
        """Something that happened between iterations."""
        self._line({"event": name, **more})

    def _line(self, members: dict[str, Any]) -> None:
        self._file.write(json.dumps({"rank": self.rank, **members}) + "\n")
        self._file.flush()
