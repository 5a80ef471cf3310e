"""A gloo group for each membership of a job, formed beside the old one; no wait without a deadline.

gloo tells only the neighbours of a dead rank that it is gone; others hang until gloo's own time limit. So who
finds out says so in the store, and everybody looks there while waiting.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

SLICE = timedelta(milliseconds=50)
LOST = "lost"
_graveyard: list[object] = []
"""Groups with an operation that hangs: destroying one would wait for it."""


class GroupBroken(RuntimeError):
    """A rank of the group is gone or did not answer in time."""


class GlooGroup:
    """The ranks of a job in one membership.

    Attributes:
        name: of the membership: each re-forming has one of its own.
        rank, size: this process's place, and how many there are.
        formed_s: what forming took here.
        interrupt: looked at while waiting: True gives the operation up.
    """

    def __init__(
        self,
        store: dist.Store,
        name: str,
        rank: int,
        size: int,
        timeout_s: float = 30.0,
        interrupt: Callable[[], bool] = lambda: False,
    ) -> None:
        """Meet the others of membership ``name`` and connect to each.

        Args:
            store: the job's; the same place for all ranks.
            timeout_s: for this and for every operation.

        Raises:
            GroupBroken: they did not all come in time.
        """
        begun = time.monotonic()
        self.name, self.rank, self.size = name, rank, size
        self.timeout_s = timeout_s
        self.interrupt = interrupt
        self._store = dist.PrefixStore(f"group/{name}", store)
        self._gather(begun + timeout_s)
        try:
            self._group = dist.ProcessGroupGloo(self._store, rank, size, timedelta(seconds=timeout_s))
        except RuntimeError as error:
            raise GroupBroken(f"group {name}: rank {rank} could not meet all {size} ranks: {error}") from None
        self.formed_s = time.monotonic() - begun

    def sum(self, tensors: Sequence[Tensor], timeout_s: float | None = None) -> None:
        """Add up the tensors of all ranks, in place, the same bits on each.

        Raises:
            GroupBroken: a rank is gone, said by gloo, by another rank or by the clock.
        """
        self.finish([self.begin(_sum_of(tensor)) for tensor in tensors], timeout_s)

    def begin(self, operation: Callable[[dist.ProcessGroupGloo], dist.Work]) -> dist.Work:
        """Start an operation that all ranks start in the same order; hand it to :meth:`finish`.

        Raises:
            GroupBroken: gloo does not take it any more.
        """
        try:
            return operation(self._group)
        except RuntimeError as error:
            self.abandon()
            reason = str(error).splitlines()[0]
            raise GroupBroken(f"group {self.name}, rank {self.rank}: {reason}") from error

    def finish(self, works: Sequence[dist.Work], timeout_s: float | None = None) -> None:
        """Wait for operations.

        Raises:
            GroupBroken: as in :meth:`sum`; their tensors must not be used again.
        """
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        for work in works:
            self._finish(work, deadline)

    def meet(self, timeout_s: float | None = None) -> None:
        """Wait until all ranks are here.

        Raises:
            GroupBroken: as above.
        """
        self.sum([torch.zeros(1)], timeout_s)

    def break_up(self) -> None:
        """Tell the others that this group is of no use any more."""
        try:
            self._store.set(LOST, "1")
        except RuntimeError:  # the store is gone: they will notice too
            return

    def abandon(self) -> None:
        """As :meth:`break_up`, where operations may be under way that nobody will wait for."""
        _bury(self._group)
        self.break_up()

    def _gather(self, deadline: float) -> None:
        """Wait until every rank has come: gloo would wait several times its limit for one that does not."""
        if self._store.add("here", 1) == self.size:
            self._store.set("all", "1")
        pause_s = 0.0002
        while not self._store.check(["all"]):
            if self._store.check([LOST]) or self.interrupt() or time.monotonic() > deadline:
                here = self._store.add("here", 0)
                self.break_up()
                raise GroupBroken(f"group {self.name}: {here} of {self.size} ranks came")
            time.sleep(pause_s)
            pause_s = min(0.005, 1.5 * pause_s)

    def _finish(self, work: dist.Work, deadline: float) -> None:
        while True:
            try:
                work.wait(SLICE)
                return
            except RuntimeError:
                reason = self._trouble(work, deadline)
            if reason is not None:
                _bury((self._group, work))
                self.break_up()
                raise GroupBroken(f"group {self.name}, rank {self.rank}: {reason}")

    def _trouble(self, work: dist.Work, deadline: float) -> str | None:
        """Why the work will come to nothing; None when it has come to something or is still under way."""
        if work.is_completed():
            try:
                work.wait()
            except RuntimeError as error:
                return str(error).splitlines()[0]
            return None
        if self._store.check([LOST]):
            return "another rank found one gone"
        if self.interrupt():
            return "given up"
        return "a rank did not answer in time" if time.monotonic() > deadline else None


def _bury(broken: object) -> None:
    """Keep it for ever, past the end of the interpreter too."""
    _graveyard.append(broken)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(broken))


def _sum_of(tensor: Tensor) -> Callable[[dist.ProcessGroupGloo], dist.Work]:
    return lambda gloo: gloo.allreduce([tensor])


class Bucket:
    """Gradients side by side in one tensor, so that one operation sums them all; made before training."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._make()

    def reduce(self, group: GlooGroup, loss: Tensor, stop: bool = False) -> tuple[float, bool]:
        """Average the gradients over the ranks.

        Args:
            stop: whether this rank wants this iteration to be the last.

        Returns:
            The mean of the ranks' losses, and whether any rank wants to stop: the same for all of them.

        Raises:
            GroupBroken: see :meth:`GlooGroup.sum`. The gradients are then of no use.
        """
        for one, view in zip(self._parameters, self._views, strict=True):
            if one.grad is None:
                view.zero_()
            else:
                view.copy_(one.grad)
        self._flat[-2], self._flat[-1] = loss.detach(), float(stop)
        try:
            group.sum([self._flat])
        except GroupBroken:
            self._make()  # an operation that hangs may write into the old one yet
            raise
        self._flat.div_(group.size)
        for one, view in zip(self._parameters, self._views, strict=True):
            one.grad = view
        return float(self._flat[-2]), bool(self._flat[-1] > 0)

    def _make(self) -> None:
        sizes = [one.numel() for one in self._parameters]
        self._flat = torch.zeros(sum(sizes) + 2)
        parts = self._flat[:-2].split(sizes)
        self._views = [part.view_as(one) for part, one in zip(parts, self._parameters, strict=True)]
