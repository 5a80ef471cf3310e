"""A blueprint that takes URL, method, roles and problems from the table of calls, and the spec's fixes."""

from __future__ import annotations

import http
from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar, cast

from flask import Request
from flask_smorest import Api, Blueprint
from webargs.flaskparser import FlaskParser

from monkeytree.offence_log import show
from monkeytree.wire.openapi import describe

from .calls import CALLS, Call
from .problems import PROBLEM_TYPE, RequestRefused
from .schemas import ProblemSchema, QuerySchema, Seconds, UtcTime, WholeNumber

View = TypeVar("View", bound=Callable[..., Any])

IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "description": "The same key with the same request replays the first answer (24 h).",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}


class InvalidQuery(RequestRefused):
    """Query parameters were refused."""

    code = "invalid_query"


class QueryParser(FlaskParser):
    """Reads query parameters; a wrong one is refused by name, with its value."""

    DEFAULT_UNKNOWN_BY_LOCATION = {**FlaskParser.DEFAULT_UNKNOWN_BY_LOCATION, "query": None}  # noqa: RUF012

    def load_querystring(self, req: Request, schema: Any) -> Any:
        """As the base does; a parameter that is given twice is refused, for either could be meant."""
        twice = {name: values for name, values in req.args.lists() if len(values) > 1}
        if twice:
            errors = [
                {
                    "parameter": name,
                    "detail": f"is given {len(values)} times; give it once",
                    "value": show(values),
                }
                for name, values in twice.items()
            ]
            listed = "; ".join(f"{one['parameter']} {one['detail']}" for one in errors)
            raise InvalidQuery(f"the query is invalid: {listed}", errors=errors)
        return super().load_querystring(req, schema)

    def handle_error(
        self, error: Any, req: Request, schema: Any, *, error_status_code: Any, error_headers: Any
    ) -> Any:
        wrong = error.normalized_messages().get("query", {})
        errors = [
            {"parameter": name, "detail": " ".join(map(str, messages)), "value": req.args.get(name)}
            for name, messages in wrong.items()
        ]
        listed = "; ".join(f"{one['parameter']}={one['value']!r}: {one['detail']}" for one in errors)
        raise InvalidQuery(f"the query is invalid: {listed}", errors=errors)


class ApiBlueprint(Blueprint):  # type: ignore[misc] # flask-smorest has no types
    """flask-smorest's blueprint, routed by operation id and typed."""

    ARGUMENTS_PARSER = QueryParser()

    def query(self, schema: type[QuerySchema]) -> Callable[[View], View]:
        """Read the query parameters into the handler's first argument."""
        return cast(Callable[[View], View], self.arguments(schema, location="query"))

    def gives(self, status: int, schema: Any, description: str, **more: Any) -> Callable[[View], View]:
        """Document one of the answers that are no problem."""
        answer = self.alt_response(status, schema=schema, description=description, success=True, **more)
        return cast(Callable[[View], View], answer)

    def header(self, parameter: dict[str, Any]) -> Callable[[View], View]:
        """Document a request header."""
        return _with_parameters(parameter)

    def call(self, call_id: str, *, parameters: list[dict[str, Any]] | None = None) -> Callable[[View], View]:
        """Route a handler as the call of that id; the outermost decorator."""
        entry = CALLS[call_id]

        def decorate(view: View) -> View:
            documented: Any = view
            for status, codes in entry.problems.items():
                documented = self.alt_response(
                    status,
                    schema=ProblemSchema,
                    content_type=PROBLEM_TYPE,
                    description=f"{http.HTTPStatus(status).phrase}: {', '.join(codes)}",
                )(documented)
            documented = self.doc(**_described(entry))(documented)
            self.add_url_rule(
                entry.path,
                endpoint=call_id,
                view_func=documented,
                methods=[entry.method],
                parameters=parameters,
            )
            return view

        return decorate

    def takes(self, schema: Any, example: Any = None) -> Callable[[View], View]:
        """Document a JSON body; the handler reads it itself, in one pass."""
        body = {"in": "json", "required": True, "schema": schema}
        return _with_parameters(IDEMPOTENCY_KEY, body if example is None else body | {"example": example})


def _with_parameters(*parameters: dict[str, Any]) -> Callable[[View], View]:
    """Add to what flask-smorest knows of a view's parameters (its `doc` would replace them)."""

    def decorate(view: View) -> View:
        documented: Any = view
        documented._apidoc = deepcopy(getattr(view, "_apidoc", {}))
        documented._apidoc.setdefault("arguments", {}).setdefault("parameters", []).extend(parameters)
        result: View = documented
        return result

    return decorate


class MonkeyTreeApi(Api):  # type: ignore[misc] # flask-smorest has no types
    """flask-smorest's API with problems as RFC 9457 documents and no error handler of its own."""

    ERROR_SCHEMA = ProblemSchema

    def _register_error_handlers(self) -> None:
        """Errors are mapped once, in problems.py."""

    def _register_responses(self) -> None:
        """As the base does, but problems are application/problem+json."""
        self.DEFAULT_RESPONSE_CONTENT_TYPE = PROBLEM_TYPE
        try:
            super()._register_responses()
        finally:
            del self.DEFAULT_RESPONSE_CONTENT_TYPE  # the class's own again

    def _init_spec(self, **options: Any) -> None:
        super()._init_spec(**options)
        self.ma_plugin.converter.add_attribute_function(describe)
        for field, kind, shape in (
            (WholeNumber, "integer", None),
            (Seconds, "number", None),
            (UtcTime, "string", "date-time"),
        ):
            self.register_field(field, kind, shape)


def _described(call: Call) -> dict[str, Any]:
    guarded = {"security": [{"bearerAuth": []}], "x-roles": sorted(call.roles)}
    return {"operationId": call.id, **(guarded if call.roles else {"security": []})}
