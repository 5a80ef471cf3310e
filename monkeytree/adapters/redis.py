"""One way to reach Valkey or Redis: short timeouts, because it only ever carries wake-ups."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

from redis import Redis

TIMEOUT_S = 1.0


def connect(redis_url: str) -> Redis:
    """A client of the server at ``redis_url``; it connects at its first command."""
    return Redis.from_url(
        for_redis_py(redis_url),
        socket_connect_timeout=TIMEOUT_S,
        socket_timeout=TIMEOUT_S,
        decode_responses=True,
        health_check_interval=15,
    )


def for_celery(redis_url: str) -> str:
    """``redis_url`` as the Celery transport spells it: a socket is ``redis+socket://``."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    query = {"virtual_host" if key == "db" else key: value for key, value in parse_qsl(parts.query)}
    return _socket_url("redis+socket", parts.path, query)


def for_redis_py(redis_url: str) -> str:
    """``redis_url`` as redis-py spells it: a socket is ``unix://``."""
    parts = urlsplit(redis_url)
    if parts.scheme != "redis+socket":
        return redis_url
    query = {"db" if key == "virtual_host" else key: value for key, value in parse_qsl(parts.query)}
    return _socket_url("unix", parts.path, query)


def _socket_url(scheme: str, path: str, query: dict[str, str]) -> str:
    return f"{scheme}://{path}" + (f"?{urlencode(query)}" if query else "")
