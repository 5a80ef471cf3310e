"""The process that takes a rank over: from its first word to its mover to its place in the group."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monkeytree.wire.agents import restore_pause

from . import pausing
from .channel import Channel, Closed, Message, connect_local
from .keys import PauseKeys
from .membership import Membership, WorkerState
from .pausing import Trip
from .store import JobStore
from .worker import Identity, NotNeeded, Worker

STANDBY_VARIABLE = "MONKEYTREE_STANDBY"


@dataclass(frozen=True)
class Calling:
    """What the mover tells the process it starts, as JSON in ``MONKEYTREE_STANDBY``.

    Attributes:
        mover: path of the mover's socket.
        agent: path of the agent's socket.
        home: whether it is started at the source again (a parked state that comes back).
    """

    mover: str
    agent: str
    job: str
    group: str
    rank: int
    home: bool = False

    @classmethod
    def of_environment(cls, environ: Mapping[str, str] | None = None) -> Calling | None:
        """From the environment; None where this process is no standby."""
        text = (os.environ if environ is None else environ).get(STANDBY_VARIABLE)
        return None if not text else cls(**json.loads(text))


def take_over(
    calling: Calling,
    state_fn: Callable[[], WorkerState],
    rebind_fn: Callable[[Membership], None],
    restore_fn: Callable[[bytes], None],
    extras_fn: Callable[[], bytes],
    store: JobStore,
) -> Worker:
    """See :func:`.client.standby_worker`.

    Raises:
        NotNeeded: the move was aborted, or taken back before the group had formed.
    """
    arena = state_fn().arena
    try:
        channel = connect_local(Path(calling.mover))
        channel.send("standby", fds=(arena.fd,), layout=arena.layout().document(), pid=os.getpid())
        message = _await_state(channel)
    except (OSError, Closed):
        raise NotNeeded(0) from None
    trip = _trip(calling, message, store)
    restore_fn(message.blob)
    trip.extras = message.blob
    identity = Identity.read(message.body["identity"])
    holder = ""
    if calling.home:
        # A mover of an earlier release tells neither.
        message.body.setdefault("token", _token())
        message.body.setdefault("over", [])
        found, holder = _return(trip, message.body)
    else:
        found = _land(trip, rebind_fn)
    if found not in ("returned", "reformed"):
        _tell(channel, found, holder)
        raise NotNeeded(0)
    if calling.home:
        trip = pausing.come_together(trip, rebind_fn, token=str(message.body["token"]))
    _tell(channel, found)
    return Worker(
        identity,
        state_fn,
        rebind_fn,
        restore_fn,
        extras_fn,
        store,
        calling.agent,
        arrival=trip,
        home=calling.home,
        tell=lambda outcome: _tell(channel, outcome),
    )


def _await_state(channel: Channel) -> Message:
    """The state is in the arena; its extras are the message's blob."""
    while True:
        message = channel.receive(None)
        assert message is not None
        if message.kind == "state":
            return message
        if message.kind == "leave":
            raise Closed("the move was aborted")


def _trip(calling: Calling, message: Message, store: JobStore) -> Trip:
    request = restore_pause(message.body["pause"])
    orders = {group: tuple(order) for group, order in message.body.get("orders", {}).items()}
    me = f"{calling.group}/{calling.rank}"
    trip = Trip(PauseKeys(store, request), me, int(message.body["step"]), orders, lambda **_: None)
    # What the source's pause has used up is gone for us too.
    trip.paused_at = time.monotonic() - float(message.body.get("elapsed_s", 0.0))
    return trip


def _land(trip: Trip, rebind_fn: Callable[[Membership], None]) -> str:
    """At a destination: the job may commit now; ``reformed`` where it did and the group has formed."""
    assert trip.move is not None
    if not trip.keys.claim(trip.move.id, _token()):
        return "elsewhere"
    trip.keys.store.set(trip.keys.verified(trip.move.id), "1")
    there = pausing.decide(trip, trip.decides_by) == "commit" and pausing.rebind(trip, rebind_fn)
    return "reformed" if there else "aborted"


def _return(trip: Trip, told: Mapping[str, Any]) -> tuple[str, str]:
    """At home again, from a parked state: ``returned`` where the job needs us here.

    Args:
        told: by the mover. ``patient``: the state may have landed, and nobody saw that fail: its first
            iteration has its time. ``token``: what we write where we take the worker's place; ``over``:
            those of successors before us that are dead.

    Returns:
        Otherwise ``stayed`` (the source's process never left), ``landed``, or ``elsewhere``: with the token
        of another successor that is home; without, where one was: it has been through its first iteration.
    """
    assert trip.move is not None
    keys = trip.keys
    if trip.move.staged and not keys.park(trip.move.id):
        return "stayed", ""
    if keys.decide("abort") == "commit":
        ends = time.monotonic() + trip.request.deadlines.first_iteration_s
        if (keys.await_probation(ends) if told.get("patient") else keys.settle("undo")) == "kept":
            return "landed", ""
    holder = keys.claim_home(trip.move.id, str(told["token"]), told["over"])
    if holder != told["token"]:
        return "elsewhere", holder
    return "returned" if keys.take_back_before(keys.homecoming()[0]) else "elsewhere", ""


def _token() -> str:
    """Of this process: no two are alike."""
    return f"{os.getpid()}-{secrets.token_hex(8)}"


def _tell(channel: Channel, outcome: str, holder: str = "") -> None:
    with contextlib.suppress(Closed):  # the mover may have gone; the store knows all
        channel.send("outcome", outcome=outcome, holder=holder)
