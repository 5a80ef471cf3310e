"""Flask's test client as the tests see it: an answer's JSON is plain data."""

from __future__ import annotations

from typing import Any, Protocol, cast

from flask import Flask


class Answer(Protocol):
    """What a call answers."""

    status_code: int
    json: Any
    data: bytes
    text: str
    headers: Any
    content_type: str


class Client(Protocol):
    """Who calls."""

    environ_base: dict[str, Any]

    def get(self, path: str, **more: Any) -> Answer: ...

    def post(self, path: str, **more: Any) -> Answer: ...

    def put(self, path: str, **more: Any) -> Answer: ...

    def delete(self, path: str, **more: Any) -> Answer: ...

    def open(self, path: str, **more: Any) -> Answer: ...


def client_without_token(app: Flask) -> Client:
    """A client that sends no token."""
    return cast(Client, app.test_client())
