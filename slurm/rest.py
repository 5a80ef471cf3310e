"""slurmrestd, with a JWT: the same answers over HTTP, where no Slurm command is at hand.

An error may come with HTTP 200: ``errors[]`` of the body counts. Topology is not in this API.
"""

from __future__ import annotations

from typing import Any

import httpx

from .answers import parse, refuse_errors
from .errors import SlurmFailed, SlurmUnavailable

VERSIONS = tuple(f"v0.0.{minor}" for minor in range(44, 37, -1))
"""Versions tried, newest first."""
TIME_LIMIT_S = 20.0


class RestClient:
    """The slurmrestd at ``url``.

    Args:
        url: ``http://host:6820``, or ``http+unix:///path`` for its socket.
        token: JWT of ``user`` (``scontrol token``).
        version: ``v0.0.40``; by default the newest that answers a ping.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        user: str = "root",
        version: str | None = None,
        timeout_s: float = TIME_LIMIT_S,
    ) -> None:
        socket = url.removeprefix("http+unix://") if url.startswith("http+unix://") else None
        try:
            self._http = httpx.Client(
                base_url="http://localhost" if socket else url,
                headers={"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token},
                timeout=timeout_s,
                transport=httpx.HTTPTransport(uds=socket) if socket else None,
                trust_env=False,
            )
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise SlurmUnavailable(f"cannot ask {url} for {user}: {error}") from None
        self._url = url
        self._version = version
        self.requests = 0

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    @property
    def version(self) -> str:
        """The version of the API in use.

        Raises:
            SlurmFailed: none that we know is there, or the token is refused.
        """
        if self._version is None:
            self._version = self._find_version()
        return self._version

    def _find_version(self) -> str:
        said: dict[str, int] = {}
        for version in VERSIONS:
            answer = self._get(f"/slurm/{version}/ping")
            if answer.status_code == 200:
                return version
            self._refuse_401(answer)
            said[version] = answer.status_code
        told = ", ".join(f"{version}: {status}" for version, status in said.items() if status != 404)
        raise SlurmFailed(
            f"{self._url} serves none of {VERSIONS[-1]} to {VERSIONS[0]}{f' ({told})' if told else ''}"
        )

    def _refuse_401(self, answer: httpx.Response) -> None:
        if answer.status_code == 401:
            raise SlurmFailed(
                f"{self._url} refuses the token (401); a new one: scontrol token lifespan=SECONDS"
            )

    def jobs(self) -> Any:
        """All jobs."""
        return self.read("jobs")

    def nodes(self) -> Any:
        """All nodes."""
        return self.read("nodes")

    def read(self, what: str) -> Any:
        """The answer to ``GET /slurm/VERSION/what``.

        Raises:
            SlurmUnavailable: no answer in time.
            SlurmFailed: it refuses, by status or by ``errors[]``.
            InvalidAnswer: its body is no JSON.
        """
        path = f"/slurm/{self.version}/{what}"
        answer = self._get(path)
        self._refuse_401(answer)
        if not answer.is_success and not answer.headers.get("content-type", "").startswith(
            "application/json"
        ):
            raise SlurmFailed(f"GET {path}: {answer.status_code} {answer.text[:200]}")
        body = parse(answer.content, path)
        refuse_errors(body)
        if not answer.is_success:
            raise SlurmFailed(f"GET {path}: {answer.status_code}")
        return body

    def _get(self, path: str) -> httpx.Response:
        self.requests += 1
        try:
            return self._http.get(path)
        except httpx.InvalidURL as error:
            raise SlurmUnavailable(f"{self._url} is no URL: {error}") from None
        except httpx.HTTPError as error:
            raise SlurmUnavailable(f"cannot reach slurmrestd at {self._url}: {error}") from None
