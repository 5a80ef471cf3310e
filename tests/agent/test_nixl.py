"""The NIXL transport: call by call over a double, and over the real library where it is installed."""

from __future__ import annotations

import json
import mmap
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from monkeytree.agent.transfer import receive, send
from monkeytree.agent.transports.nixl import UCX_PORT, NixlTransport
from monkeytree.agent.transports.nixl_child import make_agent
from monkeytree.agent.transports.transport import (
    TransportClosed,
    TransportFailed,
    TransportOptions,
    TransportRefused,
    TransportTimeout,
)
from monkeytree.ecmp.label import port_of_label

from .nixl_double import FakeAgent

SIZE = 1 << 16
Pair = tuple[NixlTransport, NixlTransport, mmap.mmap, mmap.mmap]


@contextmanager
def connected(make: Callable[[str], Any], size: int = SIZE, timeout_s: float = 5.0) -> Iterator[Pair]:
    here, there = mmap.mmap(-1, size), mmap.mmap(-1, size)  # both before the children, which then share them
    here[:] = bytes(range(256)) * (size // 256)
    source, destination = (
        NixlTransport(TransportOptions(token="t", timeout_s=timeout_s), receiving=receiving, agent=make)
        for receiving in (False, True)
    )
    try:
        source.register(memoryview(here))
        destination.register(memoryview(there))
        with ThreadPoolExecutor(2) as pool:
            joined = [
                pool.submit(source.connect, destination.describe()),
                pool.submit(destination.connect, source.describe()),
            ]
            for each in joined:
                each.result(60)
        yield source, destination, here, there
    finally:
        source.close()
        destination.close()


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder with a short name: paths of sockets have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="mt") as folder:
        yield Path(folder)


@pytest.fixture
def double(root: Path) -> Callable[[str], Any]:
    return partial(FakeAgent, root)


def calls(root: Path, name: str) -> list[str]:
    return [json.loads(row)[0] for row in (root / f"{name}.calls").read_text().splitlines()]


def test_a_life_call_by_call(root: Path, double: Callable[[str], Any]) -> None:
    with connected(double) as (source, destination, here, there):
        names = [json.loads(each.describe())["name"] for each in (source, destination)]
        assert source.poll(source.write(100, 200, 300), 1.0)
        source.notify(b"300 bytes")
        assert destination.notifications(1.0) == [b"300 bytes"]
        assert there[200:500] == here[100:400]
    at_source = ["nixl_agent", "register_memory", "get_agent_metadata", "add_remote_agent", "initialize_xfer"]
    assert calls(root, names[0]) == [
        *at_source,
        "release_xfer_handle",
        "remove_remote_agent",
        "deregister_memory",
    ]
    assert calls(root, names[1]) == [*at_source[:4], "remove_remote_agent", "deregister_memory"]
    here.close()  # nothing pins them any more
    there.close()


def test_a_whole_arena_moves_hashed_and_checked(double: Callable[[str], Any]) -> None:
    with connected(double, 1 << 20) as (source, destination, here, there), ThreadPoolExecutor(1) as pool:
        received = pool.submit(receive, destination, memoryview(there), 10.0)
        send(source, memoryview(here), 10.0, size=100_000)
        assert received.result(30).nbytes == len(here)
        assert there[:] == here[:]


@pytest.mark.parametrize(
    ("fault", "error"), [("err", TransportFailed), ("gone", TransportClosed), ("die", TransportClosed)]
)
def test_a_transfer_that_fails_is_named(
    root: Path, double: Callable[[str], Any], fault: str, error: type[TransportFailed]
) -> None:
    with connected(double) as (source, _, _, _):
        (root / "FAULT").write_text(fault)
        with pytest.raises(error) as raised:
            source.poll(source.write(0, 0, SIZE), 1.0)
        assert raised.value.code == error.code


def test_a_transfer_that_never_ends_is_waited_for_within_its_deadline(
    root: Path, double: Callable[[str], Any]
) -> None:
    with connected(double) as (source, _, _, _):
        (root / "FAULT").write_text("hang")
        token = source.write(0, 0, SIZE)
        assert not source.poll(token, 0.05)
        (root / "FAULT").unlink()
        assert source.poll(token, 1.0)


