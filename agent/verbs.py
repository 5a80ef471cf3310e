"""Helpers around pyverbs for programs that own their queue pairs: a flow label at RTR, a source port at RTS.

pyverbs comes with rdma-core (Debian: ``python3-pyverbs``) and is imported only when it is used. What it takes
was tried on 44.0: GIDs only in eight groups of four digits, the route of an ``AHAttr`` under the name ``gr``;
and ``Mlx5QP.modify_udp_sport`` dereferences what it is given without a look.
"""

from __future__ import annotations

import errno
import importlib
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from monkeytree.ecmp.label import FIRST_PORT, LAST_PORT, label_of_port
from monkeytree.errors import MonkeyTreeError

from .labels import shortest

_GIDS = 1024  # entries of a GID table asked for; devices have 16 to 256 a port
_HOPS = 64  # IP TTL: RoCEv2 crosses routers, a leaf and a spine at least
# 4.096 us x 2^17 = 0.54 s for an acknowledgement, 7 times more: a dead peer is known after about 4.3 s.
ACK_TIMEOUT, RETRIES = 17, 7
_RNR_TIMER, _RNR_FOREVER = 12, 7  # 0.64 ms; our own deadlines end the wait


class VerbsUnavailable(MonkeyTreeError):
    """RDMA verbs cannot be used here; the message says what is missing."""

    code = "verbs_unavailable"


class SourcePortUnsupported(MonkeyTreeError):
    """The device cannot change the UDP source port of a connected queue pair."""

    code = "source_port_unsupported"


@dataclass(frozen=True, slots=True)
class Verbs:
    """The modules of pyverbs by name; tests put a double in their place."""

    device: Any
    pd: Any
    cq: Any
    mr: Any
    qp: Any
    addr: Any
    wr: Any
    enums: Any
    pyverbs_error: Any


@dataclass(frozen=True, slots=True)
class LocalEnd:
    """Where a queue pair can start: a port's RoCEv2 GID, which is an IP address."""

    device: str
    port_num: int
    gid_index: int
    gid: str
    address: str


def load_verbs() -> Verbs:
    """Import pyverbs.

    Raises:
        VerbsUnavailable: it is not installed, or does not load.
    """
    try:
        return Verbs(*(importlib.import_module(f"pyverbs.{name}") for name in Verbs.__slots__))
    except ImportError as error:
        raise VerbsUnavailable(
            f"pyverbs cannot be imported ({error}): install rdma-core's Python bindings "
            "(Debian, Ubuntu: apt-get install python3-pyverbs ibverbs-providers)"
        ) from error


def gid_of_address(address: str) -> str:
    """The GID of an IP address (of IPv4 ``::ffff:a.b.c.d``), as pyverbs writes and takes it."""
    packed = ipaddress.ip_address(address).packed
    return ipaddress.IPv6Address(packed if len(packed) == 16 else b"\0" * 10 + b"\xff\xff" + packed).exploded


def address_of_gid(gid: str) -> str | None:
    """The IP address that a GID stands for; None for link-local ones, which no router forwards."""
    found = ipaddress.IPv6Address(gid)
    return None if found.is_link_local or found.is_unspecified else str(found.ipv4_mapped or found)


def local_ends(verbs: Verbs, device: str = "") -> Iterator[LocalEnd]:
    """All RoCEv2 GIDs of ``device``, or of every device, but for link-local ones.

    Raises:
        VerbsUnavailable: devices cannot be listed (no kernel support), or there is none of that name.
    """
    names = [device] if device else _device_names(verbs)
    for name in names:
        try:
            context = verbs.device.Context(name=name)
        except verbs.pyverbs_error.PyverbsError as error:
            raise VerbsUnavailable(f"the RDMA device {name!r} cannot be opened: {error}") from error
        try:
            entries = context.query_gid_table(_GIDS)
        finally:
            context.close()
        for entry in entries:
            address = address_of_gid(entry.gid_str())
            if entry.gid_type == verbs.enums.IBV_GID_TYPE_ROCE_V2 and address is not None:
                yield LocalEnd(name, entry.port_num, entry.gid_index, entry.gid_str(), address)


def find_end(verbs: Verbs, address: str, device: str = "") -> LocalEnd:
    """The end at ``address``; where ``device`` is named and does not have it, its first, IPv4 before IPv6.

    Raises:
        VerbsUnavailable: no device has it; the message lists the addresses there are.
    """
    ends = sorted(local_ends(verbs, device), key=lambda end: ":" in end.address)
    at_address = [end for end in ends if end.address == (shortest(address) or address)]
    if at_address or (device and ends):
        return (at_address or ends)[0]
    there = ", ".join(f"{end.address} ({end.device})" for end in ends) or "none"
    raise VerbsUnavailable(f"no RDMA device has the address {address}; RoCEv2 addresses here: {there}")


