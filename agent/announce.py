"""Tells the service where this agent is, again and again."""

from __future__ import annotations

import threading

import httpx

from monkeytree.wire.agents import dump

from .logs import logger
from .node import Node

_TIMEOUT_S = 5.0
_LONGEST = 500
log = logger(__name__)


class Announcer:
    """A thread that posts to ``/v1/agents``; a service that is away costs nothing but a log line."""

    def __init__(self, node: Node, url: str) -> None:
        """``url``: of this agent's HTTP API, as others reach it."""
        self._node = node
        self._url = url
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin, where there is a service."""
        if self._node.options.service:
            threading.Thread(target=self._beat, name="announcer", daemon=True).start()

    def stop(self) -> None:
        """No more beats."""
        self._stopping.set()

    def _beat(self) -> None:
        options = self._node.options
        headers = {"Authorization": f"Bearer {options.service_token}"} if options.service_token else {}
        wrong: str | None = None
        with httpx.Client(base_url=options.service, timeout=_TIMEOUT_S, trust_env=False) as http:
            while True:
                try:
                    document = dump(self._node.announcement(self._url))
                    if not document["cluster"]:
                        del document["cluster"]
                    said = _complaint(http.post("/v1/agents", json=document, headers=headers))
                    what = "the service takes no announcement"
                except (httpx.HTTPError, httpx.InvalidURL) as error:
                    said, what = str(error) or type(error).__name__, "the service does not answer"
                if said is None and wrong is not None:
                    log.info("the service answers again", service=options.service)
                elif said is not None and said != wrong:
                    log.warning(what, service=options.service, why=said)
                wrong = said
                if self._stopping.wait(options.beat_s):
                    return


def _complaint(answer: httpx.Response) -> str | None:
    """Why the service did not take it, in the service's own words; None where it did."""
    if answer.is_success:
        return None
    said = f"{answer.status_code} {answer.reason_phrase}"
    try:
        problem = answer.json()
    except ValueError:  # of a proxy, say
        return said
    if not isinstance(problem, dict):
        return said
    more = ": ".join(str(problem[name]) for name in ("code", "detail") if problem.get(name))
    return f"{said}: {more[:_LONGEST]}" if more else said