def test_a_call_that_does_not_return_costs_the_child_its_life(
    root: Path, double: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monkeytree.agent.transports.nixl._GRACE_S", 0.1)
    with connected(double, timeout_s=0.2) as (source, _, _, _):
        child = source._pid
        (root / "FAULT").write_text("stuck")
        with pytest.raises(TransportTimeout, match="'write'"):
            source.write(0, 0, 1)
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
        with pytest.raises(TransportClosed):
            source.write(0, 0, 1)


def test_a_destination_that_left_is_known(double: Callable[[str], Any]) -> None:
    with connected(double) as (source, destination, _, _):
        destination.close()
        with pytest.raises(TransportClosed, match="REMOTE_DISCONNECT"):
            source.poll(source.write(0, 0, 1), 1.0)


def test_the_child_dies_with_its_mover(root: Path, double: Callable[[str], Any]) -> None:
    mover = os.fork()
    if mover == 0:
        transport = NixlTransport(TransportOptions(), receiving=True, agent=double)
        transport.register(memoryview(mmap.mmap(-1, 4_096)))
        (root / "child").write_text(str(transport._pid))
        (root / "child").rename(root / "told")
        time.sleep(60)
        os._exit(1)
    ends = time.monotonic() + 30
    while not (root / "told").exists() and time.monotonic() < ends:
        time.sleep(0.01)
    child = int((root / "told").read_text())
    os.kill(mover, signal.SIGKILL)
    os.waitpid(mover, 0)
    while _alive(child) and time.monotonic() < ends:
        time.sleep(0.01)
    assert not _alive(child)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_closing_ends_a_wait_in_another_thread(double: Callable[[str], Any]) -> None:
    with connected(double) as (_, destination, _, _), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(destination.notifications, 30.0)
        time.sleep(0.05)
        destination.close()
        with pytest.raises(TransportClosed):
            waiting.result(10)


def test_threads_share_an_end(double: Callable[[str], Any]) -> None:
    with connected(double) as (source, destination, _, _), ThreadPoolExecutor(4) as pool:
        told = [pool.submit(source.notify, b"%d" % index) for index in range(40)]
        written = [pool.submit(lambda: source.poll(source.write(0, 0, 64), 5.0)) for _ in range(20)]
        came: list[bytes] = []
        while more := destination.notifications(5.0 if len(came) < 40 else 0.0):
            came += more
        assert all(each.result(10) for each in written)
        for each in told:
            each.result(10)
        assert sorted(came) == sorted(b"%d" % index for index in range(40))


def test_private_memory_is_refused(double: Callable[[str], Any]) -> None:
    transport = NixlTransport(TransportOptions(), receiving=True, agent=double)
    with pytest.raises(TransportFailed, match="shared memory"):
        transport.register(memoryview(bytearray(1 << 20)))
    transport.close()
    with pytest.raises(TransportClosed):
        transport.describe()


def test_a_port_it_cannot_use_is_refused_and_ucxs_own_is_not() -> None:
    assert port_of_label(0xFFFFF) == UCX_PORT
    NixlTransport(TransportOptions(uplink_port=UCX_PORT), receiving=True)
    with pytest.raises(TransportFailed, match="`verbs`"):
        NixlTransport(TransportOptions(uplink_port=50_000), receiving=True)


def test_peers_that_cannot_be_right_are_refused(double: Callable[[str], Any]) -> None:
    with connected(double) as (source, destination, _, _):
        said = json.loads(destination.describe())
        for change in ({"proof": "x"}, {"nbytes": 1}, {"metadata": "?"}, {"address": None}):
            with pytest.raises(TransportRefused):
                source.connect(json.dumps(said | change).encode())
        with pytest.raises(TransportFailed, match="not of 'other'"):
            source.connect(json.dumps(said | {"name": "other"}).encode())
        for local, remote, length in ((0, SIZE, 1), (-1, 0, 1), (0, 0, -1)):
            with pytest.raises(TransportRefused):
                source.write(local, remote, length)
        with pytest.raises(TransportRefused):
            source.notify(b"x" * 4_097)


def test_the_real_library_moves_an_arena() -> None:
    why = NixlTransport.unavailable()
    if why:
        pytest.skip(why)
    size = 64 << 20
    with (
        connected(make_agent, size, 60.0) as (source, destination, here, there),
        ThreadPoolExecutor(1) as pool,
    ):
        received = pool.submit(receive, destination, memoryview(there), 60.0)
        sent = send(source, memoryview(here), 60.0)
        assert received.result(60).nbytes == sent.nbytes == size
        assert there[:] == here[:]
