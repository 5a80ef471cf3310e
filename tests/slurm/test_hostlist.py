"""Hostlists: Slurm's order is kept, ClusterShell's extras are not let in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monkeytree.slurm.hostlist import BadHostlist, expand, fold


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node007", ["node007"]),
        ("node[008,014-016]", ["node008", "node014", "node015", "node016"]),
        ("node[3,1]", ["node3", "node1"]),
        ("b2,a[01-02]", ["b2", "a01", "a02"]),
        ("rack[1-2]n[1-2]", ["rack1n1", "rack1n2", "rack2n1", "rack2n2"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[08-11]-ib", ["n08-ib", "n09-ib", "n10-ib", "n11-ib"]),
        ("", []),
        ("(null)", []),
        ("None assigned", []),
    ],
)
def test_expands_in_slurms_order(text: str, hosts: list[str]) -> None:
    assert list(expand(text)) == hosts


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("node[1-3", "not closed"),
        ("node1-3]", "do not match"),
        ("node[[1]]", "do not match"),
        ("node[1-3,]", "is no range"),
        ("node[a-b]", "is no range"),
        ("node[5-2]", "backwards"),
        ("a,,b", "empty name"),
        ("a,a", "names 'a' twice"),
        ("n[1-2,2]", "twice"),
        ("node[1-9]!node3", "'!' cannot stand"),
        ("@all", "'@' cannot stand"),
        ("node*", "cannot stand"),
        ("n[1-99999999]", "more than 1,000,000"),
        ("n[1-2000]m[1-2000]", "more than 1,000,000"),
    ],
)
def test_refuses_what_is_no_hostlist(text: str, why: str) -> None:
    with pytest.raises(BadHostlist) as caught:
        expand(text)
    assert why in str(caught.value)


@given(
    st.sets(st.integers(1, 300), min_size=1),
    st.sampled_from(["node", "gpu-a", "r1n"]),
    st.sampled_from([1, 3]),
)
def test_folding_loses_nothing(numbers: set[int], prefix: str, width: int) -> None:
    hosts = {f"{prefix}{number:0{width}d}" for number in numbers}
    assert set(expand(fold(hosts))) == hosts
