"""Uplink colouring: which spine, and between pods which core, each cross-rack flow takes."""

from __future__ import annotations

from .colour import colour_flows
from .model import Colouring, Hop, Leaf, Share, Topology

__all__ = ["Colouring", "Hop", "Leaf", "Share", "Topology", "colour_flows"]
