"""The kernel's rule from flow label to source port, and its inverse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monkeytree.ecmp.label import (
    FIRST_PORT,
    LAST_PORT,
    default_label,
    label_of_port,
    port_of_label,
    source_port,
)


def test_every_port_is_reached_by_a_label_that_is_not_zero() -> None:
    for port in range(FIRST_PORT, LAST_PORT + 1):
        label = label_of_port(port)
        assert 0 < label <= 0xFFFFF
        assert port_of_label(label) == port


@pytest.mark.parametrize(
    ("label", "port"),
    [(0xFFFFF, 65472), (0x4001, 0xC000), (1, 0xC001), (0, 0xC000), (0xFC000, 0xC03F)],
)
def test_known_ports(label: int, port: int) -> None:
    """0xFFFFF -> 65472 is the port users of UCX see (openucx/ucx 11004)."""
    assert port_of_label(label) == port


@given(st.integers(0, 0xFFFFFF), st.integers(0, 0xFFFFFF))
def test_a_zero_label_takes_the_kernels_default(local: int, remote: int) -> None:
    v = local * remote
    v = v ^ (v >> 20)
    v = v ^ (v >> 40)
    assert default_label(local, remote) == v % (1 << 20)
    assert source_port(0, local, remote) == port_of_label(v % (1 << 20))
    assert source_port(7, local, remote) == port_of_label(7)


@pytest.mark.parametrize("port", [0, FIRST_PORT - 1, LAST_PORT + 1])
def test_a_port_no_label_reaches_is_refused(port: int) -> None:
    with pytest.raises(ValueError, match=str(port)):
        label_of_port(port)


@pytest.mark.parametrize("label", [-1, 1 << 20])
def test_a_label_of_more_than_20_bits_is_refused(label: int) -> None:
    with pytest.raises(ValueError, match="20-bit"):
        port_of_label(label)
