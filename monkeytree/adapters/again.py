"""Transactions that the database broke off for its own sake are run again.

PostgreSQL ends one of two transactions that wait for each other (``40P01``) or cannot be put in an order
(``40001``), and that of a server process which is ended (``pg_terminate_backend``, a restart). What it broke
off left no trace, so it is safe to run it again. What was lost while it was being committed may have been
kept: that is not run again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from sqlalchemy.exc import DBAPIError

P = ParamSpec("P")
R = TypeVar("R")

#: SQLSTATEs (PostgreSQL, appendix A): serialization_failure, deadlock_detected.
BROKEN_OFF = frozenset({"40001", "40P01"})
TRIES = 5
#: The longest wait before the second try; it doubles with each.
FIRST_WAIT_S = 0.02


def again(method: Callable[P, R]) -> Callable[P, R]:
    """Run ``method``, which is one transaction and nothing beside it, up to :data:`TRIES` times.

    Waits are random, so that two that clashed do not clash again.
    """
    return _tried(method, left_no_trace)


def again_in_any_case(method: Callable[P, R]) -> Callable[P, R]:
    """As :func:`again`, for a transaction that may as well be kept twice: also where the commit was lost."""
    return _tried(method, lambda error: left_no_trace(error) or error.connection_invalidated)


def left_no_trace(error: DBAPIError) -> bool:
    """Whether the transaction that failed so was surely not kept, and may well succeed when it is run again.

    A connection that was lost at a statement was lost before the commit; SQLAlchemy tells no statement where
    it was lost at the commit itself, or could not be made at all.
    """
    if getattr(error.orig, "sqlstate", None) in BROKEN_OFF:
        return True
    return error.connection_invalidated and error.statement is not None


def _tried(method: Callable[P, R], may_be_run: Callable[[DBAPIError], bool]) -> Callable[P, R]:
    @wraps(method)
    def tried(*args: P.args, **kwargs: P.kwargs) -> R:
        for failed in range(TRIES - 1):
            try:
                return method(*args, **kwargs)
            except DBAPIError as error:
                if not may_be_run(error):
                    raise
                time.sleep(random.uniform(0.2, 1.0) * FIRST_WAIT_S * 2**failed)
        return method(*args, **kwargs)

    return tried
