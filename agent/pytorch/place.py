"""Who a training process is: from the variables that torchrun sets, or as a standby from its mover."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from ..standby import Calling
from ..store import StoreLost
from .refusals import NotMovable
from .store import open_store

GROUP = "0"
_KEPT = (
    "PYTHONPATH", "PYTHONHASHSEED", "VIRTUAL_ENV", "MKL_NUM_THREADS", "TORCHELASTIC_RESTART_COUNT",
    "LOCAL_RANK", "LOCAL_WORLD_SIZE",
)  # fmt: skip
"""Variables that a standby gets from the process it stands by for, besides its place."""


@dataclass(frozen=True, slots=True)
class Place:
    """A rank of a job.

    Attributes:
        job: id of the job, as in snapshots: ``MONKEYTREE_JOB``, or that of Slurm or torchrun.
        rank: ``RANK``; of a standby the rank that it is to take over.
        world_size: ``WORLD_SIZE``.
        host, port: ``MASTER_ADDR`` and ``MASTER_PORT``: where the job's store is. It must not be in a rank.
        attempt: how often torchrun has started the job before.
        standby: whether this process waits for another one's state.
    """

    job: str
    rank: int
    world_size: int
    host: str
    port: int
    attempt: str = "0"
    standby: bool = False

    @classmethod
    def of_environment(cls, environ: Mapping[str, str] | None = None) -> Place:
        """Read the variables.

        Raises:
            NotMovable: one is missing or no number.
        """
        found = os.environ if environ is None else environ
        calling = Calling.of_environment(found)
        names = (found.get(name) for name in ("MONKEYTREE_JOB", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"))
        job = next((name for name in names if name and name != "none"), "job")
        place = cls(
            calling.job if calling else job,
            calling.rank if calling else _number(found, "RANK"),
            _number(found, "WORLD_SIZE"),
            found.get("MASTER_ADDR") or "127.0.0.1",
            _number(found, "MASTER_PORT"),
            found.get("TORCHELASTIC_RESTART_COUNT") or "0",
            calling is not None,
        )
        if not 0 <= place.rank < place.world_size:
            raise NotMovable(f"RANK is {place.rank} and WORLD_SIZE {place.world_size}: ranks count from 0")
        return place

    def open_store(self, timeout_s: float = 60.0) -> dist.Store:
        """The job's store, for this start of the job alone; it may be started after the ranks.

        Raises:
            NotMovable: nothing answers there.
        """
        try:
            store = open_store(self.port, self.host, timeout_s)
        except StoreLost as error:
            raise NotMovable(
                f"no store of the job at {self.host}:{self.port}: start it beside the ranks, `python -m "
                f"monkeytree.agent.pytorch.store {self.host}:{self.port}`, so that rank 0 can move too. "
                f"torchrun hosts one itself ({error})"
            ) from None
        return dist.PrefixStore(f"{self.job}/{self.attempt}", store)

    def standby_command(self) -> tuple[str, ...]:
        """This very command, in this very folder."""
        words = tuple(sys.orig_argv[1:])
        return ("/bin/sh", "-c", 'cd "$0" && exec "$@"', os.getcwd(), sys.executable, *words)

    def standby_env(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What that command needs of the environment; ``more`` is the job's own."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        if sys.orig_argv[1:2] == ["-m"]:
            kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path.cwd()), kept.get("PYTHONPATH")]))
        return {
            **kept,
            "OMP_NUM_THREADS": str(torch.get_num_threads()),  # as many threads, or sums differ in last bits
            "MONKEYTREE_JOB": self.job,
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.world_size),
            "MASTER_ADDR": self.host,
            "MASTER_PORT": str(self.port),
            **(more or {}),
        }


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    if not text.isdecimal():
        raise NotMovable(
            f"{name} is {text!r}: start the script with torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR and "
            "MASTER_PORT as it does"
        )
    return int(text)
