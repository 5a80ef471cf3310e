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
from typing import Any

from tests.cli.serving import ROOT, environment

SEND = """
import socket, sys
src, port, dst, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.bind((src, port))
    for _ in range(count):
        s.sendto(bytes(64), (dst, 4791))
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
    """Hosts a and b (addresses 10.0.0.x and 10.0.1.x), leaves l and m, and spines s0, s1, ...."""

    prefix: str
    spines: int

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

    def send(self, place: str, src: str, port: int, dst: str, count: int) -> None:
        """RoCEv2-like packets of one flow."""
        self.inside(place, sys.executable, "-I", "-c", SEND, src, str(port), dst, str(count))

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
        return {f"10.{side}.{spine}.2": spine for side in (1, 2) for spine in range(self.spines)}


@contextmanager
def fabric(spines: int) -> Iterator[Fabric]:
    """A fabric, taken down at the end."""
    made = Fabric(f"mt{os.getpid()}", spines)
    places = ["a", "b", "l", "m", *(f"s{spine}" for spine in range(spines))]
    try:
        for place in places:
            run("ip", "netns", "add", made.prefix + place)
            made.inside(place, "sysctl", "-qw", *_settings(router=place not in "ab"))
            run("ip", "-n", made.prefix + place, "link", "set", "lo", "up")
        _connect(made)
        yield made
    finally:
        for place in places:
            run("ip", "netns", "del", made.prefix + place, check=False)


def _settings(*, router: bool) -> list[str]:
    quiet = ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"]
    loose = ["net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0"]
    switch = ["net.ipv4.ip_forward=1", "net.ipv4.fib_multipath_hash_policy=1", "net.ipv4.icmp_ratelimit=0"]
    return [*quiet, *loose, *(switch if router else ())]


def _connect(made: Fabric) -> None:
    """Links and routes; 10.1.s.0/30 joins leaf l to spine s, 10.2.s.0/30 leaf m."""
    for side, (host, leaf) in enumerate((("a", "l"), ("b", "m"))):
        _link(made, (host, "eth", f"10.0.{side}.1/24"), (leaf, "host", f"10.0.{side}.254/24"))
        run("ip", "-n", made.prefix + host, "address", "add", f"10.0.{side}.2/24", "dev", "eth")
        run("ip", "-n", made.prefix + host, "route", "add", "default", "via", f"10.0.{side}.254")
        for spine in range(made.spines):
            net = f"10.{side + 1}.{spine}"
            _link(made, (leaf, f"up{spine}", f"{net}.1/30"), (f"s{spine}", leaf, f"{net}.2/30"))
            run("ip", "-n", f"{made.prefix}s{spine}", "route", "add", f"10.0.{side}.0/24", "via", f"{net}.1")
        hops = [word for s in range(made.spines) for word in ("nexthop", "via", f"10.{side + 1}.{s}.2")]
        run("ip", "-n", made.prefix + leaf, "route", "add", f"10.0.{1 - side}.0/24", *hops)


def _link(made: Fabric, *ends: tuple[str, str, str]) -> None:
    (near, name, _), (far, peer, _) = ends
    run(
        "ip", "-n", made.prefix + near, "link", "add", name, "type", "veth",
        "peer", "name", peer, "netns", made.prefix + far,
    )  # fmt: skip
    for place, device, address in ends:
        run("ip", "-n", made.prefix + place, "address", "add", address, "dev", device)
        run("ip", "-n", made.prefix + place, "link", "set", "dev", device, "up")
