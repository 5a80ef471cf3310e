"""A process group for torch's own modules whose gloo group can be replaced: no default group is needed.

``DistributedDataParallel`` takes any ``ProcessGroup``, and torch lets Python subclass that. This one keeps
its identity through all memberships, while the group behind it is formed anew. Its waits are those of
:class:`.groups.GlooGroup`: sliced, so that a lost rank is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .groups import GlooGroup
from .refusals import Misplaced

ADVICE = (
    "ranks may talk to each other from the beginning of `with iteration` to optimizer.step() only: elsewhere "
    "a job that has just been moved would wait for ever (docs/training.md, Where ranks may talk)"
)


class Done(dist.Work):
    """An operation that is over."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._future: torch.futures.Future[Any] = torch.futures.Future()
        self._future.set_result(result)

    def wait(self, timeout: Any = None) -> bool:
        """At once."""
        return True

    def is_completed(self) -> bool:
        """It is."""
        return True

    def is_success(self) -> bool:
        """It was."""
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        """With the result set."""
        return self._future


class ReformingGroup(dist.ProcessGroup):
    """What ``DistributedDataParallel`` is built over.

    Attributes:
        group: the present one; None while nothing may be sent.
        order: ranks of the job by their place in ``group``.
        closed: why nothing may be sent now, "" where it may.
    """

    def __init__(self, rank: int, world_size: int) -> None:
        super().__init__(rank, world_size)
        self.group: GlooGroup | None = None
        self.order: Sequence[int] = range(world_size)
        self.closed = ""
        self._dry = False

    @contextmanager
    def dry(self) -> Any:
        """Operations do nothing meanwhile: for an iteration without the others."""
        self._dry = True
        try:
            yield
        finally:
            self._dry = False

    def present(self) -> GlooGroup | None:
        """The group to send through; None in an iteration without the others.

        Raises:
            Misplaced: this is no place to talk to other ranks.
        """
        if self._dry:
            return None
        if self.closed or self.group is None:
            raise Misplaced(f"{self.closed or 'there is no group yet'}: {ADVICE}")
        return self.group

    # What torch calls, by torch's names.

    def getBackendName(self) -> str:  # noqa: N802
        """For messages of torch."""
        return "monkeytree"

    def allreduce(self, tensors: Any, opts: Any = None) -> Done:
        """Over all ranks, in place."""
        opts = opts or dist.AllreduceOptions()
        return self._run(lambda gloo: gloo.allreduce(_listed(tensors), opts), tensors)

    def broadcast(self, tensors: Any, opts: Any = None) -> Done:
        """From ``opts.rootRank``, a rank of the job, in place."""
        at_place = dist.BroadcastOptions()
        at_place.rootRank = list(self.order).index(opts.rootRank if opts is not None else 0)
        return self._run(lambda gloo: gloo.broadcast(_listed(tensors), at_place), tensors)

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Done:
        """Tensors of all ranks, by rank of the job."""
        by_place = [[outputs[rank] for rank in self.order] for outputs in output_tensors]
        return self._run(lambda gloo: gloo.allgather(by_place, input_tensors), output_tensors)

    def barrier(self, opts: Any = None) -> Done:
        """All ranks are here."""
        return self.allreduce([torch.zeros(1)])

    def _run(self, operation: Callable[[dist.ProcessGroupGloo], dist.Work], result: Any) -> Done:
        group = self.present()
        if group is not None:
            group.finish([group.begin(operation)])
        return Done(result)


def _listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)
