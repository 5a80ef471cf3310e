"""State dicts as JSON and back, exactly: of schedulers, data loaders and whatever else goes with a rank.

Nothing is pickled. Numbers come back to the last bit, and keys and tuples as what they were.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from .refusals import NotMovable

LARGEST_TENSOR_BYTES = 2**20
"""What is larger belongs into a buffer of the model."""
_PLAIN = (bool, int, float, str, type(None))


class Stateful(Protocol):
    """Anything with a state dict."""

    def state_dict(self) -> dict[str, Any]:
        """Its state."""

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any:
        """Go on from there."""


def dump(value: Any, where: str) -> Any:
    """As JSON takes it.

    Args:
        where: name of the value, for messages.

    Raises:
        NotMovable: it has something that is neither number, text, tensor nor a list or dict of these.
    """
    if isinstance(value, Tensor):
        return _dump_tensor(value, where)
    if type(value) in _PLAIN:
        return value
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [dump(one, f"{where}[{index}]") for index, one in enumerate(value)]}
    if isinstance(value, Mapping):
        pairs = [[dump(key, where), dump(one, f"{where}[{key!r}]")] for key, one in value.items()]
        return {"dict": pairs}
    raise NotMovable(
        f"{where} is a {type(value).__module__}.{type(value).__name__}: what goes with a rank is made of "
        "numbers, texts, small tensors, lists and dicts. Have its state_dict() leave it out, or turn it into "
        "those"
    )


def load(document: Any) -> Any:
    """The value of :func:`dump`."""
    if not isinstance(document, dict):
        return document
    ((kind, held),) = document.items()
    if kind == "bytes":
        return base64.b64decode(held)
    if kind == "tensor":
        data = bytearray(base64.b64decode(held["data"]))
        dtype = getattr(torch, held["dtype"])
        flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
        return flat.view(held["shape"])
    if kind == "dict":
        return {load(key): load(one) for key, one in held}
    found = [load(one) for one in held]
    return found if kind == "list" else tuple(found)


def restore(carried: Mapping[str, Stateful], documents: Mapping[str, Any]) -> None:
    """Give each its state; one that is a Counter or an OrderedDict becomes such again.

    Raises:
        NotMovable: the process that moved carried other things.
    """
    if set(carried) != set(documents):
        raise NotMovable(
            f"the process that moved carried {sorted(documents)}, this one carries {sorted(carried)}: both "
            "have to run the same script"
        )
    for name, one in carried.items():
        state = load(documents[name])
        for key, present in one.state_dict().items():
            if isinstance(present, dict) and type(present) is not dict and isinstance(state.get(key), dict):
                state[key] = type(present)(state[key])
        one.load_state_dict(state)


def dumped(carried: Mapping[str, Stateful]) -> dict[str, Any]:
    """All of them.

    Raises:
        NotMovable: as :func:`dump`.
    """
    return {name: dump(one.state_dict(), name) for name, one in carried.items()}


def _dump_tensor(value: Tensor, where: str) -> dict[str, Any]:
    nbytes = value.numel() * value.element_size()
    if nbytes > LARGEST_TENSOR_BYTES:
        raise NotMovable(
            f"{where} is a tensor of {nbytes:,} bytes: what is larger than {LARGEST_TENSOR_BYTES:,} belongs "
            "into the arena; register it as a buffer of the model"
        )
    flat = value.detach().cpu().contiguous().view(-1).view(torch.uint8) if value.numel() else value
    data = base64.b64encode(flat.numpy().tobytes()).decode()
    return {
        "tensor": {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape), "data": data}
    }
