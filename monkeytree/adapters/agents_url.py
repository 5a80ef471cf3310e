"""URLs that agents announce: the controller calls them with its secret, so they are looked at closely.

Hosts may be limited by the site. Nothing is resolved here: a name is what the site's DNS makes of it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

MAX_URL = 512
_LIKE = "http://HOST:PORT or https://HOST:PORT"

HostRule = Callable[[str], bool]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: A name that ends so is an address to resolvers (inet_aton): 2852039166, 0xa9fea9fe, 169.254.43518.
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def read_hosts(text: str) -> tuple[HostRule, ...]:
    """The rules in a list of host patterns and networks, separated by commas; a host needs one that holds.

    Raises:
        ValueError: a network cannot be read; the message shows it.
    """
    return tuple(_rule(part) for part in filter(None, (part.strip().lower() for part in text.split(","))))


def check_agent_url(url: str, rules: tuple[HostRule, ...]) -> str:
    """``url`` without a trailing slash.

    Raises:
        ValueError: it is no URL of an agent, or of a host that no rule lets in; the message says what is
            wanted.
    """
    if len(url) > MAX_URL or not url.isascii() or any(letter <= " " for letter in url):
        raise ValueError(f"must be {_LIKE}, ASCII without blanks, of at most {MAX_URL} characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"must be {_LIKE}") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise ValueError(f"must be {_LIKE}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user or password")
    if parts.path not in ("", "/") or "?" in url or "#" in url:
        raise ValueError(f"must be {_LIKE}, without path, query and fragment")
    address = _address(host)
    if address is None and _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        raise ValueError("must write an IPv4 address as four decimal numbers")  # resolvers take more forms
    inner = _inner(address)
    if inner is not None and (inner.is_link_local or inner.is_multicast or inner.is_unspecified):
        raise ValueError("must not name a link-local, multicast or unspecified address")
    if rules and not any(rule(host) for rule in rules):
        raise ValueError(f"names the host {host!r}, which MONKEYTREE_AGENT_HOSTS does not let in")
    return url.rstrip("/")


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _inner(address: Address | None) -> Address | None:
    """The IPv4 address that an IPv6 one stands for (mapped, or behind NAT64), else itself."""
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address


def _rule(part: str) -> HostRule:
    if "/" in part:
        try:
            network = ipaddress.ip_network(part)
        except ValueError as error:
            raise ValueError(
                f"must hold host names, patterns with * and networks; {part!r}: {error}"
            ) from None
        return lambda host: (address := _inner(_address(host))) is not None and address in network
    return lambda host: fnmatchcase(host.lower(), part)
