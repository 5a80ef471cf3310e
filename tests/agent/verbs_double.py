"""A double of pyverbs: two hosts on one RoCEv2 network in this process, strict about the order of calls.

Names, parameters and units are those of pyverbs 44.0 (``test_verbs_names.py`` holds them against the real one
where it is installed). A write really copies memory, where state, keys, ranges and rights allow it, else it
ends with the status that hardware gives. ``Network.calls`` is what was called, in order.
"""

from __future__ import annotations

import ctypes
import errno
from collections import deque
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from types import SimpleNamespace
from typing import Any

from monkeytree.agent.verbs import Verbs

ENUMS = SimpleNamespace(
    IBV_ACCESS_LOCAL_WRITE=1, IBV_ACCESS_REMOTE_WRITE=2, IBV_QPT_RC=2, IBV_MTU_1024=3, IBV_MTU_4096=5,
    IBV_QPS_RESET=0, IBV_QPS_INIT=1, IBV_QPS_RTR=2, IBV_QPS_RTS=3, IBV_QPS_ERR=6,
    IBV_WR_RDMA_WRITE=0, IBV_WR_SEND=2, IBV_SEND_SIGNALED=2, IBV_GID_TYPE_ROCE_V2=2,
    IBV_WC_SUCCESS=0, IBV_WC_LOC_PROT_ERR=4, IBV_WC_WR_FLUSH_ERR=5, IBV_WC_REM_INV_REQ_ERR=9,
    IBV_WC_REM_ACCESS_ERR=10, IBV_WC_RETRY_EXC_ERR=12, IBV_WC_RNR_RETRY_EXC_ERR=13,
)  # fmt: skip


class PyverbsError(Exception):
    """As pyverbs.pyverbs_error has it."""


class PyverbsRDMAError(PyverbsError):
    """An error that the device gave."""

    def __init__(self, message: str, error_code: int = 0) -> None:
        super().__init__(f"{message}. Errno: {error_code}")
        self.error_code = error_code


@dataclass
class Network:
    """Devices by name with their IPv4 addresses; what runs between them; faults to inject.

    Attributes:
        cut: packets pass no more: work requests end with RETRY_EXC_ERR.
        silent: packets pass no more and nobody says so: no completion at all.
        refuse: calls, by name, that fail with this errno.
    """

    devices: dict[str, str] = field(default_factory=lambda: {"mlx5_0": "10.0.0.1", "mlx5_1": "10.0.0.2"})
    mtus: dict[str, int] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    pairs: dict[int, Any] = field(default_factory=dict)
    regions: dict[int, Any] = field(default_factory=dict)
    refuse: dict[str, int] = field(default_factory=dict)
    cut: bool = False
    silent: bool = False
    serial: int = 0x100

    def number(self) -> int:
        self.serial += 1
        return self.serial

    def called(self, name: str, **arguments: Any) -> None:
        self.calls.append((name, arguments))
        if name in self.refuse:
            raise PyverbsRDMAError(f"{name} failed", self.refuse[name])

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def last(self, name: str) -> dict[str, Any]:
        return next(arguments for called, arguments in reversed(self.calls) if called == name)

    def gid(self, device: str) -> str:
        address = self.devices[device]
        if ":" in address:
            return IPv6Address(address).exploded
        first, second, third, fourth = (int(part) for part in address.split("."))
        return f"0000:0000:0000:0000:0000:ffff:{first:02x}{second:02x}:{third:02x}{fourth:02x}"

    def verbs(self) -> Verbs:
        """The modules, bound to this network."""
        return Verbs(
            device=SimpleNamespace(
                Context=_bound(Context, self),
                get_device_list=lambda: [SimpleNamespace(name=name.encode()) for name in self.devices],
            ),
            pd=SimpleNamespace(PD=PD),
            cq=SimpleNamespace(CQ=CQ),
            mr=SimpleNamespace(MR=MR),
            qp=SimpleNamespace(QP=QP, QPCap=QPCap, QPInitAttr=QPInitAttr, QPAttr=QPAttr),
            addr=SimpleNamespace(GID=GID, GlobalRoute=GlobalRoute, AHAttr=AHAttr),
            wr=SimpleNamespace(SGE=SGE, SendWR=SendWR, RecvWR=RecvWR),
            enums=ENUMS,
            pyverbs_error=SimpleNamespace(PyverbsError=PyverbsError, PyverbsRDMAError=PyverbsRDMAError),
        )


