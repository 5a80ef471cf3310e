"""The tree of errors a caller may meet, each with a stable code.

Every edge (HTTP, command line) maps this tree once; ``docs/errors.md`` lists the codes and a test
keeps the two equal. Messages show the offending value and say what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class MonkeyTreeError(Exception):
    """Base of all errors raised on purpose.

    ``code`` is stable across releases: programs may switch on it.
    """

    code: ClassVar[str] = "internal"


@dataclass(frozen=True, slots=True)
class Offence:
    """One thing wrong with a document.

    Attributes:
        pointer: JSON pointer (RFC 6901) of the offending member; "" is the whole document.
        message: what is wrong and what would be right.
        value: the offending value, as found (shortened when it is large).
        code: ``invalid`` or ``unsupported_member``.
    """

    pointer: str
    message: str
    value: Any = None
    code: str = "invalid"


class InvalidDocument(MonkeyTreeError):
    """A document was refused; ``offences`` lists everything wrong with it, all at once."""

    code = "invalid_document"
    noun: ClassVar[str] = "document"

    def __init__(self, offences: Sequence[Offence]) -> None:
        self.offences = tuple(offences)
        first = self.offences[0]
        more = f" (and {len(self.offences) - 1} more)" if len(self.offences) > 1 else ""
        where = first.pointer or "the document"
        super().__init__(f"invalid {self.noun}: {where}: {first.message}, got {first.value!r}{more}")


class InvalidSnapshot(InvalidDocument):
    """A placement snapshot was refused whole."""

    code = "invalid_snapshot"
    noun = "snapshot"


class UnsupportedMember(InvalidSnapshot):
    """A snapshot uses a reserved member that this release does not build yet."""

    code = "unsupported_member"


class InvalidPlan(InvalidDocument):
    """A plan document was refused whole."""

    code = "invalid_plan"
    noun = "plan"


class SolverUnavailable(MonkeyTreeError):
    """The solver asked for by name cannot be used here; the message names the cure."""

    code = "solver_unavailable"


class SolverFailed(MonkeyTreeError):
    """A solver ended without an answer (crash, unreadable output); the message shows its last words."""

    code = "solver_failed"


class UnknownSolver(MonkeyTreeError):
    """No solver of that name in this release."""

    code = "unknown_solver"
