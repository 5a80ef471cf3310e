"""The rate limit: by token, by address without a valid one; counted in Redis, in memory when it is down."""

from __future__ import annotations

from flask import Flask, Response, g, request
from flask_limiter import HeaderNames, Limiter

from monkeytree.adapters.settings import Settings

_RETRY_AFTER = "X-RateLimit-Retry-After"


def limit_rates(app: Flask, settings: Settings) -> None:
    """Limit the calls of /v1 as the settings say; register after the caller is identified."""
    if not settings.rate_limit:
        return
    limiter = Limiter(
        key_func=_whose,
        application_limits=[settings.rate_limit],
        storage_uri=_storage(settings.redis_url),
        storage_options={"socket_connect_timeout": 1, "socket_timeout": 1},
        strategy="moving-window",
        headers_enabled=True,
        header_name_mapping={HeaderNames.RETRY_AFTER: _RETRY_AFTER},
        in_memory_fallback=[settings.rate_limit],
        in_memory_fallback_enabled=True,
        # of several threads that meet the outage at once it sends one to its memory and raises in the others:
        # better one call uncounted than refused
        swallow_errors=True,
        key_prefix="monkeytree",
    )
    limiter.request_filter(_is_page)
    limiter.request_filter(_is_beat)
    app.after_request(_tell_when_refused)  # registered before the limiter's own, so it runs after it
    limiter.init_app(app)


def _tell_when_refused(response: Response) -> Response:
    """The limiter says Retry-After on every answer; only a refused caller has to wait."""
    wait_s = response.headers.pop(_RETRY_AFTER, None)
    if response.status_code == 429 and wait_s is not None:
        response.headers["Retry-After"] = wait_s
    return response


def _storage(redis_url: str) -> str:
    for scheme in ("unix://", "redis+socket://"):
        if redis_url.startswith(scheme):
            return "redis+unix://" + redis_url.removeprefix(scheme)
    return redis_url


def _whose() -> str:
    return f"token:{g.token.hash}" if g.token is not None else f"address:{request.remote_addr}"


def _is_page() -> bool:
    return not request.path.startswith("/v1/")


def _is_beat() -> bool:
    """Agents of a whole cluster share a token, and one whose beats are refused is taken for gone."""
    beat = (request.method, request.path) == ("POST", "/v1/agents")
    return beat and g.token is not None and "agent" in g.token.roles
