"""Connects the transports of a checkpoint through the job's store, before any pause."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..arena import Arena
from ..store import JobStore
from ..transports.transport import Transport, TransportTimeout
from .offer import Offer
from .writer import Destination


@dataclass(frozen=True, slots=True)
class End:
    """One end of a connection.

    Attributes:
        transport: not yet registered or connected.
        name: of the connection; the other end has the same.
        receiving: whether this is the destination's end.
    """

    transport: Transport
    name: str
    receiving: bool


def meet(ends: Sequence[End], arena: Arena, store: JobStore, timeout_s: float = 60.0) -> None:
    """Register ``arena`` with every transport and connect each with its other end, all at the same time.

    Raises:
        TransportFailed: another end did not come within ``timeout_s``, or cannot be reached.
    """
    if not ends:
        return
    with ThreadPoolExecutor(len(ends)) as pool:
        for done in [pool.submit(_meet, end, arena, store, timeout_s) for end in ends]:
            done.result()


def _meet(end: End, arena: Arena, store: JobStore, timeout_s: float) -> None:
    end.transport.register(arena.whole())
    mine, other = ("target", "source") if end.receiving else ("source", "target")
    store.set(f"{end.name}/{mine}", base64.b64encode(end.transport.describe()).decode())
    if not store.wait([f"{end.name}/{other}"], timeout_s):
        raise TransportTimeout(f"nobody came to the other end of {end.name} within {timeout_s:g} s")
    end.transport.connect(base64.b64decode(store.get(f"{end.name}/{other}")), timeout_s)


def offer_to(store: JobStore, name: str, offer: Offer) -> None:
    """Let the senders know what ``name`` offers."""
    store.set(f"{name}/offer", offer.text())


def destination(store: JobStore, name: str, transport: Transport, timeout_s: float = 60.0) -> Destination:
    """For a writer: what ``name`` offers, at the other end of ``transport``.

    Raises:
        TransportTimeout: it offers nothing within ``timeout_s``.
    """
    if not store.wait([f"{name}/offer"], timeout_s):
        raise TransportTimeout(f"{name} offered nothing within {timeout_s:g} s")
    return Destination(transport, Offer.read(store.get(f"{name}/offer")))