def _bound(kind: Any, network: Network) -> Any:
    return lambda **arguments: kind(network, **arguments)


class _Object:
    """Something with a life: it cannot be used or closed after its end, nor end before what is made of it."""

    def __init__(self, network: Network, parent: _Object | None) -> None:
        self.network, self.parent, self.children, self.open = network, parent, 0, True
        if parent is not None:
            assert parent.open, f"{type(parent).__name__} is closed"
            parent.children += 1

    def close(self) -> None:
        if not self.open:
            return
        self.network.called(f"{type(self).__name__}.close")
        if self.children:
            raise PyverbsRDMAError(f"{type(self).__name__} is in use", errno.EBUSY)
        self.open = False
        if self.parent is not None:
            self.parent.children -= 1


class Context(_Object):
    def __init__(self, network: Network, name: str) -> None:
        super().__init__(network, None)
        network.called("Context", device=name)
        if name not in network.devices:
            raise PyverbsRDMAError(f"Failed to get device named {name}", errno.ENODEV)
        self.name = name

    def query_gid_table(self, max_entries: int, flags: int = 0) -> list[Any]:
        link_local = "fe80:0000:0000:0000:0000:0000:0000:0001"
        rows = [(0, link_local, 2), (2, self.network.gid(self.name), 1), (3, self.network.gid(self.name), 2)]
        return [_gid_entry(index, gid, kind) for index, gid, kind in rows][:max_entries]

    def query_port(self, port_num: int) -> Any:
        return SimpleNamespace(active_mtu=self.network.mtus.get(self.name, ENUMS.IBV_MTU_4096))


def _gid_entry(index: int, gid: str, kind: int) -> Any:
    return SimpleNamespace(gid_index=index, port_num=1, gid_type=kind, gid_str=lambda: gid)


class PD(_Object):
    def __init__(self, creator: Context) -> None:
        super().__init__(creator.network, creator)
        self.context = creator
        self.network.called("PD")


class CQ(_Object):
    def __init__(self, context: Context, cqe: int, cq_context: Any = None, channel: Any = None) -> None:
        super().__init__(context.network, context)
        self.network.called("CQ", cqe=cqe)
        self.cqe, self.waiting = cqe, deque[Any]()

    def add(self, number: int, status: int, length: int = 0) -> None:
        if not self.network.silent:
            self.waiting.append(SimpleNamespace(wr_id=number, status=status, byte_len=length))
        assert len(self.waiting) <= self.cqe, "the completion queue overflows"

    def poll(self, num_entries: int = 1) -> tuple[int, list[Any]]:
        found = [self.waiting.popleft() for _ in range(min(num_entries, len(self.waiting)))]
        return len(found), found


class MR(_Object):
    def __init__(self, creator: PD, length: int = 0, access: int = 0, address: int | None = None) -> None:
        assert address is not None
        super().__init__(creator.network, creator)
        self.network.called("MR", length=length, access=access, address=address)
        self.address, self.length, self.access = address, length, access
        self.lkey = self.rkey = self.network.number()
        self.network.regions[self.lkey] = self

    def close(self) -> None:
        super().close()
        self.network.regions.pop(self.lkey, None)

    def holds(self, address: int, length: int) -> bool:
        return self.address <= address and address + length <= self.address + self.length


