"""A training loop over DistributedDataParallel whose ranks can be moved; docs/training.md has a whole script.

    place = Place.of_environment()                                   # instead of init_process_group
    training = Training(model, optimizer, place, carry={"data": batches, "scheduler": scheduler})
    ddp = training.ddp                                               # instead of DDP(model)
    for iteration in training.iterations(steps):                     # instead of range(steps)
        with iteration:
            inputs, labels = next(batches)
            loss_fn(ddp(inputs), labels).backward()
            optimizer.step()
            scheduler.step()
    training.close()

The same script, started by a node's agent, is the standby that takes a rank over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ..client import Worker, register_worker, standby_worker
from ..membership import Membership
from .batches import Batches, ShardSampler
from .carried import Stateful
from .groups import GlooGroup, GroupBroken
from .place import GROUP, Place
from .reforming import ReformingGroup
from .refusals import Misplaced, NotMovable, check_model
from .state import TrainingState
from .store import TorchStore
from .wrapping import Wrapping, check_options

__all__ = [
    "Batches", "GroupBroken", "Iteration", "Misplaced", "Moved", "NotMovable", "Place", "ShardSampler",
    "Training",
]  # fmt: skip

log = logging.getLogger(__name__)


class Moved(SystemExit):
    """This rank lives in another process now; uncaught, this one leaves with exit code 0."""


class Training:
    """Model and optimizer of one rank, in memory that it can be moved from.

    Attributes:
        ddp: the model, wrapped; the same object as long as the training lasts.
        step: iterations finished: where a standby goes on.
        place: who this process is.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        place: Place,
        *,
        carry: Mapping[str, Stateful] | None = None,
        generators: Mapping[str, torch.Generator] | None = None,
        warm_up: Callable[[DistributedDataParallel], Any] | None = None,
        timeout_s: float = 1_800.0,
        forming_s: float = 300.0,
        standby_env: Mapping[str, str] | None = None,
        standby_command: Sequence[str] | None = None,
        slots: int = 1,
        **ddp: Any,
    ) -> None:
        """Put the state into an arena and wrap the model; the ranks of a new job meet here.

        Args:
            model: bare, on the CPU, whole: load a checkpoint before, into optimizer and all else too.
            optimizer: of all its trained parameters.
            carry: what else has a state dict and goes with the rank (:class:`.batches.Batches`, schedulers),
                by a name of your choice.
            generators: random generators of your own, by name. torch's, Python's and numpy's go anyway.
            warm_up: called with ``ddp`` in a standby before the state comes: an iteration on any numbers,
                without the optimizer's step, so that the first real one waits for no kernels and memory.
            timeout_s: of one operation over all ranks. A process that ends is noticed at once; this is for
                hosts that fall silent.
            forming_s: in which all ranks of a new job have to come.
            standby_env: environment variables that the script needs, besides those of :class:`.place.Place`.
            standby_command: starts the standby; by default this process's own command, in its own folder.
            slots: that the rank occupies on its node.
            ddp: options of DistributedDataParallel; see :data:`.wrapping.REFUSED`.

        Raises:
            NotMovable: something of it cannot be moved; the message says what to change.
            GroupBroken: not all ranks came.
        """
        check_model(model)
        check_options(ddp)
        self.place, self.step = place, 0
        self._timeout_s = timeout_s
        self._standby = tuple(standby_command or place.standby_command()), place.standby_env(standby_env)
        self._slots = slots
        self._store = TorchStore(place.open_store())
        self._group = ReformingGroup(place.rank, place.world_size)
        self._old: GlooGroup | None = None
        self._worker: Worker | None = None
        self._iteration: Iteration | None = None
        self._state = TrainingState(
            model, optimizer, carry or {}, generators or {}, place.rank, keep=not place.standby
        )
        if not place.standby:
            self._group.group = self._form("start", place.rank, forming_s, lambda: False)
        self._wrapping = Wrapping(model, self._group, ddp, sync=not place.standby)
        self.ddp = self._wrapping.ddp
        self._group.closed = "the training loop has not begun"
        self._optimizer, self._trained = optimizer, frozenset(model.parameters())
        optimizer.register_step_pre_hook(self._before_step)
        self._watch = register_optimizer_step_pre_hook(self._before_any_step)
        if place.standby and warm_up is not None:
            self._wrapping.alone(warm_up)

    @property
    def rank(self) -> int:
        """Of this process in the job."""
        return self.place.rank

    @property
    def world_size(self) -> int:
        """Ranks of the job."""
        return self.place.world_size

    def iterations(self, steps: int) -> Iterator[Iteration]:
        """Iterations until ``steps`` are finished; each a context manager around its body.

        The first call makes the rank known to its node's agent, or, in a standby, waits for a rank's state.

        Raises:
            Moved: the rank lives elsewhere now.
            NotNeeded: this standby takes no rank over.
            StoreLost: the job's store is gone.
        """
        worker = self._worker or self._begin()
        while self.step < steps:
            self._boundary(worker)
            yield Iteration(self)
        if worker.in_probation:  # the first iteration after a move was the last one: the others wait for this
            self._boundary(worker)

    def mean(self, value: Tensor | float) -> float:
        """Mean of a number over the ranks, the same on all; in an iteration, before the optimizer's step.

        Raises:
            Misplaced: elsewhere.
            GroupBroken: a rank is gone.
        """
        number = float(value.detach() if isinstance(value, Tensor) else value)
        total = torch.tensor([number], dtype=torch.float64)
        self._group.allreduce(total)
        return float(total / self.world_size)

    def digest(self) -> str:
        """xxh3_128 over parameters, buffers and optimizer state, as hexadecimal."""
        return self._state.digest()

    def close(self) -> None:
        """The training is over on this rank.

        Raises:
            NotNeeded: this standby's first iteration was taken back.
        """
        self._watch.remove()
        if self._worker is not None:
            self._worker.close()

    def _begin(self) -> Worker:
        if not self.place.standby:
            self._worker = register_worker(
                self.place.job,
                self.place.rank,
                lambda: self._state.hand_over(self.step),
                self._rebind,
                restore_fn=self._restore,
                extras_fn=lambda: self._state.remember(self.step),
                world_size=self.place.world_size,
                store=self._store,
                group=GROUP,
                slots=self._slots,
                standby_command=self._standby[0],
                standby_env=self._standby[1],
            )
        else:
            self._worker = standby_worker(
                lambda: self._state.hand_over(self.step),
                self._rebind,
                restore_fn=self._restore,
                extras_fn=lambda: self._state.remember(self.step),
                store=self._store,
            )
        return self._worker

    def _boundary(self, worker: Worker) -> None:
        if not worker.boundary(self.step):
            raise Moved(0)

    def _restore(self, extras: bytes) -> None:
        """``restore_fn``."""
        self.step = self._state.restore(extras)

    def _rebind(self, membership: Membership) -> None:
        """``rebind_fn``: another group behind the wrapper, which stays; the old one is let go of later."""
        order = membership.orders.get(GROUP, tuple(member.rank for member in membership.members))

        def undone() -> bool:
            """Whether the move was taken back while its group forms: somebody will never come then."""
            return self._store.get(membership.undo_key) == "undo"

        self._old, self._group.group = self._group.group, None
        if self._iteration is not None:  # it failed half-way
            self._iteration = None
            if self._old is not None:
                self._old.abandon()
            self._wrapping.anew()
        place = order.index(self.place.rank)
        self._group.group = self._form(membership.name, place, membership.timeout_s, undone)
        self._group.order = order

    def _form(self, name: str, place: int, limit_s: float, given_up: Callable[[], bool]) -> GlooGroup:
        group = GlooGroup(self._store.torch, name, place, self.place.world_size, limit_s, given_up)
        group.timeout_s = self._timeout_s
        return group

    def _enter(self, iteration: Iteration) -> None:
        worker, group = self._worker, self._group.group
        assert worker is not None, "iterations() makes it"
        assert group is not None, "and that is when the group was formed"
        self._iteration = iteration
        self._wrapping.clear()  # gradients are no state: none may be left from before
        self._group.closed = ""
        group.interrupt = lambda: worker.undone

    def _leave(self) -> None:
        """An iteration is finished."""
        assert self._worker is not None
        if not self._group.closed:  # without a step: a gradient scaler has skipped it
            self._worker.before_update()
        self._group.closed = "this is between two iterations"
        self._iteration, self._old = None, None
        self._state.forget()
        self.step += 1

    def _redo(self, error: Exception) -> None:
        """Be ready to do the iteration again; raises ``error`` unless a move was taken back."""
        assert self._worker is not None
        self._group.closed = "this iteration has failed"
        self._worker.redo(error)
        log.warning("iteration %d is done once more, the move was taken back: %s", self.step, error)

    def _before_step(self, optimizer: Optimizer, words: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Runs before ``optimizer.step()``: the gate of a job that has just been moved."""
        if any(callable(one) for one in (*words[1:], *named.values())):
            raise NotMovable(
                "optimizer.step(closure) computes gradients behind the gate: call step() without"
            )
        if self._iteration is None or self._group.closed:
            where = self._group.closed or "this is outside of an iteration"
            raise Misplaced(f"{where}: optimizer.step() belongs into `with iteration`, once")
        assert self._worker is not None
        self._worker.before_update()
        self._group.closed = "the optimizer has stepped in this iteration"

    def _before_any_step(self, optimizer: Optimizer, *_words: Any) -> None:
        """The state of a second optimizer would not move, and its step does not wait at the gate."""
        others = () if optimizer is self._optimizer else optimizer.param_groups
        if any(one in self._trained for group in others for one in group["params"]):
            kind = type(optimizer).__name__
            raise NotMovable(
                f"a second optimizer ({kind}) trains parameters of the model: give Training one optimizer, "
                "with a parameter group for each set of options"
            )


class Iteration:
    """One iteration: ``with iteration: ...``; where a move was taken back, its body is run again by the loop.

    Attributes:
        step: iterations finished before.
        done: whether it was finished; False before, and where a move was taken back.
    """

    def __init__(self, training: Training) -> None:
        self._training = training
        self.step = training.step
        self.done = False

    def __enter__(self) -> Iteration:
        self._training._enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            try:
                self._training._leave()
                self.done = True
                return False
            except Exception as late:  # noqa: BLE001  # redo raises it again unless the move was taken back
                self._training._redo(late)
                return True
        if not isinstance(error, Exception):
            return False
        try:
            self._training._redo(error)
        except Exception as again:
            if again is error:
                return False  # as it came, from where it came
            raise
        return True
