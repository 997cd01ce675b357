"""Arguments of an operation: its parameters and its body, as one JSON Schema (spec 7, M8).

Each argument has a *place*, which says how it is sent and is part of the pin: JSON with ``in`` and ``name``, and with
``style`` and ``explode``, ``content`` or ``media``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, cast

from capset.adapters.openapi.document import ApiDocument, Node, as_list, as_node, as_text
from capset.adapters.openapi.schemas import OperationSchemas, SchemaLibrary
from capset.adapters.openapi.uploads import FILE_SCHEMA, FORM_DATA, file_fields, is_bytes, mentions_file
from capset.definitions.secrets import is_secret_name
from capset.errors import DefinitionError, ToolError
from capset.net.client import checked_headers
from capset.net.media import media_type_of
from capset.schemas.schema import SECRETS_WITHIN

BODY: Final = "body"
"""The argument that is the whole body of a request."""
FORM: Final = "application/x-www-form-urlencoded"
STYLES: Final[Mapping[str, tuple[str, ...]]] = {
    "path": ("simple",),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""The styles that can be sent, by the place of the parameter; the first is the default."""
_IGNORED_HEADERS: Final = frozenset({"accept", "content-type", "authorization"})
"""Headers that the specification has ignored among parameters."""
_JSON: Final = re.compile(r"application/json|[^/]+/[^/]+\+json")
_ANY_JSON: Final = frozenset({"*/*", "application/*", "application/*+json"})
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")

Places = dict[str, dict[str, Any]]
"""The place of each argument; JSON."""
Key = tuple[str, str]
"""The place and the name of a parameter: ``("query", "limit")``."""


def is_json(media_type: str) -> bool:
    """Whether a media type, in lower case, is that of JSON."""
    return _JSON.fullmatch(media_type) is not None


def arguments_of(
    document: ApiDocument, path: str, item: Node, operation: Node, filled: Collection[Key], library: SchemaLibrary
) -> tuple[dict[str, Any], Places]:
    """Return the JSON Schema of an operation's arguments, and the places of these.

    ``filled`` are the parameters that the host fills in; they are no arguments. An argument has the name of its
    parameter, with ``_`` for letters that providers of models do not take; those that would have one name get their
    place before it: ``path_id`` and ``query_id``. The body is the argument ``body``.

    Raises ``DefinitionError`` for what cannot be sent.
    """
    schemas = OperationSchemas(library)
    parameters = {
        key: one
        for key, one in _parameters(document, item, operation).items()
        if key not in filled and not (key[0] == "header" and key[1] in _IGNORED_HEADERS)
    }
    _check_path(path, parameters)
    has_body = "requestBody" in operation
    names = _names(parameters, has_body=has_body)
    properties: dict[str, Any] = {}
    places: Places = {}
    required: list[str] = []
    for key, one in parameters.items():
        name = names[key]
        properties[name], places[name] = _parameter(schemas, key, one)
        if key[0] == "path" or one.get("required") is True:
            required.append(name)
    if has_body:
        body = document.resolved("its body", operation["requestBody"])
        properties[BODY], places[BODY] = _body(document, schemas, body)
        if body.get("required") is True:
            required.append(BODY)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = sorted(required)
    if defs := schemas.referred():
        schema["$defs"] = defs
    if has_body and places[BODY]["media"] == FORM_DATA and mentions_file([properties[BODY], *defs.values()]):
        raise DefinitionError("its body: a file can only be a field of it, or one of a list that is one")
    if has_body and _hides([properties[BODY], *defs.values()]):
        properties[BODY][SECRETS_WITHIN] = True  # records mask whole arguments, and fields only by their names
    return schema, places


def _parameters(document: ApiDocument, item: Node, operation: Node) -> dict[Key, Node]:
    """Return the parameters of an operation, with those of its path that it does not describe itself."""
    found: dict[Key, Node] = {}
    for owner in (item, operation):
        own: set[Key] = set()
        for number, one in enumerate(as_list("its parameters", owner.get("parameters"))):
            parameter = document.resolved(f"its parameter {number}", one)
            where, name = (as_text(f"its parameter {number}", parameter.get(member)) for member in ("in", "name"))
            if where not in STYLES or not name:
                raise DefinitionError(
                    f"its parameter {number} is in {where!r:.40}; expected one of {', '.join(STYLES)}"
                )
            key = (where, name.lower() if where == "header" else name)
            if key in own:
                raise DefinitionError(f"it has two parameters {name!r:.80} in its {where}")
            own.add(key)
            found[key] = parameter
    return found