@dataclass
class QPCap:
    max_send_wr: int = 1
    max_recv_wr: int = 10
    max_send_sge: int = 1
    max_recv_sge: int = 1
    max_inline_data: int = 0


@dataclass
class QPInitAttr:
    qp_type: int = 4
    qp_context: Any = None
    scq: Any = None
    rcq: Any = None
    srq: Any = None
    cap: Any = None
    sq_sig_all: int = 1


class QPAttr:
    """Members that pyverbs has, and no others."""

    __slots__ = (
        "ah_attr", "cur_qp_state", "dest_qp_num", "max_dest_rd_atomic",
        "max_rd_atomic", "min_rnr_timer",
        "path_mtu", "pkey_index", "port_num", "qp_access_flags", "qp_state", "retry_cnt", "rnr_retry",
        "rq_psn", "sq_psn", "timeout",
    )  # fmt: skip

    def __init__(self, qp_state: int = 1, cur_qp_state: int = 0) -> None:
        for name in self.__slots__:
            setattr(self, name, None)
        self.qp_state = qp_state


class GID:
    def __init__(self, val: str) -> None:
        groups = val.split(":")
        if len(groups) != 8 or any(len(group) != 4 for group in groups):
            raise PyverbsError(f"Invalid GID value ({val})")
        self.gid = val


@dataclass
class GlobalRoute:
    dgid: GID
    flow_label: int = 0
    sgid_index: int = -1
    hop_limit: int = 1
    traffic_class: int = 0


@dataclass
class AHAttr:
    dlid: int = 0
    sl: int = 0
    src_path_bits: int = 0
    static_rate: int = 0
    is_global: int = 0
    port_num: int = 1
    gr: GlobalRoute | None = None


@dataclass
class SGE:
    addr: int
    length: int
    lkey: int


class SendWR:
    def __init__(
        self,
        wr_id: int = 0,
        opcode: int = 2,
        num_sge: int = 0,
        imm_data: int = 0,
        sg: Any = None,
        send_flags: int = 2,
    ) -> None:
        self.wr_id, self.opcode, self.num_sge, self.sg, self.send_flags = (
            wr_id,
            opcode,
            num_sge,
            sg,
            send_flags,
        )
        self.rkey = self.addr = 0

    def set_wr_rdma(self, rkey: int, addr: int) -> None:
        self.rkey, self.addr = rkey, addr


class RecvWR:
    def __init__(self, wr_id: int = 0, num_sge: int = 0, sg: Any = None, next_wr: Any = None) -> None:
        self.wr_id, self.sg = wr_id, sg