def address_vector(
    verbs: Verbs,
    end: LocalEnd,
    remote_gid: str,
    *,
    udp_source_port: int | None = None,
    traffic_class: int = 0,
) -> Any:
    """An ``AHAttr`` to ``remote_gid`` whose label gives ``udp_source_port`` (None: the kernel's choice).

    Raises:
        ValueError: no flow label gives that port.
    """
    label = 0 if udp_source_port is None else label_of_port(udp_source_port)
    route = verbs.addr.GlobalRoute(
        dgid=verbs.addr.GID(remote_gid),
        flow_label=label,
        sgid_index=end.gid_index,
        hop_limit=_HOPS,
        traffic_class=traffic_class,
    )
    return verbs.addr.AHAttr(is_global=1, port_num=end.port_num, gr=route)


def to_init(verbs: Verbs, queue_pair: Any, end: LocalEnd, access: int) -> None:
    """Take a new queue pair to INIT; ``access`` is what the peer may do (``IBV_ACCESS_*``)."""
    attributes = verbs.qp.QPAttr(qp_state=verbs.enums.IBV_QPS_INIT)
    attributes.port_num = end.port_num
    attributes.pkey_index = 0
    attributes.qp_access_flags = access
    queue_pair.to_init(attributes)


def connect(
    verbs: Verbs, queue_pair: Any, vector: Any, *, remote_qpn: int, remote_psn: int, local_psn: int, mtu: int
) -> None:
    """Take a reliable connected queue pair from INIT through RTR, where the label is set, to RTS.

    ``mtu`` is an ``IBV_MTU_*``; PSNs have 24 bits.
    """
    attributes = verbs.qp.QPAttr(qp_state=verbs.enums.IBV_QPS_RTR)
    attributes.ah_attr = vector
    attributes.dest_qp_num = remote_qpn
    attributes.rq_psn = remote_psn
    attributes.path_mtu = mtu
    attributes.max_dest_rd_atomic = 1
    attributes.min_rnr_timer = _RNR_TIMER
    queue_pair.to_rtr(attributes)
    attributes.sq_psn = local_psn
    attributes.max_rd_atomic = 1
    attributes.timeout = ACK_TIMEOUT
    attributes.retry_cnt = RETRIES
    attributes.rnr_retry = _RNR_FOREVER
    queue_pair.to_rts(attributes)


def set_udp_source_port(queue_pair: Any, port: int, mlx5: Any = None) -> None:
    """Change the UDP source port of a connected mlx5 queue pair (RC or UC, at RTS) while it runs.

    Args:
        mlx5: the module ``pyverbs.providers.mlx5.mlx5dv``; None imports it.

    Raises:
        ValueError: ``port`` is not 49152..65535, or there is no queue pair.
        SourcePortUnsupported: no mlx5 provider, or the device lacks ``rts2rts_qp_udp_sport`` (EOPNOTSUPP).
        pyverbs.pyverbs_error.PyverbsRDMAError: anything else that the device says.
    """
    if queue_pair is None:
        raise ValueError("no queue pair is given")
    if not FIRST_PORT <= port <= LAST_PORT:
        raise ValueError(f"UDP source port {port} is not {FIRST_PORT}..{LAST_PORT}")
    try:
        mlx5 = mlx5 or importlib.import_module("pyverbs.providers.mlx5.mlx5dv")
    except ImportError as error:
        raise SourcePortUnsupported(f"pyverbs has no mlx5 provider here: {error}") from error
    try:
        mlx5.Mlx5QP.modify_udp_sport(queue_pair, port)
    except Exception as error:
        if getattr(error, "error_code", None) not in (errno.EOPNOTSUPP, -errno.EOPNOTSUPP):
            raise
        raise SourcePortUnsupported(
            "the device cannot change the source port of a connected queue pair (EOPNOTSUPP: it lacks "
            "rts2rts_qp_udp_sport); give the flow label at RTR instead"
        ) from error


def _device_names(verbs: Verbs) -> list[str]:
    try:
        devices = verbs.device.get_device_list()
    except verbs.pyverbs_error.PyverbsError as error:
        raise VerbsUnavailable(f"RDMA devices cannot be listed: {error}") from error
    return [device.name.decode() for device in devices]
