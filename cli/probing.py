"""Probes: UDP packets to RoCEv2's port whose TTL ends at a switch, which then tells by ICMP who it is.

Linux hands the ICMP error to the very socket that sent the packet (``IP_RECVERR``, ip(7)), so this takes no
privilege, and no answer is mistaken for that of another port.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from monkeytree.ecmp.label import label_of_port

ROCE_PORT = 4791
PAYLOAD = bytes(16)
"""A BTH of zeros and a word more: no NIC takes it for a message, should it arrive."""
TIME_EXCEEDED = {socket.AF_INET: (2, 11), socket.AF_INET6: (3, 3)}
"""Origin (ICMP, ICMPv6) and type of "time exceeded" (linux/errqueue.h, RFC 792, RFC 4443)."""
_ERROR = struct.Struct("=IBBBxII")  # struct sock_extended_err, followed by the address of who sent it


@dataclass(frozen=True, slots=True)
class Answer:
    """A probe and the address of the switch where it ended; None where none answered."""

    src: str
    dst: str
    port: int
    hop: str | None


class ProbeFailed(Exception):
    """Probes cannot be sent at all; the message names the cause."""


AGAIN = 2
"""How often probes without an answer are sent again: switches limit ICMP, Linux to 1,000 a second."""


def probe_all(
    src: str, dst: str, ports: Sequence[int], *, ttl: int, rate: float, timeout_s: float, dscp: int = 0
) -> list[Answer]:
    """Send one probe a port; those without an answer :data:`AGAIN`, unless nothing answers at all.

    Args and raises: see :func:`probe`.
    """

    def ask(some: Sequence[int]) -> list[Answer]:
        return list(probe(src, dst, some, ttl=ttl, rate=rate, timeout_s=timeout_s, dscp=dscp))

    answers = ask(ports)
    for _ in range(AGAIN):
        lost = [at for at, answer in enumerate(answers) if answer.hop is None]
        if len(lost) in (0, len(ports)):
            break
        for at, answer in zip(lost, ask([ports[at] for at in lost]), strict=True):
            answers[at] = answer
    return answers


def probe(
    src: str, dst: str, ports: Sequence[int], *, ttl: int, rate: float, timeout_s: float, dscp: int = 0
) -> Iterator[Answer]:
    """Send one probe a port, and yield each answer as it comes or does not.

    Args:
        ttl: links up to the switch that is to answer: 2 for a spine, 3 for a core.
        rate: probes a second; switches limit the ICMP they send.
        timeout_s: seconds to wait for an answer.
        dscp: of the packets, as that of the traffic to be steered.

    Raises:
        ProbeFailed: the source address is not of this host, or there is no route.
    """
    for port in ports:
        began = time.monotonic()
        yield Answer(src, dst, port, _one(src, dst, port, ttl, timeout_s, dscp))
        time.sleep(max(0.0, 1 / rate - (time.monotonic() - began)))


def _one(src: str, dst: str, port: int, ttl: int, timeout_s: float, dscp: int) -> str | None:
    family = socket.AF_INET6 if ip_address(dst).version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        try:
            _prepare(sender, family, ttl, dscp)
            sender.bind((src, port))
            # Not connected: Linux gives a connected socket a random hash, which a virtual link hands on to
            # the next router in place of that of the packet (sk_txhash, fib_multipath_hash).
            sender.sendto(PAYLOAD, _target(dst, family, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return None  # the port is another program's: others will do
            if error.errno == errno.EADDRNOTAVAIL:
                raise ProbeFailed(f"{src} is no address of this host: {error.strerror}") from None
            raise ProbeFailed(f"cannot send from {src} to {dst}: {error.strerror}") from None
        return _who_answered(sender, family, timeout_s)


def _target(dst: str, family: int, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    """Over IPv6 with the flow label that gives a RoCEv2 sender this port: switches may hash it."""
    return (dst, ROCE_PORT, label_of_port(port), 0) if family == socket.AF_INET6 else (dst, ROCE_PORT)


def _prepare(sender: socket.socket, family: int, ttl: int, dscp: int) -> None:
    if family == socket.AF_INET6:
        ipv6_recverr, ipv6_flowinfo_send = 25, 33  # linux/in6.h; Python has no names for them
        sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, ttl)
        sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
        sender.setsockopt(socket.IPPROTO_IPV6, ipv6_recverr, 1)
        sender.setsockopt(socket.IPPROTO_IPV6, ipv6_flowinfo_send, 1)
        return
    ip_recverr = 11  # linux/in.h; Python has no name for it
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
    sender.setsockopt(socket.IPPROTO_IP, ip_recverr, 1)


def _who_answered(sender: socket.socket, family: int, timeout_s: float) -> str | None:
    deadline = time.monotonic() + timeout_s
    poll = select.poll()
    poll.register(sender, select.POLLERR)
    while (left := deadline - time.monotonic()) > 0:
        if not poll.poll(left * 1000):
            return None
        try:
            _, control, _, _ = sender.recvmsg(512, 512, socket.MSG_ERRQUEUE)
        except OSError:
            continue
        for _, _, data in control:
            hop = _sender_of(data, family)
            if hop is not None:
                return hop
    return None


def _sender_of(data: bytes, family: int) -> str | None:
    """The switch that sent "time exceeded", out of an error of the queue."""
    if len(data) < _ERROR.size + 8:
        return None
    _, origin, kind, _, _, _ = _ERROR.unpack_from(data)
    if (origin, kind) != TIME_EXCEEDED[socket.AddressFamily(family)]:
        return None
    rest = data[_ERROR.size :]
    if family == socket.AF_INET6:
        return socket.inet_ntop(family, rest[8:24]) if len(rest) >= 24 else None
    return socket.inet_ntop(family, rest[4:8])
