"""Tells the service where this agent is, again and again."""

from __future__ import annotations

import threading

import httpx

from monkeytree.wire.agents import dump

from .logs import logger
from .node import Node

_TIMEOUT_S = 5.0
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
        heard = True
        with httpx.Client(base_url=options.service, timeout=_TIMEOUT_S, trust_env=False) as http:
            while True:
                try:
                    document = dump(self._node.announcement(self._url))
                    if not document["cluster"]:
                        del document["cluster"]
                    http.post("/v1/agents", json=document, headers=headers).raise_for_status()
                    if not heard:
                        log.info("the service answers again", service=options.service)
                    heard = True
                except httpx.HTTPError as error:
                    if heard:
                        log.warning("the service does not answer", service=options.service, why=str(error))
                    heard = False
                if self._stopping.wait(options.beat_s):
                    return
