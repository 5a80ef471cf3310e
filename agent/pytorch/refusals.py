"""What cannot be moved, said before training begins rather than in a pause."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from monkeytree.errors import MonkeyTreeError

START_AT_ZERO = ("Adam", "AdamW", "Adadelta", "Adamax", "RMSprop", "SGD")
"""Optimizers of torch whose state starts at zero, so that ``tensors.prime`` changes nothing."""


class NotMovable(MonkeyTreeError):
    """The training as it is cannot be moved; the message says what to change."""

    code = "not_movable"


class Misplaced(MonkeyTreeError):
    """A call at a place of the loop where a job that has just been moved would stand still."""

    code = "misplaced_call"


def check_model(model: nn.Module) -> None:
    """Look at parameters and buffers.

    Raises:
        NotMovable: one of them cannot lie in an arena.
    """
    if isinstance(model, nn.parallel.DistributedDataParallel):
        raise NotMovable("the model is wrapped already: give the bare module, Training wraps it")
    seen: dict[int, str] = {}
    for name, one in [*model.named_parameters(), *model.named_buffers()]:
        if hasattr(one, "device_mesh"):
            raise NotMovable(
                f"{name} is sharded: fully_shard is not moved (docs/training.md, FSDP2). Give the bare "
                "model, or move a sharded state by the checkpoint path"
            )
        if one.device.type != "cpu":
            raise NotMovable(
                f"{name} is on {one.device}: DistributedDataParallel is moved on the CPU only. Call "
                "model.cpu(), or move a GPU job by monkeytree.agent.client (docs/training.md, On GPUs)"
            )
        if one.layout != torch.strided or not one.is_contiguous():
            raise NotMovable(f"{name} is not contiguous: make it so before, {name} = {name}.contiguous()")
        start = one.untyped_storage().data_ptr()
        if one.numel() and start in seen:
            raise NotMovable(
                f"{name} shares its memory with {seen[start]}: give each its own (.clone()), or make them "
                "one and the same Parameter"
            )
        seen[start] = name


def check_optimizer(optimizer: Optimizer) -> None:
    """Look at an optimizer that has not stepped yet.

    Raises:
        NotMovable: its state does not start at zero, so its place cannot be made before its first step.
    """
    if optimizer.state:
        return
    kind = type(optimizer)
    known = kind.__module__.startswith("torch.optim") and kind.__name__ in START_AT_ZERO
    damped = any(group.get("momentum") and group.get("dampening") for group in optimizer.param_groups)
    if not known or damped:
        what = "SGD with dampening" if known else kind.__name__
        raise NotMovable(
            f"the state of {what} is not known to start at zero: let it take its first step before Training "
            f"is made (its state lies in optimizer.state then), or use one of {', '.join(START_AT_ZERO)}"
        )


def check_state(model: nn.Module, optimizer: Optimizer) -> None:
    """Look at the state of an optimizer that has one.

    Raises:
        NotMovable: something of it would not move.
    """
    names = {parameter: name for name, parameter in model.named_parameters()}
    for parameter, held in optimizer.state.items():
        if parameter not in names:
            raise NotMovable("the optimizer trains a parameter that the model does not have: pass both whole")
        for key, value in held.items():
            if isinstance(value, Tensor):
                if value.device.type != "cpu" or not value.is_contiguous():
                    raise NotMovable(
                        f"the optimizer's {key} of {names[parameter]} is on {value.device}, contiguous: "
                        f"{value.is_contiguous()}; it has to be contiguous and on the CPU"
                    )
            elif value is not None:
                raise NotMovable(
                    f"the optimizer keeps {key} of {names[parameter]} as {_kind(value)}: only tensors move. "
                    "Where it has the option, use capturable=True"
                )


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
