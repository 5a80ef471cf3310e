"""The store, the arena, the channel and the stream: each by itself, over real sockets."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monkeytree.agent.arena import Arena, BadLayout, Layout
from monkeytree.agent.channel import Channel, Closed, accept_local, connect_local, listen_local
from monkeytree.agent.link import AgentLink
from monkeytree.agent.page import Page
from monkeytree.agent.store import SocketStore, StoreLost, StoreServer
from monkeytree.agent.transfer import CorruptChunk, receive, send
from monkeytree.agent.transports import available, make_transport
from monkeytree.agent.transports.stream import StreamTransport
from monkeytree.agent.transports.transport import (
    TransportClosed,
    TransportFailed,
    TransportOptions,
    TransportTimeout,
)

from .rig import eventually


def test_the_store_compares_and_waits() -> None:
    server = StoreServer()
    store = SocketStore(server.address)
    assert store.get("a") == ""
    assert store.compare_set("a", "", "1") == "1"
    assert store.compare_set("a", "", "2") == "1"
    assert store.compare_set("a", "1", "2") == "2"
    assert not store.check(["a", "b"])
    assert not store.wait(["b"], 0.05)
    setter = threading.Timer(0.1, store.set, ("b", "x"))
    setter.start()
    assert store.wait(["a", "b"], 10.0)
    store.delete("a")
    assert store.get("a") == ""
    server.close()


def test_a_store_that_is_gone_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(StoreLost):
        SocketStore(f"127.0.0.1:{port}").get("a")


def test_of_many_who_decide_one_wins() -> None:
    server = StoreServer()
    store = SocketStore(server.address)
    held: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: held.append(store.compare_set("d", "", str(n)))) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert held == [store.get("d")] * 8
    server.close()


def test_an_arena_is_shared_memory() -> None:
    arena = Arena.create([("a", 10), ("b", 5_000), ("empty", 0)])
    other = Arena.attach(os.dup(arena.fd), Layout.read(arena.layout().document()))
    arena.view("b")[:3] = b"abc"
    assert bytes(other.view("b")[:3]) == b"abc"
    assert len(other.view("empty")) == 0
    with pytest.raises(BadLayout, match="names must differ"):
        Arena.create([("a", 1), ("a", 1)])
    with pytest.raises(BadLayout, match="says"):
        Arena.attach(os.dup(arena.fd), Layout.of([("a", 10**6)]))
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(arena.fd, 1)
    for each in (arena, other):
        each.close()


@pytest.mark.parametrize(
    "document", [{}, {"nbytes": 10, "regions": [["a", 5, 6]]}, {"nbytes": "x", "regions": 1}]
)
def test_a_layout_that_is_none(document: dict[str, object]) -> None:
    with pytest.raises(BadLayout):
        Layout.read(document)


def test_a_channel_carries_descriptors_however_deep_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 20) / ("er" * 40)
    folder.mkdir(parents=True)
    server = listen_local(folder / "s.sock")
    here = connect_local(folder / "s.sock")
    accepted = accept_local(server)
    assert accepted is not None
    there, pid = accepted
    assert pid == os.getpid()
    arena = Arena.create([("a", 4)])
    here.send("one", b"blob", (arena.fd,), x=1)
    here.send("two")
    first, second = there.receive(5), there.receive(5)
    assert first is not None
    assert second is not None
    assert (first.kind, first.blob, len(first.fds), first.body["x"]) == ("one", b"blob", 1, 1)
    assert os.path.samestat(os.fstat(first.fds[0]), os.fstat(arena.fd))
    assert (second.kind, second.fds) == ("two", ())
    assert there.receive(0.01) is None
    here.close()
    with pytest.raises(Closed):
        there.receive(5)


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x02\0\0\0\0[]", b"\0\0\0\x02\0\0\0\0{x"]
)
def test_a_channel_that_hears_nonsense_closes(junk: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(junk)
    with pytest.raises(Closed):
        Channel(ours).receive(5)


def pair(faults: tuple[str, ...] = (), timeout_s: float = 5.0) -> tuple[StreamTransport, StreamTransport]:
    token = os.urandom(8).hex()
    source = StreamTransport(
        TransportOptions(token=token, timeout_s=timeout_s, faults=faults), receiving=False
    )
    target = StreamTransport(TransportOptions(token=token, timeout_s=timeout_s), receiving=True)
    return source, target


def connect(source: StreamTransport, target: StreamTransport, memory: bytearray, copy: bytearray) -> None:
    source.register(memoryview(memory))
    target.register(memoryview(copy))
    dial = threading.Thread(target=source.connect, args=(target.describe(),))
    dial.start()
    target.connect(source.describe())
    dial.join()


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=1, max_size=5_000), st.integers(1, 700))
def test_the_stream_writes_every_byte_where_it_was(content: bytes, chunk: int) -> None:
    source, target = pair()
    memory, copy = bytearray(content), bytearray(len(content))
    connect(source, target, memory, copy)
    sender = threading.Thread(target=send, args=(source, memoryview(memory), 5.0, chunk))
    sender.start()
    got = receive(target, memoryview(copy), 5.0)
    sender.join()
    assert copy == memory
    assert got.nbytes == len(content)
    for each in (source, target):
        each.close()
        each.close()


@pytest.mark.parametrize("chunk", [1_000, 2**18, 2**20 + 5])
def test_a_changed_byte_is_found(chunk: int) -> None:
    source, target = pair(("corrupt:2",))
    memory, copy = bytearray(os.urandom(5 * chunk)), bytearray(5 * chunk)
    connect(source, target, memory, copy)

    def give() -> None:
        with contextlib.suppress(TransportClosed):  # the target leaves in the middle
            send(source, memoryview(memory), 5.0, chunk)

    threading.Thread(target=give, daemon=True).start()
    with pytest.raises(CorruptChunk, match=f"at {2 * chunk:,}"):
        receive(target, memoryview(copy), 5.0)
    assert copy[: 2 * chunk] == memory[: 2 * chunk]
    source.close()
    target.close()


def test_silence_and_an_end_are_told_apart() -> None:
    source, target = pair(timeout_s=0.2)
    connect(source, target, bytearray(10), bytearray(10))
    with pytest.raises(TransportTimeout):
        receive(target, memoryview(bytearray(10)), 0.1)
    source.close()
    with pytest.raises(TransportClosed):
        receive(target, memoryview(bytearray(10)), 5.0)
    target.close()


def test_a_range_outside_of_the_buffer_is_refused() -> None:
    source, target = pair()
    connect(source, target, bytearray(100), bytearray(10))
    source.write(0, 0, 100)
    with pytest.raises(TransportFailed):
        target.notifications(5.0)
    source.close()
    target.close()


def test_a_stranger_does_not_get_in() -> None:
    target = pair(timeout_s=0.5)[1]
    stranger = StreamTransport(TransportOptions(token="other"), receiving=False)
    stranger.register(memoryview(bytearray(10)))
    stranger.connect(target.describe().replace(b'"boot": "', b'"boot": "x'))
    with pytest.raises(TransportTimeout):
        target.connect(b"{}")
    target.close()
    with pytest.raises(TransportClosed):
        write_on(stranger)


def write_on(transport: StreamTransport) -> None:
    for _ in range(1_000):
        transport.write(0, 0, 10)


def test_transports_by_name() -> None:
    assert "stream" in available()
    with pytest.raises(TransportFailed, match="no transport 'none'"):
        make_transport("none", TransportOptions(), False)


def test_a_training_process_pays_for_no_library_of_ours() -> None:
    heavy = "{'marshmallow', 'flask', 'httpx', 'torch', 'sqlalchemy', 'structlog', 'numpy'}"
    for module in ("client", "mover_source", "mover_destination"):
        code = f"import sys, monkeytree.agent.{module}; print(sorted({heavy} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n", module


def test_a_worker_without_its_agent_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A path that was mistyped would otherwise be noticed when the first move is refused."""
    link = AgentLink(str(tmp_path / "agent.sock"), {}, Arena.create([("a", 8)]), Page.create())
    eventually(lambda: caplog.messages)
    server = listen_local(tmp_path / "agent.sock")
    accepted = eventually(lambda: accept_local(server))
    assert accepted[0].receive(30.0).kind == "register"
    link.leave()
    (said,) = caplog.messages
    assert said.startswith(f"no agent answers at {tmp_path / 'agent.sock'} (")
    assert said.endswith("the worker trains on, and registers once one does")
