"""Two racks and their spines in network namespaces: Linux routers with ECMP, whose hash nobody told us."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from tests.cli.serving import ROOT, environment

SEND = """
import socket, sys
src, port, dst, count, label = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
six = ":" in src
with socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM) as s:
    if six:
        s.setsockopt(socket.IPPROTO_IPV6, 33, 1)  # IPV6_FLOWINFO_SEND
    s.bind((src, port))
    for _ in range(count):
        s.sendto(bytes(64), (dst, 4791, label, 0) if six else (dst, 4791))
"""


def run(*command: str, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=check, **options)


def missing() -> str | None:
    """Why there can be no namespaces here, None where there can."""
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    name = f"mt{os.getpid()}probe"
    if run("ip", "netns", "add", name, check=False).returncode:
        return "network namespaces may not be made here (root, or CAP_SYS_ADMIN, is needed)"
    try:
        tried = run(
            "ip", "netns", "exec", name, "sysctl", "-w", "net.ipv4.fib_multipath_hash_policy=1", check=False
        )
        return None if tried.returncode == 0 else "the kernel has no multipath routing"
    finally:
        run("ip", "netns", "del", name, check=False)


@dataclass(frozen=True)
class Fabric:
    """Hosts a and b (addresses 10.0.0.x and 10.0.1.x), leaves l and m, and spines s0, s1, ....

    ``policy``: over IPv6 (fd00:0:0::x and fd00:0:1::x), the kernel's fib_multipath_hash_policy: 0 hashes the
    addresses and the flow label, 1 addresses and ports. None: over IPv4, by addresses and ports.
    """

    prefix: str
    spines: int
    policy: int | None = None

    def host(self, side: int, number: int) -> str:
        """An address of a host."""
        return f"10.0.{side}.{number}" if self.policy is None else _shortest(f"fd00:0:{side}::{number:x}")

    def hop(self, side: int, spine: int, end: int) -> str:
        """An address of the link of leaf l (side 0) or m to a spine: ``end`` 1 the leaf's, 2 the spine's."""
        if self.policy is None:
            return f"10.{side + 1}.{spine}.{end}"
        return _shortest(f"fd00:{side + 1}:{spine}::{end}")

    def inside(self, place: str, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in a namespace."""
        return run(
            "ip", "netns", "exec", self.prefix + place, *command, check=check, cwd=ROOT, env=environment()
        )

    def monkeytree(self, place: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Our command line on a host of the fabric."""
        done = self.inside(place, sys.executable, "-m", "monkeytree.cli", *arguments, check=False)
        assert "Traceback" not in done.stderr
        return done

    def send(self, place: str, src: str, port: int, dst: str, count: int, label: int = 0) -> None:
        """RoCEv2-like packets of one flow; ``label`` is that of IPv6 headers."""
        self.inside(place, sys.executable, "-I", "-c", SEND, src, str(port), dst, str(count), str(label))

    def sent_to_spines(self, leaf: str) -> list[int]:
        """Packets that a leaf has sent to each spine so far."""
        links = json.loads(run("ip", "-n", self.prefix + leaf, "-s", "-j", "link", "show").stdout)
        packets = {link["ifname"]: int(link["stats64"]["tx"]["packets"]) for link in links}
        return [packets[f"up{spine}"] for spine in range(self.spines)]

    def cut(self, spine: int) -> None:
        """Take both links of a spine down."""
        for leaf in "lm":
            run("ip", "-n", self.prefix + leaf, "link", "set", "dev", f"up{spine}", "down")

    @property
    def hops(self) -> dict[str, int]:
        """The spine of each address that answers probes, from both sides."""
        return {self.hop(side, spine, 2): spine for side in (0, 1) for spine in range(self.spines)}


@contextmanager
def fabric(spines: int, policy: int | None = None) -> Iterator[Fabric]:
    """A fabric, taken down at the end."""
    made = Fabric(f"mt{os.getpid()}", spines, policy)
    places = ["a", "b", "l", "m", *(f"s{spine}" for spine in range(spines))]
    try:
        for place in places:
            run("ip", "netns", "add", made.prefix + place)
            made.inside(place, "sysctl", "-qw", *_settings(policy, router=place not in "ab"))
            run("ip", "-n", made.prefix + place, "link", "set", "lo", "up")
        _connect(made)
        yield made
    finally:
        for place in places:
            run("ip", "netns", "del", made.prefix + place, check=False)


def _shortest(address: str) -> str:
    return str(ip_address(address))


def _settings(policy: int | None, *, router: bool) -> list[str]:
    if policy is not None:
        switch = [f"net.ipv6.fib_multipath_hash_policy={policy}", "net.ipv6.icmp.ratelimit=0"]
        return [
            "net.ipv6.conf.all.disable_ipv6=0",
            *(["net.ipv6.conf.all.forwarding=1", *switch] if router else ()),
        ]
    quiet = ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"]
    loose = ["net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0"]
    switch = ["net.ipv4.ip_forward=1", "net.ipv4.fib_multipath_hash_policy=1", "net.ipv4.icmp_ratelimit=0"]
    return [*quiet, *loose, *(switch if router else ())]


def _connect(made: Fabric) -> None:
    """Links and routes; link nets join leaf l (10.1.s.0/30, fd00:1:s::/64) and m to spine s."""
    host_net, link_net = ("24", "30") if made.policy is None else ("64", "64")
    for side, (host, leaf) in enumerate((("a", "l"), ("b", "m"))):
        router, other = made.host(side, 254), f"{made.host(1 - side, 0)}/{host_net}"
        own = f"{made.host(side, 0)}/{host_net}"
        _link(made, (host, "eth", f"{made.host(side, 1)}/{host_net}"), (leaf, "host", f"{router}/{host_net}"))
        _ip(made, host, "address", "add", f"{made.host(side, 2)}/{host_net}", "dev", "eth")
        _ip(made, host, "route", "add", "default", "via", router)
        for spine in range(made.spines):
            ends = [f"{made.hop(side, spine, end)}/{link_net}" for end in (1, 2)]
            _link(made, (leaf, f"up{spine}", ends[0]), (f"s{spine}", leaf, ends[1]))
            _ip(made, f"s{spine}", "route", "add", own, "via", made.hop(side, spine, 1))
        hops = [word for s in range(made.spines) for word in ("nexthop", "via", made.hop(side, s, 2))]
        _ip(made, leaf, "route", "add", other, *hops)


def _ip(made: Fabric, place: str, *words: str) -> None:
    """`ip`, in a namespace; addresses of IPv6 are good at once, without a search for duplicates."""
    family = () if made.policy is None else ("-6",)
    after = ("nodad",) if family and words[:2] == ("address", "add") else ()
    run("ip", "-n", made.prefix + place, *family, *words, *after)


def _link(made: Fabric, *ends: tuple[str, str, str]) -> None:
    (near, name, _), (far, peer, _) = ends
    run(
        "ip", "-n", made.prefix + near, "link", "add", name, "type", "veth",
        "peer", "name", peer, "netns", made.prefix + far,
    )  # fmt: skip
    for place, device, address in ends:
        _ip(made, place, "address", "add", address, "dev", device)
        run("ip", "-n", made.prefix + place, "link", "set", "dev", device, "up")
