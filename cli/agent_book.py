"""Where the agents of nodes are: by a pattern, in files, or as the service tells."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import httpx

from monkeytree.adapters.agents import Agent, AgentClient, AgentRefused, AgentUnreachable
from monkeytree.adapters.agents_url import check_agent_url

from .errors import CommandFailed

TIME_LIMIT_S = 20.0
Find = Callable[[str], str | None]
"""The URL of a node's agent, None where it is not known (yet)."""


def by_pattern(pattern: str) -> Find:
    """``http://{node}:8091``: the same port at every node."""
    return lambda node: pattern.replace("{node}", node)


def in_files(pattern: str) -> Find:
    """``/shared/agents/{node}/url``: a file a node, which holds the URL; agents write one into ``--data``."""

    def find(node: str) -> str | None:
        try:
            return Path(pattern.replace("{node}", node)).read_text("utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            return None

    return find


def in_file(path: Path) -> Find:
    """A file with a line ``NODE URL`` for each agent; blank lines and ``#`` comments are passed over.

    Raises:
        CommandFailed: a line is none.
    """
    urls: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        words = line.partition("#")[0].split()
        if words and (len(words) != 2 or "://" not in words[1]):
            raise CommandFailed(f"{path}, line {number}: {line[:80]!r} is no NODE URL")
        if words:
            urls[words[0]] = words[1]
    return urls.get


def of_service(url: str, token: str, cluster: str) -> Find:
    """As ``GET /v1/agents`` tells; asked again where a node is not there yet.

    Raises:
        CommandFailed: the service refuses, or does not answer.
    """
    known: dict[str, str] = {}

    def ask() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        where = {"cluster": cluster} if cluster else {}
        try:
            answer = httpx.get(
                f"{url.rstrip('/')}/v1/agents", params=where, headers=headers, timeout=TIME_LIMIT_S,
                trust_env=False,
            )  # fmt: skip
            if answer.is_error:
                raise AgentUnreachable(url, f"GET /v1/agents: {_said(answer)}")
            items = answer.json()["items"]
            known.update((str(item["node"]), str(item["url"])) for item in items)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            raise AgentUnreachable(url, f"GET /v1/agents: {error}") from None

    def find(node: str) -> str | None:
        if node not in known:
            ask()
        return known.get(node)

    return find


def _said(answer: httpx.Response) -> str:
    """A refusal of the service, in its own words where it has some."""
    try:
        problem = answer.json()
        return f"{answer.status_code} {problem['code']}: {str(problem['detail'])[:500]}"
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} {answer.reason_phrase}"


def finder(where: str) -> Find:
    """The one that ``--agents`` means.

    Raises:
        CommandFailed: a file's line is none.
        OSError: it cannot be read.
    """
    if "://" in where:
        if "{node}" not in where:
            raise CommandFailed(f"--agents {where}: a URL needs {{node}} in it, as in http://{{node}}:8091")
        return by_pattern(where)
    return in_files(where) if "{node}" in where else in_file(Path(where))


class Book:
    """Clients of agents by node, each looked up anew: an agent that was started again may be elsewhere.

    Attributes:
        fences: highest epoch that an agent said it has seen, when it refused a lower one.
    """

    def __init__(self, find: Find, secret: str) -> None:
        self._find = find
        self._secret = secret
        self._clients: dict[tuple[str, str], AgentClient] = {}
        self._lock = threading.Lock()
        self.fences = 0

    def agent(self, node: str) -> Agent:
        """The agent of ``node``.

        Raises:
            AgentUnreachable: nobody knows where it is.
        """
        with self._lock:
            url = self._find(node)
            if url is None:
                raise AgentUnreachable(f"node {node}", "its URL is not known")
            if (node, url) not in self._clients:
                try:
                    self._clients[node, url] = AgentClient(check_agent_url(url, ()), self._secret, node)
                except (httpx.InvalidURL, ValueError) as error:
                    raise AgentUnreachable(
                        url, f"as the URL of the agent of node {node} it {error}"
                    ) from None
            return cast(Agent, _Fenced(self._clients[node, url], self._note))

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def _note(self, problem: Mapping[str, Any]) -> None:
        seen = problem.get("seen")
        if isinstance(seen, int):
            self.fences = max(self.fences, seen)


class _Fenced:
    """An agent; what it refuses a stale epoch with is noted."""

    def __init__(self, agent: AgentClient, note: Callable[[Mapping[str, Any]], None]) -> None:
        self._agent = agent
        self._note = note

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._agent, name)

        def noted(*arguments: Any, **options: Any) -> Any:
            try:
                return call(*arguments, **options)
            except AgentRefused as error:
                if error.reason == "stale_epoch":
                    self._note(error.problem)
                raise

        return noted
