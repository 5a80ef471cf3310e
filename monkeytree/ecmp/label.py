"""From a RoCEv2 flow label to the UDP source port, and back.

A queue pair names its flow by a 20-bit flow label (``ah_attr.grh.flow_label`` at the transition to RTR).
The Linux kernel folds it into a source port of 49152..65535; where the label is 0 it makes one from
the two queue pair numbers. Source: ``include/rdma/ib_verbs.h``, ``rdma_flow_label_to_udp_sport``,
``rdma_calc_flow_label`` and ``rdma_get_udp_sport``.
"""

from __future__ import annotations

FIRST_PORT = 0xC000
LAST_PORT = 0xFFFF
PORTS = LAST_PORT - FIRST_PORT + 1

_LABEL_MASK = 0xFFFFF
_LOW_BITS = 14
_LOW_MASK = (1 << _LOW_BITS) - 1


def port_of_label(label: int) -> int:
    """The UDP source port of a 20-bit flow label (``rdma_flow_label_to_udp_sport``).

    Raises:
        ValueError: ``label`` is not 0..0xFFFFF.
    """
    if not 0 <= label <= _LABEL_MASK:
        raise ValueError(f"flow label {label} is not a 20-bit number")
    return FIRST_PORT | ((label & _LOW_MASK) ^ (label >> _LOW_BITS))


def label_of_port(port: int) -> int:
    """The least non-zero flow label whose source port is ``port``.

    A label of 0 would ask the kernel for its default, so port 0xC000 takes 0x4001, the least label
    whose high part cancels its low part.

    Raises:
        ValueError: ``port`` is not 49152..65535, the range a label can reach.
    """
    if not FIRST_PORT <= port <= LAST_PORT:
        raise ValueError(f"UDP source port {port} is not {FIRST_PORT}..{LAST_PORT}: no flow label gives it")
    return (port & _LOW_MASK) or (1 << _LOW_BITS) | 1


def default_label(local_qpn: int, remote_qpn: int) -> int:
    """The label the kernel makes where none is set (``rdma_calc_flow_label``), from the QP numbers."""
    mixed = (local_qpn * remote_qpn) & 0xFFFFFFFFFFFFFFFF
    mixed ^= mixed >> 20
    mixed ^= mixed >> 40
    return mixed & _LABEL_MASK


def source_port(label: int, local_qpn: int, remote_qpn: int) -> int:
    """The source port of a queue pair (``rdma_get_udp_sport``): by its label, or by its QP numbers at 0."""
    return port_of_label(label or default_label(local_qpn, remote_qpn))
