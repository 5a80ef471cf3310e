"""The OpenAPI document: ``python -m monkeytree.service.openapi > openapi.yaml``.

Needs neither Redis nor a database; two runs write the same bytes.
"""

from __future__ import annotations

import sys
from typing import Any

import yaml

from monkeytree.adapters.settings import Settings
from monkeytree.adapters.store import Store

from .desk import Desk
from .main import build_app


def openapi_document() -> dict[str, Any]:
    """The document as plain data."""
    settings = Settings(redis_url="redis://localhost")
    app = build_app(Desk(settings, Store(settings.database_url)))
    document: dict[str, Any] = app.extensions["flask-smorest"]["apis"][""]["ext_obj"].spec.to_dict()
    return document


def openapi_text() -> str:
    """The document as YAML."""
    return yaml.safe_dump(openapi_document(), sort_keys=True, allow_unicode=True, width=100)


if __name__ == "__main__":
    sys.stdout.write(openapi_text())
