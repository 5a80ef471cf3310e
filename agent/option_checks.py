"""What a site may set for an agent, looked at before anything starts."""

from __future__ import annotations

import ipaddress
import math
import re
from pathlib import Path
from urllib.parse import urlsplit

from monkeytree.errors import MonkeyTreeError
from monkeytree.limits import NAME_MESSAGE, is_name

from .faults import Faults
from .options import Options

#: Where the kernel lists RDMA devices.
DEVICES = Path("/sys/class/infiniband")


class BadOption(MonkeyTreeError):
    """An option of the agent cannot be used; the message names it and its value."""

    code = "bad_option"


def check_options(options: Options) -> None:
    """Look at every option that the type alone does not vouch for.

    Raises:
        BadOption: one cannot be used.
    """
    if not is_name(options.node):
        raise BadOption(f"--node {NAME_MESSAGE}, got {options.node!r}")
    if options.cluster and not is_name(options.cluster):
        raise BadOption(f"--cluster {NAME_MESSAGE}, got {options.cluster!r}")
    _check_addresses(options)
    if options.service and not _is_base_url(options.service):
        raise BadOption(f"--service takes http://HOST:PORT or https://HOST:PORT, got {options.service!r}")
    for name, value in (("--arena-gb", options.arena_bytes), ("--chunk-timeout", options.chunk_timeout_s)):
        if not math.isfinite(value) or value < 0:
            raise BadOption(f"{name} must be a number from 0, got {value!r}")
    _check_device(options.device)
    try:
        Faults(options.faults)
    except (ValueError, IndexError):
        raise BadOption(f"--fault takes corrupt:N, stall:N or hold:STATE:S, got {options.faults!r}") from None


def _check_addresses(options: Options) -> None:
    host, _, port = options.listen.rpartition(":")
    if not _is_host(host.strip("[]")) or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65_535:
        raise BadOption(f"--listen takes HOST:PORT, the port from 0 to 65535, got {options.listen!r}")
    if options.advertise and not _is_host(options.advertise.strip("[]")):
        raise BadOption(f"--advertise takes a host name or an address, got {options.advertise!r}")
    if options.host in ("0.0.0.0", "::"):
        raise BadOption(f"{options.listen} needs --advertise: the host others reach this node at")


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return re.fullmatch("[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?", text) is not None
    return True


def _is_base_url(text: str) -> bool:
    if not text.isascii() or any(letter <= " " for letter in text):
        return False
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and not parts.query


def _check_device(device: str) -> None:
    if not device:
        return
    known = sorted(one.name for one in DEVICES.iterdir()) if DEVICES.is_dir() else []
    if device not in known:
        there = ", ".join(known) or "none"
        raise BadOption(f"--device {device!r} is no RDMA device of this machine; there are: {there}")
