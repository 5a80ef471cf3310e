"""What apispec cannot say about the one-pass fields by itself."""

from __future__ import annotations

from typing import Any

from marshmallow import fields


def describe(self: Any, field: fields.Field[Any], **_: Any) -> dict[str, Any]:
    """An attribute function for apispec: alternatives and the names of free members (OpenAPI 3.1).

    Register it once, before any schema is described::

        marshmallow_plugin.converter.add_attribute_function(describe)

    Args:
        self: apispec's OpenAPIConverter, to which the function is bound.
        field: the field at hand.
    """
    schema = dict(getattr(field, "json_schema", {}))
    variants = getattr(field, "variants", ())
    if variants:
        schema["anyOf"] = [self.field2property(variant) for variant in variants]
        if field.allow_none:
            schema["anyOf"].append({"type": "null"})
    return schema
