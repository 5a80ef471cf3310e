"""The batches of a DataLoader, epoch after epoch, at a place that goes with the rank."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler

from .refusals import NotMovable


class ShardSampler(DistributedSampler[Any]):
    """torch's DistributedSampler that can begin in mid-epoch without loading what comes before.

    Attributes:
        skipped: samples of the epoch that are left out at its beginning.
    """

    skipped = 0

    def __iter__(self) -> Iterator[int]:
        return islice(super().__iter__(), self.skipped, None)


class Batches:
    """An endless iterator over a loader: ``next(batches)`` in each iteration, and itself in ``carry``.

    Attributes:
        epoch: from 0; the sampler's ``set_epoch`` hears of each.
        batch: batches of it that were handed out.
    """

    def __init__(self, loader: DataLoader[Any], seed: int = 0) -> None:
        """``seed`` with the epoch makes the seeds of the loader's worker processes.

        The loader needs a sampler whose order follows from the epoch: :class:`ShardSampler`, torch's
        DistributedSampler (which loads skipped batches once more), or no shuffling at all. What worker
        processes draw at random is not carried: let it follow from the sample's index, or use
        ``num_workers=0``.

        Raises:
            NotMovable: the loader shuffles by itself.
        """
        if isinstance(loader.sampler, torch.utils.data.RandomSampler):
            raise NotMovable(
                "the loader shuffles by itself, and nothing can say where it stands: give it "
                "sampler=ShardSampler(dataset, num_replicas=place.world_size, rank=place.rank) instead"
            )
        self._loader, self._seed = loader, seed
        self._found: Iterator[Any] | None = None
        self.epoch = self.batch = 0

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        if self._found is None:
            self._found = self._begin()
        batch = next(self._found, None)
        if batch is None:
            if self.batch == 0:
                raise NotMovable(f"the loader has no batch in epoch {self.epoch}: is its dataset empty?")
            self.epoch, self.batch, self._found = self.epoch + 1, 0, None
            return next(self)
        self.batch += 1
        return batch

    def state_dict(self) -> dict[str, int]:
        """The place."""
        return {"epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go on from there."""
        self.epoch, self.batch, self._found = state_dict["epoch"], state_dict["batch"], None

    def _begin(self) -> Iterator[Any]:
        """The epoch from its present batch on. Nothing is drawn from the training's random numbers."""
        sampler, size = self._loader.sampler, self._loader.batch_size
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(self.epoch)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed * 1_000_003 + self.epoch)
            if isinstance(sampler, ShardSampler) and size is not None:
                sampler.skipped = self.batch * size
                return iter(self._loader)
            found = iter(self._loader)
            for _ in range(self.batch):
                next(found)
            return found
