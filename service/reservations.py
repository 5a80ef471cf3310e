"""Reservations: slots promised to executions, under /v1/reservations."""

from __future__ import annotations

from typing import Any

from flask import Response

from monkeytree.adapters.executions_documents import reservation_document

from .answers import json_answer
from .auth import clusters_to_list
from .blueprint import ApiBlueprint
from .desk import the_desk
from .execution_schemas import ClusterQuery, ReservationsSchema

blueprint = ApiBlueprint("reservations", __name__, description="Slots promised to executions.")


@blueprint.call("listReservations")
@blueprint.query(ClusterQuery)
@blueprint.gives(200, ReservationsSchema, "All of executions that have not ended.")
def list_reservations(query: dict[str, Any]) -> Response:
    """List the slots that are promised; planning works around them."""
    found = the_desk().store.reservations(clusters_to_list(query.get("cluster")))
    return json_answer({"items": [reservation_document(one) for one in found]})
