"""Tests on a real Slurm: ``make test-slurm`` (root, Debian's packages); other runs leave them out."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .lab import Lab, bring_up

if os.environ.get("MONKEYTREE_SLURM_LAB") != "1":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Lab]:
    """32 nodes in 4 racks, without GPUs, with slurmdbd."""
    with bring_up(nodes=32) as lab:
        yield lab


@pytest.fixture
def lab(cluster: Lab) -> Iterator[Lab]:
    """The cluster with no job, reservation or drained node left of the test before."""
    cluster.clear()
    yield cluster
    cluster.clear()


@pytest.fixture(scope="session")
def gpu_cluster() -> Iterator[Lab]:
    """16 nodes in 2 racks, eight fake GPUs each."""
    with bring_up(nodes=16, gres=True) as lab:
        yield lab


@pytest.fixture
def gpus(gpu_cluster: Lab) -> Iterator[Lab]:
    """The GPU cluster, cleared likewise."""
    gpu_cluster.clear()
    yield gpu_cluster
    gpu_cluster.clear()
