"""The pyverbs helpers: labels at RTR, source ports at RTS, addresses; and the real module's names."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monkeytree.agent.verbs import (
    LocalEnd,
    SourcePortUnsupported,
    Verbs,
    VerbsUnavailable,
    address_of_gid,
    address_vector,
    find_end,
    gid_of_address,
    load_verbs,
    local_ends,
    set_udp_source_port,
)
from monkeytree.ecmp.label import port_of_label

from .verbs_double import ENUMS, Network, PyverbsRDMAError, QPAttr

END = LocalEnd("mlx5_0", 1, 3, gid_of_address("10.0.0.1"), "10.0.0.1")


@settings(deadline=None)
@given(port=st.integers(0xC000, 0xFFFF))
def test_every_port_is_reached_by_the_label_of_the_vector(port: int) -> None:
    vector = address_vector(Network().verbs(), END, gid_of_address("10.0.0.2"), udp_source_port=port)
    assert vector.gr.flow_label != 0
    assert port_of_label(vector.gr.flow_label) == port


@settings(deadline=None)
@given(
    address=st.ip_addresses(v=4).map(str)
    | st.ip_addresses(v=6, network="fd00::/8").map(str)
    | st.ip_addresses(v=6, network="2000::/3").map(str)
)
def test_addresses_and_gids_stand_for_each_other(address: str) -> None:
    gid = gid_of_address(address)
    assert [len(group) for group in gid.split(":")] == [4] * 8
    assert address_of_gid(gid) == address


def test_only_roce_v2_counts_and_no_link_local_address() -> None:
    ends = list(local_ends(Network().verbs()))
    assert [(end.device, end.gid_index, end.address) for end in ends] == [
        ("mlx5_0", 3, "10.0.0.1"),
        ("mlx5_1", 3, "10.0.0.2"),
    ]
    assert address_of_gid("fd00:0000:0000:0000:0000:0000:0000:0001") == "fd00::1"
    assert address_of_gid("fe80:0000:0000:0000:0000:0000:0000:0001") is None


def test_a_device_that_is_named_need_not_have_the_hosts_address() -> None:
    verbs = Network().verbs()
    assert find_end(verbs, "10.0.0.2", "mlx5_1").address == "10.0.0.2"
    assert find_end(verbs, "192.0.2.1", "mlx5_1").address == "10.0.0.2"
    six = Network(devices={"mlx5_0": "fd00::1", "mlx5_1": "10.0.0.2"}).verbs()
    assert [find_end(six, address).device for address in ("FD00:0::1", "10.0.0.2")] == ["mlx5_0", "mlx5_1"]
    with pytest.raises(VerbsUnavailable, match=r"no RDMA device has the address 192\.0\.2\.1"):
        find_end(verbs, "192.0.2.1")


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(VerbsUnavailable, match="'mlx5_9' cannot be opened"):
        find_end(Network().verbs(), "10.0.0.1", "mlx5_9")


class Mlx5QP:
    """Of the mlx5 provider; ``error`` is what the device says, 0 for yes."""

    def __init__(self, error: int = 0) -> None:
        self.error = error
        self.asked: list[tuple[Any, int]] = []

    def modify_udp_sport(self, qp: Any, udp_sport: int) -> None:
        self.asked.append((qp, udp_sport))
        if self.error:
            raise PyverbsRDMAError("failed to modify UDP source port", self.error)


def test_the_source_port_of_a_running_pair_is_set_where_the_device_can() -> None:
    device = Mlx5QP()
    set_udp_source_port("pair", 50_000, SimpleNamespace(Mlx5QP=device))
    assert device.asked == [("pair", 50_000)]


def test_a_device_that_cannot_says_so_by_name() -> None:
    with pytest.raises(SourcePortUnsupported, match=r"EOPNOTSUPP.*flow label at RTR"):
        set_udp_source_port("pair", 50_000, SimpleNamespace(Mlx5QP=Mlx5QP(errno.EOPNOTSUPP)))
    with pytest.raises(PyverbsRDMAError):
        set_udp_source_port("pair", 50_000, SimpleNamespace(Mlx5QP=Mlx5QP(errno.EINVAL)))


def test_what_would_crash_the_real_module_never_reaches_it() -> None:
    device = Mlx5QP()
    for pair, port in ((None, 50_000), ("pair", 4791), ("pair", 65_536)):
        with pytest.raises(ValueError, match=r"queue pair|port"):
            set_udp_source_port(pair, port, SimpleNamespace(Mlx5QP=device))
    assert device.asked == []


# The real module, where rdma-core's Python bindings are installed: no device is needed for these.


@pytest.fixture(scope="module")
def real() -> Verbs:
    try:
        return load_verbs()
    except VerbsUnavailable as error:
        pytest.skip(str(error))


def test_the_real_enums_have_the_values_of_the_double(real: Verbs) -> None:
    assert {name: getattr(real.enums, name) for name in vars(ENUMS)} == vars(ENUMS)


def test_the_real_objects_take_what_is_given_to_them(real: Verbs) -> None:
    vector = address_vector(real, END, gid_of_address("10.0.0.2"), udp_source_port=0xC000)
    assert (vector.flow_label, vector.sgid_index, vector.hop_limit, vector.is_global) == (0x4001, 3, 64, 1)
    assert vector.dgid == gid_of_address("10.0.0.2")
    attributes = real.qp.QPAttr(qp_state=ENUMS.IBV_QPS_RTR)
    for name in QPAttr.__slots__:
        setattr(attributes, name, vector if name == "ah_attr" else 1)
    assert attributes.ah_attr.flow_label == 0x4001
    capacity = real.qp.QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1, max_inline_data=0)
    real.qp.QPInitAttr(qp_type=ENUMS.IBV_QPT_RC, scq=None, rcq=None, cap=capacity, sq_sig_all=1)
    element = real.wr.SGE(0x1000, 5, 7)
    request = real.wr.SendWR(wr_id=1 << 61, opcode=2, num_sge=1, sg=[element], send_flags=2)
    request.opcode = ENUMS.IBV_WR_RDMA_WRITE
    request.set_wr_rdma(1, 2)
    assert (request.wr_id, request.opcode) == (1 << 61, 0)
    assert real.wr.RecvWR(wr_id=1 << 62, num_sge=1, sg=[element]).wr_id == 1 << 62


def test_the_real_classes_have_the_methods_that_are_called(real: Verbs) -> None:
    called = {
        real.device.Context: ("query_gid_table", "query_port", "close"),
        real.device.GIDEntry: ("gid_str", "gid_type", "gid_index", "port_num"),
        real.device.PortAttr: ("active_mtu",),
        real.device.Device: ("name",),
        real.pd.PD: ("close",),
        real.cq.CQ: ("poll", "close"),
        real.cq.WC: ("wr_id", "status", "byte_len"),
        real.mr.MR: ("lkey", "rkey", "close"),
        real.qp.QP: ("qp_num", "to_init", "to_rtr", "to_rts", "post_send", "post_recv", "close"),
    }
    missing = [(kind, name) for kind, names in called.items() for name in names if not hasattr(kind, name)]
    assert missing == []
    assert "address:" in real.mr.MR.__init__.__doc__


def test_a_machine_without_rdma_says_so_through_the_real_module(real: Verbs) -> None:
    try:
        real.device.get_device_list()
    except real.pyverbs_error.PyverbsError:
        with pytest.raises(VerbsUnavailable, match="cannot be listed"):
            list(local_ends(real))
