"""A training worker's tensors: named, and moved once into the memory that the mover sends from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import xxhash
from torch import Tensor, nn
from torch.optim import Optimizer


class Memory(Protocol):
    """Named regions of bytes, as :class:`monkeytree.agent.arena.Arena` has them."""

    def view(self, name: str) -> memoryview:
        """The bytes of a region, writable and without a copy."""


@dataclass(frozen=True, slots=True)
class Named:
    """One tensor of the state.

    Attributes:
        name: ``model/NAME`` or ``optimizer/NAME/KEY``; the same in every process that builds the same job.
        tensor: the tensor that the training uses.
    """

    name: str
    tensor: Tensor

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.tensor.numel() * self.tensor.element_size()


def prime(optimizer: Optimizer) -> None:
    """Give a new optimizer the state that it would make at its first step, so that the state has a place.

    For optimizers whose state starts as zeros and counts (Adam, AdamW, RMSprop, SGD with momentum): training
    goes on bit for bit as without. Nothing happens where there is state already.
    """
    if optimizer.state:
        return
    rates = [
        {key: group[key] for key in ("lr", "weight_decay") if key in group}
        for group in optimizer.param_groups
    ]
    for group in optimizer.param_groups:
        group.update({key: 0.0 for key in ("lr", "weight_decay") if key in group})
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group.update(rate)
    for held in optimizer.state.values():
        if isinstance(held.get("step"), Tensor):
            held["step"].zero_()
        elif "step" in held:
            held["step"] = 0


def tensors_of(module: nn.Module, optimizer: Optimizer) -> list[Named]:
    """Parameters, buffers and the optimizer's tensors in one fixed order.

    Raises:
        ValueError: a parameter of the optimizer is not one of the module.
    """
    names = {parameter: name for name, parameter in module.named_parameters()}
    found = [Named(f"model/{name}", parameter) for name, parameter in module.named_parameters()]
    found += [Named(f"model/{name}", buffer) for name, buffer in module.named_buffers()]
    for parameter, held in optimizer.state.items():
        if parameter not in names:
            raise ValueError(
                "the optimizer trains a parameter that the module does not have: pass both whole"
            )
        for key, value in held.items():
            if isinstance(value, Tensor):
                found.append(Named(f"optimizer/{names[parameter]}/{key}", value))
    return found


def sizes_of(tensors: list[Named]) -> dict[str, int]:
    """Region name -> bytes, in the order in which they lie."""
    return {one.name: one.nbytes for one in tensors}


def adopt(memory: Memory, module: nn.Module, optimizer: Optimizer, *, keep: bool = True) -> None:
    """Make the regions of ``memory`` the storage of the tensors: from here on the training runs on them.

    Args:
        keep: copy the present values in. False on a standby, whose memory the mover fills.

    Raises:
        ValueError: a tensor is not on the CPU or not contiguous.
    """
    with torch.no_grad():
        for one in tensors_of(module, optimizer):
            placed = tensor_over(memory.view(one.name), one.tensor)
            if keep:
                placed.copy_(one.tensor)
            one.tensor.set_(placed)


def tensor_over(region: memoryview, like: Tensor) -> Tensor:
    """A tensor of the type and shape of ``like`` whose storage is ``region``.

    Raises:
        ValueError: as in :func:`adopt`, or the sizes differ.
    """
    if like.device.type != "cpu" or not like.is_contiguous():
        raise ValueError(
            f"a {like.device.type} tensor, contiguous: {like.is_contiguous()}; "
            "state in host memory has to be contiguous and on the CPU"
        )
    if region.nbytes != like.numel() * like.element_size():
        raise ValueError(
            f"a region of {region.nbytes} bytes for a tensor of {tuple(like.shape)} {like.dtype}"
        )
    if region.nbytes == 0:
        return torch.empty_like(like)
    return torch.frombuffer(region, dtype=like.dtype).view(like.shape)


def digest(module: nn.Module, optimizer: Optimizer) -> str:
    """xxh3_128 over names and bytes of weights and optimizer state, as hexadecimal."""
    state = xxhash.xxh3_128()
    for one in tensors_of(module, optimizer):
        state.update(one.name.encode())
        state.update(bytes_of(one.tensor))
    return state.hexdigest()


def bytes_of(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous CPU tensor, where they lie."""
    flat = tensor.detach().view(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)
    return memoryview(flat.numpy())


def hyperparameters(optimizer: Optimizer) -> list[dict[str, Any]]:
    """What the optimizer's groups hold besides parameters: a schedule may have changed the learning rate."""
    return [
        {key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups
    ]


def set_hyperparameters(optimizer: Optimizer, groups: list[Mapping[str, Any]]) -> None:
    """Put them back; JSON turned tuples (the betas) into lists."""
    for group, saved in zip(optimizer.param_groups, groups, strict=True):
        group.update({key: _plain(value) for key, value in saved.items()})


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
