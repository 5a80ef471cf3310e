"""The state of a training rank, in an arena, and how it goes to another process and comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..arena import Arena
from ..membership import WorkerState
from . import carried, extras, tensors
from .carried import Stateful
from .refusals import NotMovable, check_optimizer, check_state


class TrainingState:
    """Parameters, buffers and optimizer state in an arena; random states, rates and places beside it.

    Attributes:
        arena: what the mover sends.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        carry: Mapping[str, Stateful],
        generators: Mapping[str, torch.Generator],
        rank: int,
        *,
        keep: bool,
    ) -> None:
        """Move the tensors into an arena; ``keep`` their values, or leave it to a mover to fill them in.

        Raises:
            NotMovable: something of it would not move.
        """
        self._model, self._optimizer = model, optimizer
        self._carry, self._generators, self._rank = dict(carry), dict(generators), rank
        self._kept: tuple[int, list[tuple[Tensor, Tensor]]] | None = None
        check_optimizer(optimizer)
        tensors.prime(optimizer)
        check_state(model, optimizer)
        found = self._tensors()
        self.arena = Arena.create(list(tensors.sizes_of(found).items()))
        tensors.adopt(self.arena, model, optimizer, keep=keep)
        self._lies = {one.name: one.tensor.data_ptr() for one in found}
        self.pack(0)  # said now rather than in a pause

    def hand_over(self, step: int) -> WorkerState:
        """``state_fn``."""
        self._gather()
        return WorkerState(self.arena, self.pack(step))

    def remember(self, step: int) -> bytes:
        """``extras_fn``: until the update the arena of a rank that stays is as it was, but for buffers."""
        self._kept = (step, [(one, one.detach().clone()) for one in self._model.buffers()])
        return self.pack(step)

    def pack(self, step: int) -> bytes:
        """What goes beside the arena.

        Raises:
            NotMovable: it has something that JSON cannot take.
        """
        more = carried.dumped(self._carry)
        try:
            return extras.pack(step, self._rank, self._optimizer, self._generators, more)
        except TypeError as error:
            groups = [{**group, "params": []} for group in self._optimizer.param_groups]
            raise NotMovable(
                f"the optimizer's groups hold something else than numbers and texts ({error}): {groups}"
            ) from None

    def restore(self, document: bytes) -> int:
        """``restore_fn``; the iterations finished."""
        found: dict[str, Any] = extras.unpack(document, self._optimizer, self._generators)
        carried.restore(self._carry, found["more"])
        step = int(found["step"])
        if self._kept is not None and self._kept[0] == step:
            with torch.no_grad():
                for buffer, value in self._kept[1]:
                    buffer.copy_(value)
        return step

    def forget(self) -> None:
        """An iteration was finished for good."""
        self._kept = None

    def digest(self) -> str:
        """Of the tensors."""
        return tensors.digest(self._model, self._optimizer)

    def _tensors(self) -> list[tensors.Named]:
        try:
            return tensors.tensors_of(self._model, self._optimizer)
        except ValueError as error:
            raise NotMovable(str(error)) from None

    def _gather(self) -> None:
        """Bring back what has left the arena: a buffer that was assigned anew, a state dict loaded later."""
        found = self._tensors()
        if {one.name for one in found} != set(self._lies):
            changed = sorted({one.name for one in found} ^ set(self._lies))
            raise NotMovable(f"the state has other tensors than when Training was made: {', '.join(changed)}")
        with torch.no_grad():
            for one in found:
                if one.tensor.data_ptr() != self._lies[one.name]:
                    placed = tensors.tensor_over(self.arena.view(one.name), one.tensor)
                    placed.copy_(one.tensor)
                    one.tensor.set_(placed)
