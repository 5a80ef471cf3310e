"""Certificates that no plan has fewer moves, made so that anyone can check them without a solver.

A certificate refutes the assumption that K - 1 moves are enough. Two kinds, cheapest first:
``rack_halves`` names the racks whose half-moves, counted apart, already come to more; ``relaxation``
is a branching tree over a small integer program (:mod:`.statement`) in which every leaf carries
multipliers of the rows that contradict each other there. docs/solver-certificate.md has the format and
the proofs; :mod:`monkeytree.checker` verifies both with code of its own, in integers.
"""

from __future__ import annotations

from .make import certify

__all__ = ["certify"]
