"""What can go wrong between a Slurm cluster and a snapshot, each with a stable code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monkeytree.errors import InvalidDocument, MonkeyTreeError, Offence
from monkeytree.offence_log import show


class InvalidTopology(InvalidDocument):
    """A description of the network was refused; the offences name line or member."""

    code = "invalid_topology"
    noun = "topology"


class InvalidSite(InvalidDocument):
    """The site file was refused; every offence by its path."""

    code = "invalid_site"
    noun = "site file"


class InvalidAnswer(InvalidDocument):
    """Slurm answered something that cannot be read; the offences name the field."""

    code = "invalid_slurm_answer"
    noun = "answer of Slurm"


class SlurmFailed(MonkeyTreeError):
    """A Slurm command or slurmrestd refused; the message holds its own words."""

    code = "slurm_failed"


class SlurmUnavailable(SlurmFailed):
    """Slurm cannot be reached: no such command, no controller, or no answer in time."""

    code = "slurm_unavailable"


class ServiceUnavailable(MonkeyTreeError):
    """The MonkeyTree service cannot be reached or refused the snapshot."""

    code = "service_unavailable"


class MovesRefused(MonkeyTreeError):
    """A plan is not carried out through Slurm: Slurm would refuse its moves, or it is under way already."""

    code = "moves_refused"


class MovesStopped(MonkeyTreeError):
    """Carrying a plan out came to a stop; the message says at which move and why."""

    code = "moves_stopped"


def offence(where: str, message: str, value: Any = None) -> Offence:
    """One offence; long values are cut, without being written out first."""
    if isinstance(value, str) and len(value) > 80:
        value = value[:77] + "..."
    return Offence(where, message, show(value))


def refuse_topology(where: str, message: str, value: Any = None) -> InvalidTopology:
    """An :class:`InvalidTopology` with a single offence."""
    return InvalidTopology([offence(where, message, value)])


def refuse_answer(where: str, message: str, value: Any = None) -> InvalidAnswer:
    """An :class:`InvalidAnswer` with a single offence."""
    return InvalidAnswer([offence(where, message, value)])


def refuse_site(offences: Sequence[Offence]) -> InvalidSite:
    """An :class:`InvalidSite` with all ``offences``."""
    return InvalidSite(offences)
