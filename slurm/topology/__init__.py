"""Topology importers: an ordered list of level keys in, racks and pods out."""

from .kubernetes import levels_of
from .model import Grouping, Topology, group
from .read import KINDS, read_topology, read_topology_file

__all__ = ["KINDS", "Grouping", "Topology", "group", "levels_of", "read_topology", "read_topology_file"]
