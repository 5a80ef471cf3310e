"""The communication hook: gradients averaged to the same bits in whatever buckets they come.

gloo adds up the parts of a ring in an order that depends on where in the buffer a value lies. Buckets of
DistributedDataParallel are rebuilt after its first iteration, which for a rank that has moved is not the
first of the others: with sums by bucket a move would change last bits. So what goes over the network is cut
here, in pieces that follow from the model alone, and is sent in an order that does too.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .groups import GlooGroup
from .reforming import ReformingGroup
from .refusals import NotMovable

OWN_PIECE_BYTES = 2**20
"""A gradient of this size is a piece of its own, summed where it lies; smaller ones are put together."""


class Piece:
    """Gradients that one operation sums."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = tuple(parameters)
        self.missing = len(self.parameters)
        self._found: dict[nn.Parameter, Tensor] = {}
        self._sum: Tensor | None = None
        self._flat: Tensor | None = None

    def take(self, parameter: nn.Parameter, gradient: Tensor) -> None:
        """A gradient is there: flat, in a bucket."""
        self._found[parameter] = gradient
        self.missing -= 1

    def begin(self, group: GlooGroup) -> dist.Work:
        """Start the sum over the ranks; of gradients that did not come, zeros."""
        if len(self.parameters) == 1 and not self.missing:
            self._sum = self._found[self.parameters[0]]
        else:
            self._sum = self._gather()
        self._sum.div_(group.size)  # before the sum, as DistributedDataParallel does
        summed = self._sum
        return group.begin(lambda gloo: gloo.allreduce([summed]))

    def end(self) -> None:
        """The sum is there: back into the buckets with it."""
        if self._flat is not None and self._sum is self._flat:
            for parameter, part in zip(self.parameters, self._parts(self._flat), strict=True):
                if parameter in self._found:
                    self._found[parameter].copy_(part)
        self.forget()

    def forget(self) -> None:
        """Be ready for the next iteration."""
        self._found, self._sum, self.missing = {}, None, len(self.parameters)

    def _gather(self) -> Tensor:
        if self._flat is None:
            numel = sum(one.numel() for one in self.parameters)
            self._flat = torch.empty(numel, dtype=self.parameters[0].dtype)
        for parameter, part in zip(self.parameters, self._parts(self._flat), strict=True):
            found = self._found.get(parameter)
            part.zero_() if found is None else part.copy_(found)
        return self._flat

    def _parts(self, flat: Tensor) -> Sequence[Tensor]:
        return flat.split([one.numel() for one in self.parameters])


class GradientSums:
    """State of the hook. Sums run while the backward pass goes on; who is last waits for all."""

    def __init__(self, parameters: Sequence[nn.Parameter], group: ReformingGroup) -> None:
        """``parameters`` in their order of the model: those that are trained."""
        self._group = group
        self._pieces = cut(parameters)
        self._piece_of = {one: piece for piece in self._pieces for one in piece.parameters}
        self._begun: list[tuple[Piece, dist.Work]] = []
        self._results: list[tuple[torch.futures.Future[Tensor], Tensor]] = []

    def hook(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """For ``register_comm_hook``.

        Raises:
            GroupBroken: a rank is gone; the gradients are of no use.
        """
        group = self._group.present()
        future: torch.futures.Future[Tensor] = torch.futures.Future()
        self._results.append((future, bucket.buffer()))
        if group is not None:
            self._take(bucket)
            self._send(group, everything=bucket.is_last())
        if bucket.is_last():
            self._finish(group)
        return future

    def _take(self, bucket: dist.GradBucket) -> None:
        buffer = bucket.buffer()
        if buffer.is_sparse:
            raise NotMovable("a gradient is sparse: make the embedding with sparse=False")
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            start = gradient.storage_offset() - buffer.storage_offset()
            self._piece_of[parameter].take(parameter, buffer[start : start + gradient.numel()])

    def _send(self, group: GlooGroup, *, everything: bool) -> None:
        """Start what is complete, in the order of the pieces: the same on all ranks."""
        for piece in self._pieces[len(self._begun) :]:
            if piece.missing and not everything:
                return
            self._begun.append((piece, piece.begin(group)))

    def _finish(self, group: GlooGroup | None) -> None:
        if group is not None:
            group.finish([work for _, work in self._begun])
        for piece, _ in self._begun:
            piece.end()
        for future, buffer in self._results:
            future.set_result(buffer)
        self._begun, self._results = [], []


def cut(parameters: Sequence[nn.Parameter]) -> list[Piece]:
    """Pieces from the last parameter to the first, as gradients come about."""
    pieces: list[Piece] = []
    together: list[nn.Parameter] = []
    for one in reversed(parameters):
        alone = one.numel() * one.element_size() >= OWN_PIECE_BYTES
        if together and (alone or together[0].dtype != one.dtype or _bytes(together) >= OWN_PIECE_BYTES):
            pieces.append(Piece(together))
            together = []
        if alone:
            pieces.append(Piece([one]))
        else:
            together.append(one)
    return [*pieces, Piece(together)] if together else pieces


def _bytes(parameters: Sequence[nn.Parameter]) -> int:
    return sum(one.numel() * one.element_size() for one in parameters)
