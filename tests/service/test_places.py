"""Places for clients that still send, without a server."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from time import sleep

import pytest

from monkeytree.service.places import Places, Sender


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_who_is_cut_holds_no_place(pair: tuple[socket.socket, socket.socket]) -> None:
    """Even where the application never asks for its body and answers late: it waits for nobody now."""
    places = Places(1, grace_s=0.0, rate=1e9, wait_s=0.01)
    idle = Sender(pair[0], 300.0)
    assert places.take(idle)
    sleep(0.01)
    assert places.take(Sender(pair[1], 300.0))
    assert pair[0].recv(1) == b""
    places.free(idle)  # its request ends: no harm to the other one
    assert len(places._holders) == 1


def test_a_place_is_waited_for_and_passed_on(pair: tuple[socket.socket, socket.socket]) -> None:
    places = Places(1, grace_s=300.0, rate=1.0, wait_s=300.0)
    first, second = Sender(pair[0], 300.0), Sender(pair[1], 300.0)
    assert places.take(first)
    got: list[bool] = []
    waiter = threading.Thread(target=lambda: got.append(places.take(second)))
    waiter.start()
    places.free(first)
    waiter.join(60)
    assert got == [True]


def test_nobody_waits_for_ever(pair: tuple[socket.socket, socket.socket]) -> None:
    places = Places(1, grace_s=300.0, rate=1.0, wait_s=0.01)
    assert places.take(Sender(pair[0], 300.0))
    for _ in range(3):
        assert not places.take(Sender(pair[1], 300.0))


def test_what_is_sent_after_a_cut_stays_encrypted(pair: tuple[socket.socket, socket.socket]) -> None:
    """SSLSocket.shutdown would have the answer go out as it is."""
    ours, theirs = pair
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with context.wrap_socket(ours, server_side=True, do_handshake_on_connect=False) as served:
        Sender(served, 300.0).cut()
        with suppress(OSError):
            served.send(b"secret")
    said = b""
    theirs.settimeout(30)
    while part := theirs.recv(100):
        said += part
    assert b"secret" not in said
