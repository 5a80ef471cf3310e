"""Pages: the API's documentation (Swagger UI from the package, nothing from elsewhere) and the problems."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from flask import Blueprint, Response, abort, send_from_directory

from .problems import PROBLEMS

blueprint = Blueprint("docs", __name__)

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>MonkeyTree API</title>
<link rel="icon" href="/docs/files/favicon-32x32.png">
<link rel="stylesheet" href="/docs/files/swagger-ui.css">
<div id="swagger-ui"></div>
<script src="/docs/files/swagger-ui-bundle.js"></script>
<script src="/docs/files/start.js"></script>
</html>
"""
_START = """SwaggerUIBundle({url: "/v1/openapi.json", dom_id: "#swagger-ui", deepLinking: true,
  validatorUrl: null, persistAuthorization: true});
"""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'"
)


@blueprint.get("/docs", endpoint="showDocs")
def show_docs() -> Response:
    """The API's documentation."""
    return Response(_PAGE, mimetype="text/html", headers={"Content-Security-Policy": _POLICY})


@blueprint.get("/docs/files/<path:name>", endpoint="getDocsFile")
def get_docs_file(name: str) -> Response:
    """A file of Swagger UI."""
    if name == "start.js":
        return Response(_START, mimetype="text/javascript")
    folder = _swagger_ui()
    if folder is None:
        abort(404, "flask-swagger-ui is not installed; read openapi.yaml instead")
    return send_from_directory(folder, name, max_age=86400)


@blueprint.get("/problems/<string:code>", endpoint="showProblem")
def show_problem(code: str) -> Response:
    """What a problem's code means and what to do."""
    if code not in PROBLEMS:
        abort(404, f"no problem has the code {code!r}")
    kind = PROBLEMS[code]
    text = f"{code} (HTTP {kind.status})\n\n{kind.title}.\n\n{kind.advice}\n"
    return Response(text, content_type="text/plain; charset=utf-8")


def _swagger_ui() -> Path | None:
    spec = find_spec("flask_swagger_ui")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "dist"