def _check_path(path: str, parameters: Collection[Key]) -> None:
    """Refuse a path whose placeholders and parameters differ, and one that leads elsewhere."""
    if not path.startswith("/") or re.search(r"[\x00-\x20\x7f\\?#]", path):
        raise DefinitionError("its path does not begin with a slash, or has letters that no path has")
    if not {".", ".."}.isdisjoint(path.split("/")):
        raise DefinitionError("its path has a segment of dots")
    places = re.findall(r"\{([^{}]*)\}", path)
    if re.search(r"[{}]", re.sub(r"\{[^{}]*\}", "", path)) or len(set(places)) < len(places):
        raise DefinitionError("the placeholders of its path are not well formed")
    if odd := sorted({*places} ^ {name for where, name in parameters if where == "path"}):
        raise DefinitionError(f"its path and its parameters differ in {odd[0]!r:.80}")


def _names(parameters: Collection[Key], *, has_body: bool) -> dict[Key, str]:
    plain: dict[Key, str] = {}
    for where, name in parameters:
        clean = _NO_NAME.sub("_", name)
        clean = clean if clean == name else clean.strip("_")
        if not clean:
            raise DefinitionError(f"the name of its parameter {name!r:.80} has no letters that an argument may have")
        plain[where, name] = clean
    count = Counter([*plain.values(), *([BODY] if has_body else [])])
    found = {key: one if count[one] == 1 else f"{key[0]}_{one}" for key, one in plain.items()}
    if twice := [one for one, times in Counter(found.values()).items() if times > 1]:
        raise DefinitionError(f"two of its parameters would be the argument {twice[0]!r:.80}")
    return found


def _parameter(schemas: OperationSchemas, key: Key, parameter: Node) -> tuple[Any, dict[str, Any]]:
    """Return the schema of a parameter, and its place."""
    where, name = key
    what = f"its parameter {name!r:.80}"
    if where == "header":
        _check_header(name)
    place: dict[str, Any] = {"in": where, "name": name}
    if "content" in parameter:
        content = as_node(f"{what}: its content", parameter["content"])
        if len(content) != 1 or not is_json(media_type_of(next(iter(content)))):
            raise DefinitionError(f"{what} is sent as {', '.join(content)[:200]}; only JSON can be")
        given = as_node(what, next(iter(content.values()))).get("schema", {})
        place["content"] = next(iter(content))
    else:
        style = parameter.get("style", STYLES[where][0])
        if style not in STYLES[where]:
            sendable = " or ".join(STYLES[where])
            raise DefinitionError(f"{what} has the style {style!r:.40}; in a {where}, {sendable} can be sent")
        given = parameter.get("schema", {})
        place |= {"style": style, "explode": parameter.get("explode", style == "form") is True}
    schema = schemas.translated(what, given)
    return _described(schema, parameter.get("description")), place


def _check_header(name: str) -> None:
    try:
        checked_headers({name: ""})
    except ToolError as error:
        raise DefinitionError(f"its parameter {name!r:.80}: {error.message}") from None


def _described(schema: Any, description: object) -> Any:
    """Return a schema with the description of its parameter, before its own."""
    found: dict[str, Any] = {} if schema is True else {"not": {}} if schema is False else dict(schema)
    said = as_text("a description", description).strip()
    own = found.get("description")
    if said and said != own:
        found["description"] = f"{said}\n{own}" if isinstance(own, str) and own else said
    return found


