"""Plans: what-ifs, reading, history and cancelling under /v1/plans."""

from __future__ import annotations

from typing import Any

from flask import Response, g

from monkeytree.adapters.documents import plan_summary
from monkeytree.wire.plan import PlanSchema
from monkeytree.wire.reading import parse_json

from .answers import come_back, filed_answer, plan_answer, with_etag
from .auth import see
from .blueprint import ApiBlueprint
from .body import read_body, readable
from .desk import the_desk
from .documented import IF_NONE_MATCH, LOCATION, PlanAnswerSchema
from .schemas import PlanListQuery, PlanPageSchema, ReceiptSchema, WaitQuery, WhatIfSchema
from .work import id_in_path, page_answer, see_work, span_of

blueprint = ApiBlueprint("plans", __name__, description="Moves, ring orders and uplinks.")

PLAN_ID = id_in_path("plan_id")


@blueprint.call("submitPlan")
@blueprint.query(WaitQuery)
@blueprint.takes(WhatIfSchema)
@blueprint.gives(202, ReceiptSchema, "The plan is on its way.", headers=LOCATION)
@blueprint.gives(
    200, PlanAnswerSchema, "The same was asked before: its live or ready plan.", headers=LOCATION
)
@blueprint.gives(201, PlanAnswerSchema, "The plan got ready within `wait`.", headers=LOCATION)
def submit_plan(query: dict[str, Any]) -> Response:
    """Plan a stored snapshot with other options (what-if).

    What-ifs are not superseded by newer snapshots.
    """
    body = read_body()
    with readable():
        asked = WhatIfSchema().load(parse_json(body))
    filed = the_desk().ask(asked["snapshot_id"], asked.get("planning"), see, g.request_id)
    return filed_answer(filed, query["wait"])


@blueprint.call("getPlan", parameters=[PLAN_ID])
@blueprint.query(WaitQuery)
@blueprint.header(IF_NONE_MATCH)
@blueprint.gives(200, PlanSchema, "The plan; what the solver answers is null until it is ready.")
@blueprint.gives(304, None, "Nothing has changed.")
def get_plan(query: dict[str, Any], plan_id: str) -> Response:
    """Read a plan, waiting for it while it is queued or solving.

    `Retry-After` says that too many others wait already.
    """
    desk = the_desk()
    see_work(desk.store, plan_id)
    waited = desk.wait(plan_id, query["wait"], desk.store)
    return with_etag(plan_answer(waited.row, headers=come_back(waited.seated)), waited.row.tag)


@blueprint.call("listPlans")
@blueprint.query(PlanListQuery)
@blueprint.gives(200, PlanPageSchema, "A page, newest first.")
def list_plans(query: dict[str, Any]) -> Response:
    """List plans by `created_at`, newest first."""
    page = the_desk().store.list_plans(
        span_of(query),
        state=query.get("state"),
        status=query.get("status"),
        min_moves=query.get("min_moves"),
    )
    return page_answer(page, plan_summary)


@blueprint.call("cancelPlan", parameters=[PLAN_ID])
@blueprint.gives(200, PlanSchema, "The plan as it is now: cancelled.")
def cancel_plan(plan_id: str) -> Response:
    """Cancel a queued or solving plan; its solver process stops at once."""
    desk = the_desk()
    see_work(desk.store, plan_id)
    return plan_answer(desk.cancel(plan_id, desk.store, desk.queue))
