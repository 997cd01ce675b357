"""Swagger 2.0 read as OpenAPI 3.0: the top of a document at once, an operation when it is used (spec 7, M107).

``definitions``, ``parameters`` and ``responses`` stay in place, so that references to them stay valid. Schemas are as
in 3.0, apart from ``x-nullable``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from capset_connect.openapi.nodes import Node, as_list, stripped

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_FORM_DATA: Final = "multipart/form-data"
_FILE: Final = {"type": "string", "format": "binary"}
_NO_SCHEMA: Final = frozenset({"name", "in", "required", "description", "collectionFormat", "allowEmptyValue"})
"""Members of a parameter that do not belong to its schema."""
_QUERY_STYLES: Final = {"csv": "form", "multi": "form", "ssv": "spaceDelimited", "pipes": "pipeDelimited"}


def upgraded_top(top: Node) -> Node:
    """Return a document with servers and security schemes as in 3.0."""
    declared = top.get("securityDefinitions")
    schemes: Node = cast("Node", declared) if isinstance(declared, Mapping) else {}
    return {
        **top,
        "servers": servers_of(top, top.get("schemes")),
        "components": {"securitySchemes": {name: _security_scheme(scheme) for name, scheme in schemes.items()}},
    }


def servers_of(top: Node, schemes: object) -> list[Node]:
    """Return the server of a document, with ``https`` if its ``schemes`` include it.

    Without a host or a scheme, its URL is relative to that of the document.
    """
    host, path = stripped(top.get("host")), f"/{stripped(top.get('basePath')).removeprefix('/')}"
    if not host:
        return [{"url": path}]
    offered = cast("list[object]", schemes) if isinstance(schemes, list) else ()
    scheme = next((f"{scheme}:" for scheme in ("https", "http") if scheme in offered), "")
    return [{"url": f"{scheme}//{host}{path}"}]


def upgraded_body(document: Node, operation: Node, parameters: Mapping[tuple[str, str], Node]) -> Node | None:
    """Return the body that ``body`` or ``formData`` parameters describe, if any. Raises ``DefinitionError``."""
    declared_types = operation.get("consumes")
    consumes = as_list("its consumes", document.get("consumes") if declared_types is None else declared_types)
    media = [declared for declared in consumes if isinstance(declared, str)]
    fields = {name: parameter for (where, name), parameter in parameters.items() if where == "formData"}
    if fields:
        return _form(fields, media)
    bodies = [parameter for (where, _), parameter in parameters.items() if where == "body"]
    if not bodies:
        return None
    body = bodies[-1]  # the operation's body comes after that of its path
    return {
        "description": body.get("description"),
        "required": body.get("required"),
        "content": {declared: {"schema": body.get("schema")} for declared in media or [_JSON]},
    }


def upgraded_parameter(where: str, parameter: Node) -> Node:
    """Return a path, query or header parameter with a schema and a style."""
    upgraded: dict[str, Any] = {
        "required": parameter.get("required"),
        "description": parameter.get("description"),
        "schema": _schema(parameter),
    }
    if parameter.get("type") == "array":
        upgraded |= _style(where, parameter)
    return upgraded


def _form(fields: Mapping[str, Node], media: list[str]) -> Node:
    has_file = any(field.get("type") == "file" for field in fields.values())
    is_multipart = has_file or (_FORM_DATA in media and _FORM not in media)
    properties = {name: _schema(field) for name, field in fields.items()}
    for name, field in fields.items():
        if field.get("description") is not None:
            properties[name] = {**properties[name], "description": field["description"]}
    required = [name for name, field in fields.items() if field.get("required") is True]
    schema = {"type": "object", "properties": properties, "required": required}
    styles = {name: _style("query", field) for name, field in fields.items() if field.get("type") == "array"}
    content: dict[str, Any] = {"schema": schema, "encoding": styles}
    return {"required": bool(required), "content": {_FORM_DATA if is_multipart else _FORM: content}}


def _schema(parameter: Node) -> Node:
    if parameter.get("type") == "file":
        return _FILE
    return {name: value for name, value in parameter.items() if name not in _NO_SCHEMA}


def _style(where: str, parameter: Node) -> dict[str, Any]:
    """Return the style of a list. A format without a style in 3.0 is kept, and refused later."""
    collection_format = parameter.get("collectionFormat") or "csv"
    styles = _QUERY_STYLES if where == "query" else {"csv": "simple"}
    return {
        "style": styles.get(collection_format, collection_format)
        if isinstance(collection_format, str)
        else collection_format,
        "explode": collection_format == "multi",
    }


def _security_scheme(scheme: object) -> object:
    if isinstance(scheme, Mapping) and cast("Node", scheme).get("type") == "basic":
        return {"type": "http", "scheme": "basic"}
    return cast("object", scheme)
