"""Why a plan looks as it does: the reasons of each move, and what cannot be met together."""

from __future__ import annotations

from monkeytree.plan import Conflict

from .reason import because
from .say import say_because, say_conflict
from .unmet import conflict

__all__ = ["Conflict", "because", "conflict", "say_because", "say_conflict"]
