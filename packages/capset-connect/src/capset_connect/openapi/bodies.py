"""Bodies of operations: the media type and the schema of each (spec 7, M8, M106)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from capset.errors import DefinitionError
from capset.net.media import is_text, media_type_of
from capset_connect.openapi.argument_names import BODY
from capset_connect.openapi.depths import Depth, depth_sent
from capset_connect.openapi.document import ApiDocument
from capset_connect.openapi.nodes import Node, as_list, as_members, as_text
from capset_connect.openapi.parameters import Place, Places, described, is_json, schema_of, style_of
from capset_connect.openapi.schemas import OperationSchemas
from capset_connect.openapi.uploads import FILE_SCHEMA, FORM_DATA, file_fields, is_bytes

FORM: Final = "application/x-www-form-urlencoded"
_ANY_JSON: Final = frozenset({"*/*", "application/*", "application/*+json"})
_JSON_PATCH: Final = "application/json-patch+json"
"""A list of changes (RFC 6902), although many documents declare an object for it."""
_SAYS_NOTHING: Final = frozenset({"type", "properties", "title", "description"})
"""Keywords that the schema of an empty body may have; its ``properties`` are empty."""
_OBJECT: Final = {"type": "object"}


def is_empty(body: Node) -> bool:
    """Whether a body is described as empty."""
    content = body.get("content")
    return all(map(_says_nothing, cast("Node", content).values())) if isinstance(content, Mapping) else True


def _says_nothing(typed: object) -> bool:
    schema = cast("Node", typed).get("schema") if isinstance(typed, Mapping) else None
    if not isinstance(schema, Mapping):
        return schema is None
    node = cast("Node", schema)
    return node.keys() <= _SAYS_NOTHING and not node.get("properties") and node.get("type", "object") == "object"


def body_of(document: ApiDocument, schemas: OperationSchemas, body: Node, notes: list[str]) -> tuple[Any, Place]:
    """Return the schema of a body, and its place, which has the media type to send. Raises ``DefinitionError``.

    Adds a note for each field that is left out.
    """
    content = as_members("its body: its content", body.get("content"))
    declared = next(_sendable(document, content), None)
    if declared is None:
        raise DefinitionError(
            f"its body is of {', '.join(content)[:200] or 'no media type'}; only JSON, {FORM}, {FORM_DATA}, text and "
            "files can be sent"
        )
    typed = _media(document, content, declared)
    media = "application/json" if declared in _ANY_JSON else declared
    place: Place = {"in": BODY, "media": media}
    if is_json(media_type_of(media)):
        schema = schemas.translated("its body", schema_of(typed))
    elif media_type_of(media) == FORM:
        schema, encoding = _form(document, schemas, typed, notes)
        if encoding:
            place["encoding"] = encoding
    elif media_type_of(media) == FORM_DATA:
        schema, parts = _form_data(document, schemas, typed, notes)
        if parts:
            place["parts"] = parts
    elif is_text(media_type_of(media)):
        is_plain = media_type_of(media) == "text/plain"
        schema = {"type": "string"} if is_plain else {"type": "string", "description": f"Text of the type {media}."}
    else:
        schema, place["file"] = dict(FILE_SCHEMA), True
    return described(schema, body.get("description")), place


def _media(document: ApiDocument, content: Node, declared: str) -> Node:
    """Return the description of a body for a media type; version 3.2 allows references there."""
    return document.resolved("its body", as_members("its body", content[declared]))


def _form(document: ApiDocument, schemas: OperationSchemas, typed: Node, notes: list[str]) -> tuple[Any, Places]:
    """Return the schema of a form, and the encodings of its fields that have a style.

    Optional fields that their style cannot send are left out, with a note.
    """
    label = "its body: its schema"
    schema = schema_of(typed) or _OBJECT
    node: Node = document.resolved(label, cast("Node", schema)) if isinstance(schema, Mapping) else {}
    fields = as_members(label, node.get("properties"))
    encodings: Places = {}
    unsent: set[str] = set()
    for name, encoding in _encodings(document, typed):
        if encoding.get("style") is None and encoding.get("explode") is None:
            continue
        style, explode = style_of(f"its body: {name!r:.80}", "query", encoding)
        encodings[name] = {"style": style, "explode": explode}
        if _depths(schemas, fields.get(name))[0] > depth_sent(style, explode=explode):
            problem = f"{name!r:.80} has lists or objects within others, which the style {style!r} cannot send"
            _leave_out(node, name, problem, notes)
            unsent.add(name)
    if unsent:
        schema = {**node, "properties": {name: field for name, field in fields.items() if name not in unsent}}
    return schemas.translated("its body", cast("object", schema)), encodings


def _leave_out(form: Node, name: str, problem: str, notes: list[str]) -> None:
    """Add a note that a field is left out. Raises ``DefinitionError`` if it is required, or not a declared field."""
    label = "its body: its schema"
    if name in as_list(label, form.get("required")) or name not in as_members(label, form.get("properties")):
        raise DefinitionError(f"its body: {problem}")
    notes.append(f"left out: its body: {problem}")


def _form_data(document: ApiDocument, schemas: OperationSchemas, typed: Node, notes: list[str]) -> tuple[Any, Places]:
    """Return the schema of a ``multipart/form-data`` body, and the places of its parts that are not plain text.

    Optional fields whose style cannot be sent are left out, with a note. Version 3.0 has no styles here.
    """
    label = "its body: its schema"
    node = document.resolved(label, schema_of(typed) or _OBJECT)
    fields = dict(as_members(label, node.get("properties")))
    encodings = dict(_encodings(document, typed))
    for name, encoding in [*encodings.items()] if document.version != "3.0" else ():
        if not _is_repeated(schemas, encoding, fields.get(name)):
            _leave_out(node, name, f"the style of {name!r:.80} cannot be sent", notes)
            del fields[name], encodings[name]
    node = {**node, "properties": fields}
    files = file_fields(document, label, node)
    parts: Places = {name: {"file": True} for name in files}
    for name, encoding in encodings.items():
        if encoding.get("headers"):
            raise DefinitionError(f"its body: the headers of {name!r:.80} cannot be sent")
        media = media_type_of(as_text("its body: its encoding", encoding.get("contentType")))
        if name in files and media and "*" not in media and "," not in media:
            parts[name]["media"] = media
        elif name not in files and is_json(media):
            parts[name] = {"media": media}
    schema = schemas.translated("its body", {**node, "properties": {k: v for k, v in fields.items() if k not in files}})
    if files and not isinstance(schema.get("properties"), dict):
        raise DefinitionError("its body: a form that may be null, or that is composed, cannot take files")
    for name, is_list in files.items():
        field = document.resolved(label, fields[name])
        file_schema = described(FILE_SCHEMA, field.get("description"))
        field_schema = {"type": "array", "items": file_schema} if is_list else file_schema
        if field.get("writeOnly") is True:
            field_schema["writeOnly"] = True
        schema["properties"][name] = field_schema
    return schema, parts


def _is_repeated(schemas: OperationSchemas, encoding: Node, field: object) -> bool:
    """Whether a field can be sent as one part per item, as its style says; a field without a style can."""
    if encoding.get("style") is None and encoding.get("explode") is None:
        return True
    is_repeating = encoding.get("style") in (None, "form") and encoding.get("explode") is not False
    return is_repeating and _depths(schemas, field)[1] <= Depth.LIST


def _depths(schemas: OperationSchemas, field: object) -> tuple[Depth, Depth]:
    trial = schemas.trial()
    return trial.depths(trial.translated("its body: its schema", field or {}))


def _encodings(document: ApiDocument, typed: Node) -> Iterator[tuple[str, Node]]:
    label = "its body: its encoding"
    for name, encoding in as_members(label, typed.get("encoding")).items():
        yield name, document.resolved(label, as_members(label, encoding))


def _sendable(document: ApiDocument, content: Node) -> Iterator[str]:
    """Yield the media types of a body that can be sent, best first."""
    types = {declared: media_type_of(declared) for declared in content}
    json = [declared for declared, media in types.items() if is_json(media) or declared in _ANY_JSON]
    yield from sorted(
        json, key=lambda declared: (types[declared] != "application/json", types[declared] == _JSON_PATCH)
    )
    single = {declared: media for declared, media in types.items() if media and "*" not in media}
    yield from (declared for declared, media in single.items() if media == FORM)
    yield from (declared for declared, media in single.items() if media.startswith("text/"))
    yield from (declared for declared, media in single.items() if media == FORM_DATA)
    yield from (declared for declared, media in single.items() if is_text(media))
    for declared, media in single.items():
        typed = _media(document, content, declared)
        if not media.startswith("multipart/") and is_bytes(document, "its body", typed.get("schema")):
            yield declared
