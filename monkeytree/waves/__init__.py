"""Waves: in which order the moves of a plan run, so that every landing finds its slot."""

from __future__ import annotations

from .model import Scheduled, Transfer
from .schedule import schedule_waves

__all__ = ["Scheduled", "Transfer", "schedule_waves"]
