"""The progress of an execution as server-sent events (HTML standard, section 9.2).

Each event is the execution's document; its id is the entity tag, so that a client that comes back
(Last-Event-ID) is sent only what it has not seen. The stream ends with the execution.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import orjson
from flask import Response

from monkeytree.adapters.executions_documents import execution_document

from .desk import Desk

STREAM = "text/event-stream"
#: Comments in between keep proxies from closing a silent connection.
PING_S = 10.0
#: Clients come back by themselves; an endless stream would hold a thread for ever.
LONGEST_S = 300.0
#: What a client is told to wait before it comes back, milliseconds.
RETRY_MS = 2000


def stream(desk: Desk, execution_id: str, last_id: str | None) -> Response:
    """The stream; with all seats taken, one event and the advice to come back."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(_events(desk, execution_id, last_id), headers=headers, content_type=STREAM)


def _events(desk: Desk, execution_id: str, last_id: str | None) -> Iterator[bytes]:
    yield b"retry: %d\n\n" % RETRY_MS
    seen = last_id
    deadline = monotonic() + LONGEST_S
    with desk.seat() as seated:
        while True:
            tag, over, event = _event(desk, execution_id)
            if tag != seen:
                seen = tag
                yield event
            if over or not seated or monotonic() > deadline:
                return
            known = tag
            if not desk.watch(execution_id, PING_S, lambda: _tag(desk, execution_id) != known):  # noqa: B023
                yield b": still going\n\n"


def _event(desk: Desk, execution_id: str) -> tuple[str, bool, bytes]:
    rows = desk.store.executions
    row = rows.find(execution_id)
    steps = rows.steps(execution_id)
    tag = row.tag(steps)
    name = b"progress" if row.live else b"end"
    data = orjson.dumps(execution_document(row, steps))
    return tag, not row.live, b"id: %s\nevent: %s\ndata: %s\n\n" % (tag.encode(), name, data)


def _tag(desk: Desk, execution_id: str) -> str:
    rows = desk.store.executions
    return rows.find(execution_id).tag(rows.steps(execution_id))
