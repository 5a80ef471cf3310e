"""What a worker needs besides its tensors to go on bit for bit: step, random states, data position, rates.

A JSON document of some kilobytes. Random states travel as base64; nothing is pickled.
"""

from __future__ import annotations

import base64
import json
import random
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from .tensors import hyperparameters, set_hyperparameters

FORMAT = 1


def pack(
    step: int,
    rank: int,
    optimizer: Optimizer,
    generators: Mapping[str, torch.Generator],
    more: Mapping[str, Any] | None = None,
) -> bytes:
    """Everything as a document.

    Args:
        step: iterations finished.
        rank: place in the job: gloo sums gradients in the order of the ranks.
        generators: of data loaders, by a name of the job's own choice.
        more: whatever else the job has to carry, as JSON takes it (``state_dict()`` of a data loader or of a
            learning-rate schedule).
    """
    document = {
        "format": FORMAT,
        "step": step,
        "rank": rank,
        "hyperparameters": hyperparameters(optimizer),
        "generators": {name: _text(one.get_state()) for name, one in generators.items()},
        "torch": _text(torch.get_rng_state()),
        "cuda": [_text(state) for state in _cuda_states()],
        "python": random.getstate(),
        "numpy": _numpy_state(),
        "more": dict(more or {}),
    }
    return json.dumps(document).encode()


def unpack(
    extras: bytes | memoryview, optimizer: Optimizer, generators: Mapping[str, torch.Generator]
) -> dict[str, Any]:
    """Put the random states, rates and generators back; the document, with ``step``, ``rank`` and ``more``.

    Raises:
        ValueError: of another format, or a generator is missing on either side.
    """
    document: dict[str, Any] = json.loads(bytes(extras))
    if document.get("format") != FORMAT:
        raise ValueError(f"a worker's extras of format {document.get('format')!r}, this is {FORMAT}")
    if set(document["generators"]) != set(generators):
        raise ValueError(
            f"the source has the generators {sorted(document['generators'])}, "
            f"this worker has {sorted(generators)}"
        )
    set_hyperparameters(optimizer, document["hyperparameters"])
    for name, state in document["generators"].items():
        generators[name].set_state(_state(state))
    torch.set_rng_state(_state(document["torch"]))
    if document["cuda"]:
        torch.cuda.set_rng_state_all([_state(state) for state in document["cuda"]])
    version, internal, gauss = document["python"]
    random.setstate((version, tuple(internal), gauss))
    _set_numpy_state(document["numpy"])
    return document


def _cuda_states() -> list[torch.Tensor]:
    return list(torch.cuda.get_rng_state_all()) if torch.cuda.is_available() else []


def _text(state: torch.Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode()


def _state(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)


def _numpy_state() -> list[Any] | None:
    """The state of numpy's global generator, where something has imported numpy."""
    if "numpy" not in sys.modules:
        return None
    kind, keys, place, has_gauss, gauss = sys.modules["numpy"].random.get_state()
    return [kind, keys.tolist(), place, has_gauss, gauss]


def _set_numpy_state(state: list[Any] | None) -> None:
    if state is not None:
        import numpy as np

        np.random.set_state((state[0], np.array(state[1], dtype=np.uint32), *state[2:]))
