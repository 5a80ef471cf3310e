"""Topology importers: an ordered list of level keys in, racks and pods out."""
