"""What ``watch`` must know again after a restart: the last sequence and what was sent with it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from monkeytree import limits


@dataclass(frozen=True, slots=True)
class Memory:
    """The last snapshot that the service took.

    Attributes:
        sequence: its sequence; -1 before the first.
        sent: what it was the snapshot of, see :func:`monkeytree.slurm.watch.fingerprint`.
    """

    cluster: str = ""
    sequence: int = -1
    sent: str = ""
    snapshot_id: str = ""
    plan_id: str = ""


def recall(path: Path) -> Memory:
    """The memory in a file; an empty one where there is none or it cannot be read.

    A lost memory costs one POST more: the service tells the sequence it knows.
    """
    try:
        document: Any = json.loads(path.read_text("utf-8"))
        known = {name: document[name] for name in Memory.__slots__}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Memory()
    sequence = known["sequence"]
    good = (
        type(sequence) is int
        and -1 <= sequence < limits.SEQUENCE.high
        and all(isinstance(value, str) for name, value in known.items() if name != "sequence")
    )
    return Memory(**known) if good else Memory()


def remember(path: Path, memory: Memory) -> None:
    """Write it so that a crash leaves the old or the new.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as stream:
        json.dump(asdict(memory), stream)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(path)