class QP(_Object):
    def __init__(self, creator: PD, init_attr: QPInitAttr) -> None:
        super().__init__(creator.network, creator)
        init_attr.scq.children += 1
        self.init, self.context, self.qp_state = init_attr, creator.context, ENUMS.IBV_QPS_RESET
        self.qp_num = self.network.number()
        self.received: deque[RecvWR] = deque()
        self.access = 0
        self.network.called(
            "QP", qp_type=init_attr.qp_type, cap=init_attr.cap, sq_sig_all=init_attr.sq_sig_all
        )
        self.network.pairs[self.qp_num] = self

    def close(self) -> None:
        was_open = self.open
        super().close()
        if was_open:
            self.init.scq.children -= 1
        self.network.pairs.pop(self.qp_num, None)

    def to_init(self, qp_attr: QPAttr) -> None:
        self._step(
            "to_init",
            ENUMS.IBV_QPS_RESET,
            ENUMS.IBV_QPS_INIT,
            qp_attr,
            "port_num",
            "pkey_index",
            "qp_access_flags",
        )
        self.access = qp_attr.qp_access_flags  # type: ignore[attr-defined]

    def to_rtr(self, qp_attr: QPAttr) -> None:
        self._step(
            "to_rtr", ENUMS.IBV_QPS_INIT, ENUMS.IBV_QPS_RTR, qp_attr,
            "ah_attr", "dest_qp_num", "rq_psn", "path_mtu", "max_dest_rd_atomic", "min_rnr_timer",
        )  # fmt: skip
        self.remote = qp_attr.dest_qp_num  # type: ignore[attr-defined]
        self.address = qp_attr.ah_attr  # type: ignore[attr-defined]

    def to_rts(self, qp_attr: QPAttr) -> None:
        self._step(
            "to_rts", ENUMS.IBV_QPS_RTR, ENUMS.IBV_QPS_RTS, qp_attr,
            "sq_psn", "max_rd_atomic", "timeout", "retry_cnt", "rnr_retry",
        )  # fmt: skip

    def _step(self, name: str, before: int, after: int, attributes: QPAttr, *needed: str) -> None:
        given = {each: getattr(attributes, each) for each in needed}
        self.network.called(name, **given)
        missing = [each for each, value in given.items() if value is None]
        if self.qp_state != before or missing:
            raise PyverbsRDMAError(f"{name} from state {self.qp_state} without {missing}", errno.EINVAL)
        self.qp_state = after

    def post_recv(self, wr: RecvWR, bad_wr: Any = None) -> None:
        assert self.qp_state != ENUMS.IBV_QPS_RESET
        if len(self.received) >= self.init.cap.max_recv_wr:
            raise PyverbsRDMAError("Failed to post recv", errno.ENOMEM)
        self.received.append(wr)

    def post_send(self, wr: SendWR, bad_wr: Any = None) -> None:
        if self.qp_state not in (ENUMS.IBV_QPS_RTS, ENUMS.IBV_QPS_ERR):
            raise PyverbsRDMAError("Failed to post send", errno.EINVAL)
        self.network.called("post_send", opcode=wr.opcode, length=wr.sg[0].length, wr_id=wr.wr_id)
        status = ENUMS.IBV_WC_WR_FLUSH_ERR if self.qp_state == ENUMS.IBV_QPS_ERR else self._carry_out(wr)
        if status != ENUMS.IBV_WC_SUCCESS:
            self.qp_state = ENUMS.IBV_QPS_ERR
        self.init.scq.add(wr.wr_id, status)

    def _carry_out(self, wr: SendWR) -> int:
        element, local = wr.sg[0], self.network.regions.get(wr.sg[0].lkey)
        peer = self.network.pairs.get(self.remote)
        if local is None or not local.holds(element.addr, element.length):
            return int(ENUMS.IBV_WC_LOC_PROT_ERR)
        if self.network.cut or self.network.silent or peer is None or peer.qp_state < ENUMS.IBV_QPS_RTR:
            return int(ENUMS.IBV_WC_RETRY_EXC_ERR)
        if wr.opcode == ENUMS.IBV_WR_RDMA_WRITE:
            return self._write(peer, wr, element)
        return self._deliver(peer, element)

    def _write(self, peer: QP, wr: SendWR, element: SGE) -> int:
        region = self.network.regions.get(wr.rkey)
        allowed = region is not None and region.access & peer.access & ENUMS.IBV_ACCESS_REMOTE_WRITE
        if region is None or not allowed or not region.holds(wr.addr, element.length):
            return int(ENUMS.IBV_WC_REM_ACCESS_ERR)
        ctypes.memmove(wr.addr, element.addr, element.length)
        return int(ENUMS.IBV_WC_SUCCESS)

    def _deliver(self, peer: QP, element: SGE) -> int:
        if not peer.received:
            return int(ENUMS.IBV_WC_RNR_RETRY_EXC_ERR)
        slot = peer.received.popleft()
        if element.length > slot.sg[0].length:
            return int(ENUMS.IBV_WC_REM_INV_REQ_ERR)
        ctypes.memmove(slot.sg[0].addr, element.addr, element.length)
        peer.init.rcq.add(slot.wr_id, ENUMS.IBV_WC_SUCCESS, element.length)
        return int(ENUMS.IBV_WC_SUCCESS)
