"""Errors and exit codes of the command line, mapped once (docs/errors.md)."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from enum import IntEnum

import click

from monkeytree.errors import InvalidDocument, MonkeyTreeError, SolverFailed


class Exit(IntEnum):
    """Exit codes; scripts rely on them."""

    OK = 0
    INTERNAL = 1
    BAD_INPUT = 2
    BEST_EFFORT = 3
    FEASIBLE = 4
    FAULTS = 5
    NOT_ISOLATED = 6
    NOT_FINISHED = 7
    UNKNOWN = 75


class CommandFailed(click.ClickException):
    """A command that cannot go on: usage or bad input unless told otherwise."""

    def __init__(self, message: str, code: Exit = Exit.BAD_INPUT) -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc]  # click's own subclasses set it so, on the class


def exit_code(error: type[MonkeyTreeError]) -> int:
    """What a command exits with when it meets such an error."""
    ours = issubclass(error, SolverFailed) or error is MonkeyTreeError
    return int(Exit.INTERNAL if ours else Exit.BAD_INPUT)


def report(error: BaseException) -> int:
    """Tell the user about ``error`` on standard error, in words; return the exit code.

    Programs read the code: it is the same where the words cannot be written (a full disk).
    """
    with suppress(OSError):
        _tell(error)
        sys.stderr.flush()
    return _code_of(error)


def _code_of(error: BaseException) -> int:
    if isinstance(error, click.ClickException):
        return error.exit_code
    if isinstance(error, InvalidDocument | OSError):
        return Exit.BAD_INPUT
    return exit_code(type(error)) if isinstance(error, MonkeyTreeError) else Exit.INTERNAL


def _tell(error: BaseException) -> None:
    if isinstance(error, click.ClickException):
        error.show()
    elif isinstance(error, InvalidDocument):
        _tell_offences(error)
    elif isinstance(error, MonkeyTreeError):
        print(f"Error ({error.code}): {error}", file=sys.stderr)
    elif isinstance(error, OSError):
        what = "standard input or output" if error.filename is None else os.fsdecode(error.filename)
        print(f"Error: cannot use {what}: {error.strerror or error}", file=sys.stderr)
    else:
        if os.environ.get("MONKEYTREE_DEBUG"):
            traceback.print_exception(error)
        print(
            f"Internal error: {type(error).__name__}: {error}\n"
            "This is a bug: please report it (CONTRIBUTING.md says where) with the input and what the same "
            "command prints under MONKEYTREE_DEBUG=1.",
            file=sys.stderr,
        )


def _tell_offences(error: InvalidDocument) -> None:
    count = len(error.offences)
    print(
        f"Error ({error.code}): the {error.noun} has {count} offence{'s' if count > 1 else ''}:",
        file=sys.stderr,
    )
    for offence in error.offences:
        where = offence.pointer or "(the whole document)"
        print(f"  {where}: {offence.message}, got {offence.value!r}", file=sys.stderr)
