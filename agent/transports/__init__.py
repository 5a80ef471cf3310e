"""Ways to write a worker's state into the memory of another node, one file each."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from .transport import Transport, TransportFailed, TransportOptions

#: Name -> module and class; imported when asked for, as some load a driver.
TRANSPORTS = {
    "stream": ("stream", "StreamTransport"),
    "verbs": ("verbs", "VerbsTransport"),
    "nixl": ("nixl", "NixlTransport"),
}


def transport_class(name: str) -> type[Transport]:
    """The class of that name.

    Raises:
        TransportFailed: there is none, or it cannot be used here; the message says why.
    """
    try:
        module, member = TRANSPORTS[name]
        found = cast(type[Transport], getattr(import_module(f".{module}", __package__), member))
    except (KeyError, ImportError) as error:
        raise TransportFailed(f"there is no transport {name!r} here: {error}") from error
    why = found.unavailable()
    if why:
        raise TransportFailed(f"transport {name!r} cannot be used: {why}")
    return found


def make_transport(name: str, options: TransportOptions, receiving: bool) -> Transport:
    """One end of a transfer over ``name``.

    Raises:
        TransportFailed: as :func:`transport_class`.
    """
    make = cast(Callable[..., Transport], transport_class(name))
    return make(options, receiving=receiving)


def available() -> list[str]:
    """Names of the transports that can be used on this machine."""
    names = []
    for name in TRANSPORTS:
        try:
            transport_class(name)
        except TransportFailed:
            continue
        names.append(name)
    return names
