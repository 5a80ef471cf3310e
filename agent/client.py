"""What a training process links: it registers with its node's agent and offers to pause once per iteration.

The loop of a worker, whether it starts the job or takes a rank over::

    worker = register_worker("A", 2, state_fn, rebind_fn, restore_fn=restore, world_size=4, store=store,
                             standby_command=[...])
    # or, in the process that `standby_command` starts:
    worker = standby_worker(state_fn, rebind_fn, restore_fn=restore, store=store)
    step = worker.step                       # 0, or where the rank it took over had paused
    while step < steps:
        if not worker.boundary(step):        # False: this rank lives elsewhere now; leave
            break
        try:
            ...forward, backward, reduce the gradients...
            worker.before_update()           # may raise Undone
        except Exception as error:
            worker.redo(error)               # raises `error` again unless the move was taken back
            continue                         # extras are restored: do the same iteration again
        ...optimizer step...
        step += 1
    worker.close()

When nothing is armed, ``boundary`` reads a word of shared memory and writes another, and ``before_update``
reads an attribute: no system call. Everything else happens in :mod:`.pausing` (the pause) and
:mod:`.probation` (the first iteration after it).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from .membership import Membership, WorkerState
from .probation import Undone
from .standby import STANDBY_VARIABLE, Calling, take_over
from .store import JobStore
from .worker import Identity, NotNeeded, Worker

__all__ = [
    "STANDBY_VARIABLE", "StateFn", "RebindFn", "RestoreFn", "NotNeeded", "Undone", "Worker",
    "register_worker", "standby_worker",
]  # fmt: skip

StateFn = Callable[[], WorkerState]
"""Called when registering (for its arena) and where the worker moves: everything is at rest then. It must not
copy: the arena is where the state lives (a GPU worker copies its state into the arena here)."""
RebindFn = Callable[[Membership], None]
"""Re-forms the communicator; called on every member at once. Raises, or returns within ``timeout_s``."""
RestoreFn = Callable[[bytes], None]
"""Takes ``extras`` back: on a standby whose arena has just been filled, and where an iteration is redone."""
ExtrasFn = Callable[[], bytes]
"""The ``extras`` alone, for the ranks that stay (by default ``state_fn().extras``)."""

AGENT_VARIABLE = "MONKEYTREE_AGENT"
"""Path of the agent's socket (``DATA/agent.sock``), for workers that are not told it."""


def register_worker(
    job: str,
    rank: int,
    state_fn: StateFn,
    rebind_fn: RebindFn,
    *,
    restore_fn: RestoreFn,
    world_size: int,
    store: JobStore,
    extras_fn: ExtrasFn | None = None,
    group: str = "0",
    slots: int = 1,
    standby_command: Sequence[str] = (),
    standby_env: Mapping[str, str] | None = None,
    update_is_local: bool = True,
    socket: str | None = None,
) -> Worker:
    """Tell the node's agent that this process is ``rank`` of ``group`` of ``job``.

    Args:
        job: id of the job, as in snapshots.
        rank: of this worker in its replica group.
        state_fn: see :data:`StateFn`.
        rebind_fn: see :data:`RebindFn`.
        restore_fn: see :data:`RestoreFn`.
        world_size: number of workers of the job, all groups together.
        store: the job's own; keys begin with ``monkeytree/``.
        extras_fn: see :data:`ExtrasFn`.
        group: id of the replica group.
        slots: that it occupies on its node.
        standby_command: starts the process that takes the rank over, on any node, with the same files and
            arguments; it calls :func:`standby_worker`. Without one the worker cannot move (it can pause).
        standby_env: environment variables that process needs.
        update_is_local: whether the optimizer step needs no other rank. Then a move can be taken back
            until the destination has *finished* its first iteration; otherwise (sharded optimizers that
            gather in their step) until all ranks have reduced the gradients of that iteration.
        socket: path of the agent's socket; by default that of ``MONKEYTREE_AGENT``. With neither the
            worker trains on its own, and :meth:`Worker.boundary` always answers True.

    A worker outlives its agent: it connects again by itself, and trains on meanwhile.
    """
    identity = Identity(
        job, group, rank, world_size, slots, tuple(standby_command), dict(standby_env or {}), update_is_local
    )
    _check_start(standby_command, standby_env or {})
    path = socket if socket is not None else os.environ.get(AGENT_VARIABLE, "")
    extras_fn = extras_fn or (lambda: state_fn().extras)
    return Worker(identity, state_fn, rebind_fn, restore_fn, extras_fn, store, path)


def _check_start(command: Sequence[str], env: Mapping[str, str]) -> None:
    """What the system could not start a process with is better told here than when a move comes."""
    for word in (*command, *env, *env.values()):
        if "\0" in word:
            raise ValueError(f"the standby cannot be started with {word!r}: it holds NUL")
    for name in env:
        if not name or "=" in name:
            raise ValueError(f"{name!r} is no name of an environment variable (standby_env)")


def standby_worker(
    state_fn: StateFn,
    rebind_fn: RebindFn,
    *,
    restore_fn: RestoreFn,
    store: JobStore,
    extras_fn: ExtrasFn | None = None,
) -> Worker:
    """Become the successor that this process was started for: call it with the arena ready, state unset.

    Tells the mover that the arena is there (so: build the model and fault the memory in before), waits until
    the state has been written into it, calls ``restore_fn(extras)``, waits for the job's decision, then
    calls ``rebind_fn``. Identity and options come from ``MONKEYTREE_STANDBY`` (:class:`.standby.Calling`).

    Returns:
        The worker, on probation until its first iteration is done; :attr:`Worker.step` says where it starts.

    Raises:
        NotNeeded: the move was aborted: leave with exit code 0. (A SystemExit: uncaught, it does just that.)
        RuntimeError: this process is no standby.
    """
    calling = Calling.of_environment()
    if calling is None:
        raise RuntimeError(f"{STANDBY_VARIABLE} is not set: this process was not started as a standby")
    return take_over(
        calling, state_fn, rebind_fn, restore_fn, extras_fn or (lambda: state_fn().extras), store
    )
