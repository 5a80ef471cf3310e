"""The client of the agents' HTTP API (docs/agents.md tells in which order to call)."""

from __future__ import annotations

from time import monotonic
from types import TracebackType
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import httpx
import orjson

from monkeytree.errors import InvalidDocument, MonkeyTreeError
from monkeytree.wire.agent_schemas import MOST_FREE, read_document
from monkeytree.wire.agents import (
    Command,
    MoveRequest,
    MoveStatus,
    PauseRequest,
    PauseStatus,
    RouteTable,
    WorkersAnswer,
    dump,
)
from monkeytree.wire.free import read_free
from monkeytree.wire.signing import sign

Model = TypeVar("Model")
#: Bytes; no agent has that much to tell.
LONGEST_ANSWER = 64 * 2**20


class AgentUnreachable(MonkeyTreeError):
    """An agent did not answer, or not sensibly; the call may or may not have been carried out: repeat it."""

    code = "agent_unreachable"

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"the agent at {url} does not answer: {why}")
        self.url = url


class AgentRefused(MonkeyTreeError):
    """An agent refused a call.

    Attributes:
        url: of the agent.
        status: HTTP status.
        reason: the problem's stable code (docs/agents.md lists them).
        detail: for people.
        retry_after_s: where it says when to come again (429), else None.
        problem: the whole problem document.
    """

    code = "agent_refused"

    def __init__(
        self,
        url: str,
        status: int,
        reason: str,
        detail: str,
        retry_after_s: float | None = None,
        problem: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(f"the agent at {url} refused ({status} {reason}): {detail}")
        self.url = url
        self.status = status
        self.reason = reason
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.problem = problem or {}


class Agent(Protocol):
    """One agent, as the controller calls it. Every call may be repeated; answers are the present state.

    All raise :class:`AgentUnreachable` and :class:`AgentRefused`.
    """

    def workers(self) -> WorkersAnswer:
        """``GET /v1/workers``."""

    def put_move(self, move_id: str, request: MoveRequest) -> MoveStatus:
        """``PUT /v1/moves/{id}``."""

    def prepare_move(self, move_id: str, command: Command) -> MoveStatus:
        """``POST /v1/moves/{id}/prepare``."""

    def start_move(self, move_id: str, command: Command) -> MoveStatus:
        """``POST /v1/moves/{id}/start``."""

    def commit_move(self, move_id: str, command: Command) -> MoveStatus:
        """``POST /v1/moves/{id}/commit``."""

    def abort_move(self, move_id: str, command: Command) -> MoveStatus:
        """``POST /v1/moves/{id}/abort``."""

    def move(self, move_id: str, *, wait_s: float = 0.0, since: int = -1) -> MoveStatus:
        """``GET /v1/moves/{id}``; ``wait_s`` long for a version above ``since``, or a final state."""

    def put_pause(self, pause_id: str, request: PauseRequest) -> PauseStatus:
        """``PUT /v1/pauses/{id}``."""

    def start_pause(self, pause_id: str, command: Command) -> PauseStatus:
        """``POST /v1/pauses/{id}/start``."""

    def abort_pause(self, pause_id: str, command: Command) -> PauseStatus:
        """``POST /v1/pauses/{id}/abort``."""

    def pause(self, pause_id: str, *, wait_s: float = 0.0, since: int = -1) -> PauseStatus:
        """``GET /v1/pauses/{id}``, as :meth:`move`."""

    def put_routes(self, table: RouteTable) -> RouteTable:
        """``PUT /v1/routes``: replaces the node's table."""

    def routes(self) -> RouteTable:
        """``GET /v1/routes``."""


class AgentClient:
    """An :class:`Agent` over HTTP; requests are signed, the secret does not travel."""

    def __init__(self, url: str, secret: str, node: str, *, timeout_s: float = 10.0) -> None:
        """``url`` is the base, without ``/v1``; ``secret`` what the agent's token file holds.

        Requests are signed for the agent of ``node``: no other one takes them.
        """
        self.url = url.rstrip("/")
        self._secret = secret
        self._node = node
        self._timeout_s = timeout_s
        secure = self.url.startswith("https")  # reading the certificates takes longer than a call
        self._http = httpx.Client(base_url=self.url, timeout=timeout_s, trust_env=False, verify=secure)

    def __enter__(self) -> AgentClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def workers(self) -> WorkersAnswer:
        return self._call(WorkersAnswer, "GET", "/v1/workers")

    def put_move(self, move_id: str, request: MoveRequest) -> MoveStatus:
        return self._call(MoveStatus, "PUT", _path("moves", move_id), request)

    def prepare_move(self, move_id: str, command: Command) -> MoveStatus:
        return self._call(MoveStatus, "POST", _path("moves", move_id, "prepare"), command)

    def start_move(self, move_id: str, command: Command) -> MoveStatus:
        return self._call(MoveStatus, "POST", _path("moves", move_id, "start"), command)

    def commit_move(self, move_id: str, command: Command) -> MoveStatus:
        return self._call(MoveStatus, "POST", _path("moves", move_id, "commit"), command)

    def abort_move(self, move_id: str, command: Command) -> MoveStatus:
        return self._call(MoveStatus, "POST", _path("moves", move_id, "abort"), command)

    def move(self, move_id: str, *, wait_s: float = 0.0, since: int = -1) -> MoveStatus:
        return self._call(MoveStatus, "GET", _path("moves", move_id) + _query(wait_s, since), wait_s=wait_s)

    def put_pause(self, pause_id: str, request: PauseRequest) -> PauseStatus:
        return self._call(PauseStatus, "PUT", _path("pauses", pause_id), request)

    def start_pause(self, pause_id: str, command: Command) -> PauseStatus:
        return self._call(PauseStatus, "POST", _path("pauses", pause_id, "start"), command)

    def abort_pause(self, pause_id: str, command: Command) -> PauseStatus:
        return self._call(PauseStatus, "POST", _path("pauses", pause_id, "abort"), command)

    def pause(self, pause_id: str, *, wait_s: float = 0.0, since: int = -1) -> PauseStatus:
        return self._call(
            PauseStatus, "GET", _path("pauses", pause_id) + _query(wait_s, since), wait_s=wait_s
        )

    def put_routes(self, table: RouteTable) -> RouteTable:
        return self._call(RouteTable, "PUT", "/v1/routes", table)

    def routes(self) -> RouteTable:
        return self._call(RouteTable, "GET", "/v1/routes")

    def _call(
        self, model: type[Model], method: str, target: str, body: Any = None, wait_s: float = 0.0
    ) -> Model:
        content = b"" if body is None else orjson.dumps(dump(body))
        headers = {"Authorization": sign(self._secret, self._node, method, target, content)}
        if content:
            headers["Content-Type"] = "application/json"
        try:
            answer = self._ask(method, target, content, headers, self._timeout_s + wait_s)
        except httpx.HTTPError as error:
            raise AgentUnreachable(self.url, str(error) or type(error).__name__) from error
        if answer.status_code >= 400:
            raise self._refusal(answer)
        try:
            return read_document(model, answer.content)
        except InvalidDocument as error:
            words = f"its answer to {method} {target} cannot be taken: {error}"
            raise AgentUnreachable(self.url, words) from error

    def _ask(
        self, method: str, target: str, content: bytes, headers: dict[str, str], limit_s: float
    ) -> httpx.Response:
        """The answer, if it is short enough and there in time: httpx limits only the wait for a part."""
        ends, body = monotonic() + limit_s, bytearray()
        with self._http.stream(method, target, content=content, headers=headers, timeout=limit_s) as answer:
            for part in answer.iter_bytes():
                body += part
                if len(body) > LONGEST_ANSWER:
                    raise httpx.ReadError(f"its answer is longer than {LONGEST_ANSWER:,} bytes")
                if monotonic() > ends:
                    raise httpx.ReadTimeout(f"its answer was not all there within {limit_s:g} s")
        return httpx.Response(answer.status_code, headers=_plain(answer.headers), content=bytes(body))

    def _refusal(self, answer: httpx.Response) -> MonkeyTreeError:
        try:
            problem = read_free(answer.content, MOST_FREE)
            reason, detail = str(problem["code"]), str(problem.get("detail", ""))
        except (InvalidDocument, KeyError):
            return AgentUnreachable(self.url, f"HTTP {answer.status_code} that is no problem document")
        try:
            after = float(answer.headers["Retry-After"])
        except (KeyError, ValueError):
            after = None
        return AgentRefused(self.url, answer.status_code, reason, detail, after, problem)


def _plain(headers: httpx.Headers) -> dict[str, str]:
    """Of an answer whose body has been decoded."""
    left = ("content-encoding", "content-length", "transfer-encoding")
    return {name: value for name, value in headers.items() if name not in left}


def _path(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _query(wait_s: float, since: int) -> str:
    return f"?wait={wait_s:g}&since={since}" if wait_s > 0 else ""