def _body(document: ApiDocument, schemas: OperationSchemas, body: Node) -> tuple[Any, dict[str, Any]]:
    """Return the schema of a body, and its place: the media type that it is sent as."""
    content = as_node("its body: its content", body.get("content", {}))
    declared = next(_sendable(document, content), None)
    if declared is None:
        raise DefinitionError(
            f"its body is of {', '.join(content)[:200] or 'no media type'}; JSON, {FORM}, {FORM_DATA}, text and files "
            "can be sent"
        )
    described = as_node("its body", content[declared])
    media = "application/json" if declared in _ANY_JSON else declared
    place: dict[str, Any] = {"in": BODY, "media": media}
    if is_json(media_type_of(media)):
        schema = schemas.translated("its body", described.get("schema", {}))
    elif media_type_of(media) == FORM:
        schema = schemas.translated("its body", described.get("schema", {"type": "object"}))
        if encoding := dict(_encodings(document, described.get("encoding", {}))):
            place["encoding"] = encoding
    elif media_type_of(media) == FORM_DATA:
        schema, parts = _form_data(document, schemas, described)
        if parts:
            place["parts"] = parts
    elif media_type_of(media).startswith("text/"):
        schema = {"type": "string"}
    else:
        schema, place["file"] = dict(FILE_SCHEMA), True
    return _described(schema, body.get("description")), place


def _form_data(document: ApiDocument, schemas: OperationSchemas, described: Node) -> tuple[Any, Places]:
    """Return the schema of a body of ``multipart/form-data``, and how those of its parts are sent that are no texts."""
    what = "its body: its schema"
    node = document.resolved(what, described.get("schema", {"type": "object"}))
    fields, files = as_node(what, node.get("properties", {})), file_fields(document, what, node)
    parts: Places = {name: {"file": True} for name in files}
    for name, one in as_node("its body: its encoding", described.get("encoding", {})).items():
        given = document.resolved("its body: its encoding", one)
        if odd := sorted({"style", "explode", "headers"} & given.keys()):
            raise DefinitionError(f"its body: the {odd[0]} of {name!r:.80} cannot be sent")
        media = media_type_of(as_text("its body: its encoding", given.get("contentType")))
        if name in files and media and "*" not in media and "," not in media:
            parts[name]["media"] = media
        elif name not in files and is_json(media):
            parts[name] = {"media": media}
    schema = schemas.translated("its body", {**node, "properties": {k: v for k, v in fields.items() if k not in files}})
    if files and not isinstance(schema.get("properties"), dict):
        raise DefinitionError("its body: a form that may be null, or that is composed, cannot take files")
    for name, is_list in files.items():
        field = document.resolved(what, fields[name])
        one = _described(FILE_SCHEMA, field.get("description"))
        schema["properties"][name] = found = {"type": "array", "items": one} if is_list else one
        if field.get("writeOnly") is True:
            found["writeOnly"] = True
    return schema, parts


def _hides(schema: object) -> bool:
    """Whether a schema has a write-only field whose name does not say so, as ``password`` does."""
    if isinstance(schema, list):
        return any(_hides(one) or _is_write_only(one) for one in cast("list[object]", schema))
    if not isinstance(schema, dict):
        return False
    node = cast("dict[str, object]", schema)
    fields = node.get("properties")
    if isinstance(fields, dict):
        members = cast("dict[str, object]", fields)
        if any(_is_write_only(one) and not is_secret_name(name) for name, one in members.items()):
            return True
    return any(_hides(one) for one in node.values())


def _is_write_only(schema: object) -> bool:
    return isinstance(schema, dict) and cast("Node", schema).get("writeOnly") is True


def _sendable(document: ApiDocument, content: Node) -> Iterator[str]:
    """Yield the media types of a body that can be sent, best first."""
    types = {declared: media_type_of(declared) for declared in content}
    yield from (one for one, media in types.items() if media == "application/json")
    yield from (one for one, media in types.items() if is_json(media) or one in _ANY_JSON)
    yield from (one for one, media in types.items() if media == FORM)
    yield from (one for one, media in types.items() if media.startswith("text/") and "*" not in media)
    yield from (one for one, media in types.items() if media == FORM_DATA)
    for one, media in types.items():
        if "*" in media or media.startswith("multipart/"):
            continue
        if is_bytes(document, "its body", as_node("its body", content[one]).get("schema")):
            yield one


def _encodings(document: ApiDocument, encoding: object) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, one in as_node("its body: its encoding", encoding).items():
        given = document.resolved("its body: its encoding", one)
        if "style" in given or "explode" in given:
            style = given.get("style", "form")
            if style not in STYLES["query"]:
                raise DefinitionError(f"its body: the style {style!r:.40} of {name!r:.80} cannot be sent")
            yield name, {"style": style, "explode": given.get("explode", style == "form") is True}
