"""Whole clusters under churn, at flow level."""

from __future__ import annotations

from .run import simulate, simulate_many
from .setup import BadSetup, JobRow, Migration, PlanRow, Result, Setup
from .systems import SYSTEMS
from .trace_files import read_trace, write_trace
from .traces import BadTrace, TraceJob, draw_trace

__all__ = [
    "BadSetup",
    "BadTrace",
    "JobRow",
    "Migration",
    "PlanRow",
    "Result",
    "SYSTEMS",
    "Setup",
    "TraceJob",
    "draw_trace",
    "read_trace",
    "simulate",
    "simulate_many",
    "write_trace",
]
