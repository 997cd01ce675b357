"""Parameters of operations: the schema of each, and how it is sent (spec 7, M8, M105, M106)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from capset.errors import DefinitionError, ToolError
from capset.net.client import checked_headers
from capset.net.media import media_type_of
from capset_connect.openapi.depths import depth_sent
from capset_connect.openapi.nodes import Node, as_members, as_node, stripped
from capset_connect.openapi.paths import Key
from capset_connect.openapi.schemas import OperationSchemas

STYLES: Final[Mapping[str, tuple[str, ...]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""The supported styles, by the place of the parameter; the first is the default."""
_JSON: Final = re.compile(r"application/json|[^/]+/[^/]+\+json")
_COOKIE: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PARTLY: Final = "Lists and objects within others cannot be sent."

Place = dict[str, Any]
"""Where and how an argument is sent; JSON."""
Places = dict[str, Place]
"""The place of each argument, or of each field of a form."""


def is_json(media_type: str) -> bool:
    """Whether a media type, in lower case, is JSON."""
    return _JSON.fullmatch(media_type) is not None


def parameter_of(schemas: OperationSchemas, key: Key, parameter: Node) -> tuple[Any, Place]:
    """Return the schema and the place of a parameter. Raises ``DefinitionError`` if it cannot be sent."""
    where, name = key
    label = f"its parameter {name!r:.80}"
    if where not in STYLES or not name:
        raise DefinitionError(f"{label} is in {where!r:.40}; expected a name, and one of {', '.join(STYLES)}")
    _check_name(label, where, name)
    place: Place = {"in": where, "name": name}
    description = parameter.get("description")
    if parameter.get("content") is not None:
        content = as_node(f"{label}: its content", parameter["content"])
        if len(content) != 1 or not is_json(media_type_of(next(iter(content)))):
            raise DefinitionError(f"{label} is sent as {', '.join(content)[:200]}; only JSON can be")
        ((media, typed),) = content.items()
        schema = schemas.translated(label, schema_of(as_members(label, typed)))
        return described(schema, description), {**place, "content": media}
    style, explode = style_of(label, where, parameter)
    schema, deepest = schemas.translated(label, schema_of(parameter)), depth_sent(style, explode=explode)
    minimum, maximum = schemas.depths(schema)
    if minimum > deepest:
        raise DefinitionError(f"{label} has lists or objects within others, which the style {style!r} cannot send")
    partly = (_PARTLY,) if maximum > deepest else ()
    return described(schema, description, *partly), {**place, "style": style, "explode": explode}


def style_of(label: str, where: str, declared: Node) -> tuple[str, bool]:
    """Return the style of a parameter or form field, and whether it explodes. Raises ``DefinitionError``."""
    style = declared.get("style") or STYLES[where][0]
    if style not in STYLES[where]:
        sendable = " or ".join(STYLES[where])
        raise DefinitionError(f"{label} has the style {style!r:.40}; in a {where}, {sendable} can be sent")
    explode = declared.get("explode")
    return style, style == "form" if explode is None else explode is True


def schema_of(declared: Node) -> object:
    """Return the schema of a parameter or a body; one that allows any value if there is none."""
    schema = declared.get("schema")
    return {} if schema is None else schema


def described(schema: Any, description: object, *more: str) -> Any:  # a JSON Schema
    """Return a schema whose description begins with another one and ends with more sentences."""
    node: dict[str, Any] = {} if schema is True else {"not": {}} if schema is False else dict(schema)
    texts = (stripped(description), node.get("description", ""), *more)
    if text := "\n".join(dict.fromkeys(filter(None, texts))):
        node["description"] = text
    return node


def _check_name(label: str, where: str, name: str) -> None:
    if where == "cookie" and not _COOKIE.fullmatch(name):
        raise DefinitionError(f"{label} has a name that no cookie can have")
    if where == "header":
        try:
            checked_headers({name: ""})
        except ToolError:
            raise DefinitionError(f"{label} is a header that cannot be set") from None
