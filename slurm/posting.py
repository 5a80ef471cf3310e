"""Snapshots sent to a running MonkeyTree service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from monkeytree.identity import dump_snapshot
from monkeytree.snapshot import Snapshot

from .errors import ServiceUnavailable

TIME_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the service answered: the plan's path, and the excess of each rack that is over."""

    snapshot_id: str
    plan_id: str
    over: dict[str, int]


class Stale(Exception):
    """The service knows a newer sequence of this cluster."""


class Service:
    """The service at ``url``, called with a bearer token of role scheduler.

    Args:
        timeout_s: seconds that any call may take.
    """

    def __init__(self, url: str, token: str, *, timeout_s: float = TIME_LIMIT_S) -> None:
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}", "User-Agent": "monkeytree-slurm"}
        try:
            self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s, trust_env=False)
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise ServiceUnavailable(f"cannot call {url}: {error}") from None

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def submit(self, snapshot: Snapshot) -> Receipt:
        """POST it.

        Raises:
            Stale: its sequence is lower than the newest there.
            ServiceUnavailable: no answer, or a refusal; the message holds its words.
        """
        answer = self._call("POST", "/v1/snapshots", json=dump_snapshot(snapshot))
        if answer.status_code == 409 and self._problem(answer).get("code") == "stale_snapshot":
            raise Stale
        body = self._good(answer, "POST /v1/snapshots")
        plan_id = (
            body.get("plan_id") or body.get("id") or answer.headers.get("Location", "").rpartition("/")[2]
        )
        over = body.get("over") or {}
        if not plan_id or not isinstance(over, dict):
            raise self._strange("POST /v1/snapshots")
        return Receipt(str(body.get("snapshot_id", "")), str(plan_id), over)

    def knows(self, snapshot_id: str) -> bool:
        """Whether it still has this snapshot.

        Raises:
            ServiceUnavailable: no answer.
        """
        answer = self._call("GET", f"/v1/snapshots/{snapshot_id}")
        if answer.status_code == 404:
            return False
        if not answer.is_success:
            self._good(answer, "GET /v1/snapshots")
        return True

    def newest_sequence(self, cluster: str) -> int:
        """The highest sequence among the newest snapshots of ``cluster``; -1 where it has none.

        Raises:
            ServiceUnavailable: no answer.
        """
        answer = self._call("GET", "/v1/snapshots", params={"cluster": cluster, "limit": 100})
        items = self._good(answer, "GET /v1/snapshots").get("items") or []
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self._strange("GET /v1/snapshots")
        known = [item.get("sequence") for item in items]
        return max((sequence for sequence in known if type(sequence) is int), default=-1)

    def _call(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **more)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServiceUnavailable(f"cannot reach {self.url}: {error or type(error).__name__}") from None

    def _good(self, answer: httpx.Response, call: str) -> dict[str, Any]:
        if not answer.is_success:
            problem = self._problem(answer)
            said = problem.get("detail") or problem.get("title") or answer.text[:200]
            errors = problem.get("errors")
            more = f" {errors[0]}" if isinstance(errors, list) and errors else ""
            raise ServiceUnavailable(f"{call}: {answer.status_code} {problem.get('code', '')} {said}{more}")
        try:
            body = answer.json()
        except (ValueError, RecursionError):
            raise ServiceUnavailable(f"{call}: the answer is no JSON; is {self.url} MonkeyTree?") from None
        return body if isinstance(body, dict) else {}

    def _strange(self, call: str) -> ServiceUnavailable:
        return ServiceUnavailable(f"{call}: the answer is not one of MonkeyTree's; is {self.url} MonkeyTree?")

    @staticmethod
    def _problem(answer: httpx.Response) -> dict[str, Any]:
        try:
            body = answer.json()
        except (ValueError, RecursionError):
            return {}
        return body if isinstance(body, dict) else {}
