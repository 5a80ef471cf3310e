"""What can go wrong at packet level, each with a stable code and a message that names the cure."""

from __future__ import annotations

from monkeytree.errors import InvalidDocument, MonkeyTreeError


class InvalidScenario(InvalidDocument):
    """A packet scenario was refused whole."""

    code = "invalid_scenario"
    noun = "scenario"


class ValidationUnavailable(MonkeyTreeError):
    """The packet simulator cannot be used here; the message names the cure."""

    code = "validation_unavailable"


class SimulationCrashed(MonkeyTreeError):
    """The packet simulator's process died; the message shows its exit and last words."""

    code = "simulation_crashed"


class SimulationTimedOut(MonkeyTreeError):
    """The packet simulator did not end in time and was stopped."""

    code = "simulation_timed_out"
