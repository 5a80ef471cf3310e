"""The verbs transport, call by call, over a double of pyverbs that is strict about them."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from monkeytree.agent.transfer import receive, send
from monkeytree.agent.transports.transport import (
    TransportClosed,
    TransportFailed,
    TransportOptions,
    TransportRefused,
    TransportTimeout,
)
from monkeytree.agent.transports.verbs import VerbsTransport
from monkeytree.agent.verbs import VerbsUnavailable
from monkeytree.ecmp.label import port_of_label

from .verbs_double import ENUMS, Network

SIZE = 1 << 16


def ends(network: Network, **options: object) -> tuple[VerbsTransport, VerbsTransport]:
    """Source at 10.0.0.1, destination at 10.0.0.2; ``options`` are the source's."""
    given = {"token": "t", "timeout_s": 5.0} | options
    source = TransportOptions(host="10.0.0.1", **given)
    destination = TransportOptions(host="10.0.0.2", token="t", timeout_s=5.0)
    verbs = network.verbs()
    return (
        VerbsTransport(source, receiving=False, verbs=verbs),
        VerbsTransport(destination, receiving=True, verbs=verbs),
    )


@contextmanager
def connected(
    network: Network, size: int = SIZE, **options: object
) -> Iterator[tuple[VerbsTransport, VerbsTransport, bytearray, bytearray]]:
    source, destination = ends(network, **options)
    here, there = bytearray(range(256)) * (size // 256), bytearray(size)
    source.register(memoryview(here))
    destination.register(memoryview(there))
    with ThreadPoolExecutor(2) as pool:
        joined = [
            pool.submit(source.connect, destination.describe()),
            pool.submit(destination.connect, source.describe()),
        ]
        for each in joined:
            each.result(10)
    try:
        yield source, destination, here, there
    finally:
        source.close()
        destination.close()


def test_a_life_is_made_in_order_and_unmade_in_reverse() -> None:
    network = Network()
    source, destination = ends(network, uplink_port=50_000)
    source.register(memoryview(bytearray(SIZE)))
    made = [name for name in network.names() if name not in ("Context.close",)]
    assert made == ["Context", "Context", "Context", "PD", "CQ", "MR", "MR", "MR", "QP", "to_init"]
    network.calls.clear()
    source.close()
    assert network.names() == [
        "QP.close",
        "MR.close",
        "MR.close",
        "MR.close",
        "CQ.close",
        "PD.close",
        "Context.close",
    ]
    source.close()
    destination.close()
    assert not network.regions
    assert not network.pairs


def test_the_flow_label_at_rtr_leads_to_the_uplinks_port_and_the_peers_stays_the_kernels() -> None:
    network = Network()
    with connected(network, uplink_port=61_234) as (_, _, _, _):
        routes = {
            call["ah_attr"].gr.dgid.gid: call["ah_attr"] for name, call in network.calls if name == "to_rtr"
        }
    to_destination, to_source = routes[network.gid("mlx5_1")], routes[network.gid("mlx5_0")]
    assert port_of_label(to_destination.gr.flow_label) == 61_234
    assert to_source.gr.flow_label == 0
    for vector in routes.values():
        assert (vector.is_global, vector.port_num, vector.gr.sgid_index, vector.gr.hop_limit) == (1, 1, 3, 64)


def test_attributes_at_rtr_and_rts() -> None:
    network = Network(mtus={"mlx5_0": ENUMS.IBV_MTU_1024})
    with connected(network) as (source, destination, _, _):
        said = {"mlx5_0": json.loads(source.describe()), "mlx5_1": json.loads(destination.describe())}
        rtr = [call for name, call in network.calls if name == "to_rtr"]
        rts = [call for name, call in network.calls if name == "to_rts"]
    assert {call["dest_qp_num"] for call in rtr} == {one["qpn"] for one in said.values()}
    assert (
        {call["rq_psn"] for call in rtr}
        == {call["sq_psn"] for call in rts}
        == {one["psn"] for one in said.values()}
    )
    assert {call["path_mtu"] for call in rtr} == {ENUMS.IBV_MTU_1024}
    assert {(call["timeout"], call["retry_cnt"], call["rnr_retry"]) for call in rts} == {(17, 7, 7)}


def test_only_the_destinations_arena_may_be_written() -> None:
    network = Network()
    with connected(network) as (source, destination, _, _):
        grants = [call["access"] for name, call in network.calls if name == "MR"]
        assert sorted(grants) == [1, 1, 1, 1, 1, 3]
        assert json.loads(source.describe())["rkey"] == 0
        token = destination.write(0, 0, 64)
        with pytest.raises(TransportRefused, match="refused the write"):
            destination.poll(token, 1.0)


def test_ranges_arrive_where_they_belong_and_notes_after_them() -> None:
    with connected(Network()) as (source, destination, here, there):
        tokens = [source.write(0, 512, 1_000), source.write(5_000, 9_000, 1), source.write(SIZE, SIZE, 0)]
        assert all(source.poll(token, 1.0) for token in tokens)
        source.notify(b"one")
        source.notify(b"")
        source.notify(b"x" * 4_096)
        assert destination.notifications(1.0) == [b"one", b"", b"x" * 4_096]
        assert there[512:1_512] == here[:1_000]
        assert there[9_000] == here[5_000]
        destination.notify(b"back")
        assert source.notifications(1.0) == [b"back"]
        assert source.notifications(0.0) == []


def test_long_writes_go_in_pieces_and_many_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monkeytree.agent.transports.verbs._PIECE", 1_000)
    network = Network()
    with connected(network) as (source, _, here, there):
        network.calls.clear()
        token = source.write(0, 0, SIZE)
        assert source.poll(token, 1.0)
        posted = [call["length"] for name, call in network.calls if name == "post_send"]
        assert posted == [1_000] * 65 + [536]  # more than may be in the air at once
        assert there == here


def test_a_whole_arena_moves_hashed_and_checked() -> None:
    with (
        connected(Network(), size=1 << 20) as (source, destination, here, there),
        ThreadPoolExecutor(1) as pool,
    ):
        received = pool.submit(receive, destination, memoryview(there), 5.0)
        sent = send(source, memoryview(here), 5.0, size=100_000)
        assert received.result(10).nbytes == sent.nbytes == len(here)
        assert there == here


def test_more_notes_than_slots_are_taken_when_read_between() -> None:
    with connected(Network()) as (source, destination, _, _):
        for turn in range(5):
            for index in range(50):
                source.notify(b"%d" % index)
            assert destination.notifications(1.0) == [b"%d" % index for index in range(50)], turn


@pytest.mark.parametrize(("fault", "error"), [("cut", TransportClosed), ("silent", TransportTimeout)])
def test_a_peer_that_goes_away_ends_the_wait_within_its_deadline(fault: str, error: type[Exception]) -> None:
    network = Network()
    with connected(network) as (source, _, _, _):
        setattr(network, fault, True)
        with pytest.raises(error):
            source.notify(b"there?", 0.05)
        network.cut = network.silent = False


def test_notes_that_came_before_the_end_are_still_read() -> None:
    network = Network()
    with connected(network) as (source, destination, _, _):
        source.notify(b"last words")
        network.cut = True
        token = destination.write(0, 0, 1)
        assert destination.notifications(1.0) == [b"last words"]
        with pytest.raises(TransportClosed):
            destination.poll(token, 1.0)


def test_a_closed_destination_revokes_its_registration() -> None:
    network = Network()
    with connected(network) as (source, destination, _, there):
        destination.close()
        there[:] = b""  # nothing pins it any more
        token = source.write(0, 0, 1)
        with pytest.raises(TransportClosed):
            source.poll(token, 1.0)
        with pytest.raises(TransportClosed):
            destination.notify(b"x")


def test_peers_that_cannot_be_right_are_refused() -> None:
    network = Network()
    source, destination = ends(network)
    source.register(memoryview(bytearray(SIZE)))
    destination.register(memoryview(bytearray(SIZE)))
    said = json.loads(destination.describe())
    for change in ({"proof": "0" * 64}, {"nbytes": SIZE * 2}, {"qpn": "x"}, {"more": 1}):
        with pytest.raises(TransportRefused):
            source.connect(json.dumps(said | change).encode())
    for nonsense in (b"", b"[]", b"null", b"{}", b"\xff"):
        with pytest.raises(TransportRefused):
            source.connect(nonsense)
    assert "to_rtr" not in network.names()
    source.close()
    destination.close()


def test_ranges_outside_are_refused_before_they_are_posted() -> None:
    with connected(Network()) as (source, _, _, _):
        for local, remote, length in ((0, SIZE, 1), (SIZE - 1, 0, 2), (-1, 0, 1), (0, -1, 1), (0, 0, -1)):
            with pytest.raises(TransportRefused):
                source.write(local, remote, length)
        with pytest.raises(TransportRefused):
            source.notify(b"x" * 4_097)


def test_a_port_that_no_label_gives_is_named() -> None:
    network = Network()
    source, destination = ends(network, uplink_port=4791)
    source.register(memoryview(bytearray(8)))
    destination.register(memoryview(bytearray(8)))
    with pytest.raises(TransportFailed, match="4791 is not 49152"):
        source.connect(destination.describe())
    source.close()
    destination.close()


def test_an_address_without_a_device_lists_those_there_are() -> None:
    transport = VerbsTransport(TransportOptions(host="10.9.9.9"), receiving=True, verbs=Network().verbs())
    with pytest.raises(VerbsUnavailable, match=r"10\.0\.0\.1 \(mlx5_0\), 10\.0\.0\.2 \(mlx5_1\)"):
        transport.register(memoryview(bytearray(8)))
    with pytest.raises(TransportClosed):
        transport.describe()
    transport.close()


@pytest.mark.parametrize("step", ["PD", "CQ", "MR", "QP", "to_init"])
def test_a_device_that_refuses_leaves_nothing_open(step: str) -> None:
    network = Network(refuse={step: errno.ENOMEM})
    source, _ = ends(network)
    buffer = bytearray(SIZE)
    with pytest.raises(TransportFailed, match="ulimit -l"):
        source.register(memoryview(buffer))
    assert not network.regions
    assert not network.pairs
    buffer.clear()  # nothing pins it any more
    source.close()


def test_no_rdma_here_is_a_reason_in_words() -> None:
    reason = VerbsTransport.unavailable()
    assert reason is None or "pyverbs" in reason or "RDMA" in reason


def test_closing_ends_a_wait_in_another_thread() -> None:
    with connected(Network()) as (_, destination, _, _), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(destination.notifications, 30.0)
        time.sleep(0.05)
        destination.close()
        with pytest.raises(TransportClosed):
            waiting.result(10)


def test_threads_share_an_end() -> None:
    with connected(Network()) as (source, destination, here, there), ThreadPoolExecutor(4) as pool:
        told = [pool.submit(source.notify, b"%d" % index) for index in range(40)]
        written = [pool.submit(source.write, 64 * index, 64 * index, 64) for index in range(100)]
        assert all(source.poll(each.result(10), 5.0) for each in written)
        came: list[bytes] = []
        while more := destination.notifications(5.0 if len(came) < 40 else 0.0):
            came += more
        for each in told:
            each.result(10)
        assert sorted(came) == sorted(b"%d" % index for index in range(40))
        assert there[:6_400] == here[:6_400]
