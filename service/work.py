"""What the calls of plans, validations and executions do alike: find, list, and be asked to come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response

from monkeytree.adapters.leased import Leased
from monkeytree.adapters.paging import Span
from monkeytree.adapters.rows import Page
from monkeytree.limits import is_name

from .answers import json_answer
from .auth import clusters_to_list, see
from .cursors import read_cursor, write_cursor


def id_in_path(name: str) -> dict[str, Any]:
    """The parameter ``name`` of a path, as openapi.yaml describes it."""
    return {"in": "path", "name": name, "schema": {"type": "string", "format": "uuid"}}


def see_work(rows: Leased[Any], its_id: str) -> None:
    """Refuse an id that is not there, or whose cluster the token is not bound to.

    What can be no id does not reach the store (PostgreSQL takes no NUL in a text).

    Raises:
        UnknownPlan, UnknownValidation, UnknownExecution: no such row.
        ForbiddenCluster: naming the cluster.
    """
    if not is_name(its_id):
        raise rows.kind.unknown(its_id)
    see(rows.find(its_id).cluster)


def span_of(query: dict[str, Any]) -> Span:
    """The page that the parameters of a list ask for (:class:`.schemas.ListQuery`).

    Raises:
        ForbiddenCluster: it is of a cluster that the token is not bound to.
        InvalidCursor: the cursor is none of ours.
    """
    return Span(
        clusters=clusters_to_list(query.get("cluster")),
        since=query.get("since"),
        until=query.get("until"),
        after=read_cursor(query.get("cursor")),
        limit=query["limit"],
    )


def list_of_plan(rows: Leased[Any], query: dict[str, Any]) -> Page:
    """The page that the parameters of a list ask for, where it can be narrowed to one plan."""
    wanted = query.get("plan_id")
    plan_id = None if wanted is None else str(wanted)
    return rows.list_rows(span_of(query), state=query.get("state"), plan_id=plan_id)


def page_answer(page: Page, summary: Callable[[Any], dict[str, Any]]) -> Response:
    """A page, each row as its summary."""
    return json_answer({"items": [summary(row) for row in page.items], "next": write_cursor(page.next)})
