"""torch's DistributedDataParallel over a group that can be formed anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .reforming import ReformingGroup
from .refusals import NotMovable
from .sums import GradientSums

REFUSED: Mapping[str, str] = {
    "process_group": "Training forms the group, and forms it anew when a rank moves",
    "device_mesh": "Training forms the group, and forms it anew when a rank moves",
    "init_sync": "parameters are the same on all ranks when training begins, and are not sent again",
    "static_graph": "it learns from its first iteration, which is another one on a rank that has moved",
    "device_ids": "the model has to be on the CPU (docs/training.md, On GPUs)",
    "output_device": "the model has to be on the CPU (docs/training.md, On GPUs)",
    "mixed_precision": "it brings a hook of its own; use torch.autocast in the forward pass",
    "delay_all_reduce_named_params": "those parameters are summed past the hook",
    "param_to_hook_all_reduce": "those parameters are summed past the hook",
}
"""Options of DistributedDataParallel that cannot be given, and why."""


def check_options(options: Mapping[str, Any]) -> None:
    """Look at options of DistributedDataParallel.

    Raises:
        NotMovable: one of them cannot be given.
    """
    for name in options:
        if name in REFUSED:
            raise NotMovable(
                f"DistributedDataParallel({name}=...) cannot be given to Training: {REFUSED[name]}"
            )


class Touch(nn.Module):
    """Uses every parameter, and gives each a gradient of zeros."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self) -> Tensor:
        """Zero."""
        trained = [one for one in self.model.parameters() if one.requires_grad]
        return torch.stack([one.flatten()[:0].sum().float() for one in trained]).sum()


class Wrapping:
    """A wrapper that keeps its identity: the script's name for it is good as long as it trains.

    Attributes:
        ddp: the model as DistributedDataParallel.
    """

    def __init__(
        self, model: nn.Module, group: ReformingGroup, options: Mapping[str, Any], *, sync: bool
    ) -> None:
        """``sync``: send parameters and buffers of rank 0 to all."""
        self._model, self._group, self._options = model, group, dict(options)
        self.ddp = DistributedDataParallel(model, process_group=group, init_sync=sync, **self._options)
        self._hook()

    def anew(self) -> None:
        """Forget an iteration that failed half-way: what the wrapper counted of it cannot be taken back."""
        training, hooks = self.ddp.training, _hooks(self.ddp)
        self.clear()
        del self.ddp.reducer, self.ddp.logger  # their hooks at the parameters go with them
        self.ddp.__init__(self._model, process_group=self._group, init_sync=False, **self._options)
        self.ddp.training = training
        for name, held in hooks.items():
            getattr(self.ddp, name).update(held)
        self._hook()

    def alone(self, work: Callable[[DistributedDataParallel], Any]) -> None:
        """Run an iteration without the others; its gradients are of no use."""
        with self._group.dry():
            work(self.ddp)
        self.clear()

    def clear(self) -> None:
        """No parameter has a gradient afterwards."""
        for one in self._model.parameters():
            one.grad = None

    def _hook(self) -> None:
        trained = [one for one in self._model.parameters() if one.requires_grad]
        sums = GradientSums(trained, self._group)
        self.ddp.register_comm_hook(sums, lambda state, bucket: state.hook(bucket))
        if not self._options.get("find_unused_parameters"):
            self.alone(self._rebuild)

    def _rebuild(self, ddp: DistributedDataParallel) -> None:
        """Have the buckets rebuilt now. It talks to the other ranks, who may have done that long ago."""
        ddp.module = Touch(self._model)
        try:
            with torch.enable_grad():
                ddp().backward()
                ddp().backward()  # a forward pass alone would leave it waiting for gradients
        finally:
            ddp.module = self._model


def _hooks(module: nn.Module) -> dict[str, dict[Any, Any]]:
    """Hooks that the script has put on the wrapper."""
    names = [name for name in vars(module) if name.startswith("_forward") and "hooks" in name]
    return {name: dict(getattr(module, name)) for name in names}
