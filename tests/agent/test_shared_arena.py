"""The stream on one host: the destination hands its arena over, and the source writes there itself."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import struct
import threading

import pytest

from monkeytree.agent.arena import Arena
from monkeytree.agent.transfer import CorruptChunk, receive, send
from monkeytree.agent.transports import shared, stream
from monkeytree.agent.transports.stream import StreamTransport
from monkeytree.agent.transports.transport import TransportClosed, TransportOptions, TransportRefused

from .test_parts import connect, pair


def handed_over(faults: tuple[str, ...] = ()) -> tuple[StreamTransport, StreamTransport, Arena]:
    """A pair whose destination has let the source into its arena, of 5 MB."""
    source, target = pair(faults)
    arena = Arena.create([("state", 5_000_000)])
    target.share(arena.fd)
    source.register(memoryview(bytearray(arena.nbytes)))
    target.register(arena.whole())
    dial = threading.Thread(target=source.connect, args=(target.describe(),))
    dial.start()
    target.connect(source.describe())
    dial.join()
    return source, target, arena


@pytest.mark.parametrize("chunk", [300_001, 2**20, 2**23])
def test_a_source_on_the_host_writes_into_the_arena_itself(chunk: int) -> None:
    source, target, arena = handed_over()
    content = memoryview(bytearray(os.urandom(arena.nbytes)))
    source.register(content)
    source.write(7, 11, 13)  # without a hash: nothing is said of it, and it is there
    source.notify(b"there")
    assert target.notifications(5.0) == [b"there"]
    assert arena.whole()[11:24] == content[7:20]
    sender = threading.Thread(target=send, args=(source, content, 5.0, chunk))
    sender.start()
    assert receive(target, arena.whole(), 5.0).nbytes == arena.nbytes
    sender.join()
    assert arena.whole() == content
    with pytest.raises(TransportRefused, match="outside"):
        source.write(0, arena.nbytes - 5, 6)
    source.close()
    with pytest.raises(TransportClosed):
        receive(target, arena.whole(), 5.0)
    target.close()


def test_a_changed_byte_is_found_in_an_arena_handed_over() -> None:
    source, target, arena = handed_over(("corrupt:1",))

    def give() -> None:
        with contextlib.suppress(TransportClosed):
            send(source, memoryview(bytearray(arena.nbytes)), 5.0, 2**20)

    sender = threading.Thread(target=give)
    sender.start()
    with pytest.raises(CorruptChunk, match=f"at {2**20:,}"):
        receive(target, arena.whole(), 5.0)
    target.close()
    sender.join()
    source.close()


def test_an_arena_that_is_too_small_is_not_written_into() -> None:
    """The source sends through the socket, where the destination refuses what has no place."""
    source, target = pair()
    small = Arena.create([("state", 4096)])
    target.share(small.fd)
    connect(source, target, bytearray(8192), bytearray(4096))
    source.write(0, 0, 8192)
    with pytest.raises(TransportRefused):
        target.notifications(5.0)
    source.close()
    target.close()


def test_a_destination_that_hands_nothing_over_hears_of_no_writes() -> None:
    target = StreamTransport(TransportOptions(token="t", timeout_s=5.0), receiving=True)
    target.register(memoryview(bytearray(64)))
    port = json.loads(target.describe())["port"]
    with socket.create_connection(("127.0.0.1", port), 5.0) as caller:
        caller.sendall(hashlib.sha256(b"stream t").digest())
        target.connect(b"{}")
        caller.sendall(struct.pack("!BQQ", 3, 0, 64) + b".")
        with pytest.raises(TransportRefused, match="kind 3"):
            target.notifications(5.0)
    target.close()


def test_who_says_nothing_of_an_arena_is_given_up() -> None:
    """A listener that takes the call and then is silent."""
    source, target = pair()
    source.register(memoryview(bytearray(64)))
    with pytest.raises(TransportClosed, match="timed out"):
        source.connect(target.describe(), 0.2)  # the target does not accept
    source.close()
    target.close()


@pytest.mark.parametrize("sealed", [True, False])
def test_memory_that_could_shrink_is_not_written_into(sealed: bool) -> None:
    """A mapping of a file that has shrunk kills the process (SIGBUS): the bytes take the socket then."""
    file = os.memfd_create("state", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, 8192)
    if sealed:
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        shared.give(ours, file)
        assert len(shared.take(theirs, 8192)) == (8192 if sealed else 0)
        shared.give(ours, file)
        assert len(shared.take(theirs, 8193)) == 0
    os.close(file)


def test_nothing_is_sent_to_another_user_who_has_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source tells neither the proof nor the state to whoever listens in the destination's place."""
    name = b"\0monkeytree-test-" + os.urandom(8).hex().encode()
    monkeypatch.setattr(stream, "_local_name", lambda _: name)
    monkeypatch.setattr(stream, "peer_of", lambda _: (1, os.getuid() + 1))
    source, target = pair()
    source.register(memoryview(bytearray(b"state")))
    port = json.loads(target.describe())["port"]
    described = json.dumps({"host": "127.0.0.1", "port": port, "boot": stream._boot_id()}).encode()
    target.close()
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(name)
        squatter.listen()
        with pytest.raises(TransportClosed, match="refused"):
            source.connect(described)
        caller = squatter.accept()[0]
        caller.settimeout(5.0)
        assert caller.recv(64) == b""
        caller.close()
    source.close()
