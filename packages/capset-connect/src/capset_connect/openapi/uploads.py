"""Files as arguments: session files or base64, sent as a body or as parts of one (spec 7, M8)."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from capset.definitions.calls.contexts import Context
from capset.definitions.governance.policies import Decision, Policy, Request, allow, deny
from capset.errors import ToolError
from capset.net.client import not_installed_error
from capset.schemas.schema import session_file
from capset_connect.openapi.document import ApiDocument
from capset_connect.openapi.nodes import Node, as_list, as_members

FORM_DATA: Final = "multipart/form-data"
MAX_UPLOAD_BYTES: Final = 16 * 1024 * 1024
"""The maximum size of all files of one request together, in bytes."""
_MAX_FILES: Final = 100
_READ: Final = "session_files:read"
_MAX_NAME: Final = 200
_COMPOSED: Final = frozenset({"properties", "items", "allOf", "anyOf", "oneOf", "enum", "const"})
"""Keywords of schemas that do not describe bytes."""
_TEXT: Final = {"type": "string"}
_PATH: Final = {"type": "string", **session_file()}
FILE_SCHEMA: Final[Mapping[str, Any]] = {
    "description": "A file: the path of one of the session's files, or its content as base64.",
    "anyOf": [
        {"type": "object", "properties": {"path": _PATH}, "required": ["path"], "additionalProperties": False},
        {
            "type": "object",
            "properties": {"base64": _TEXT, "name": {"type": "string", "maxLength": _MAX_NAME}},
            "required": ["base64"],
            "additionalProperties": False,
        },
    ],
}
"""The JSON Schema of an argument that is a file."""

FormPart = tuple[str, tuple[str | None, bytes, str | None]]
"""A part of a ``multipart/form-data`` body: its name, and its file name, content and media type.

It is a file if it has a file name. Without a media type, a file gets that of its file name.
"""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to send: its name, without folders, and its content."""

    name: str
    data: bytes


def is_bytes(document: ApiDocument, label: str, schema: object) -> bool:
    """Whether the schema of a body allows bytes: it is absent, or of type string."""
    node: Node = document.resolved(label, cast("Node", schema)) if isinstance(schema, Mapping) else {}
    return _is_string(node) and _COMPOSED.isdisjoint(node)


def is_file(document: ApiDocument, label: str, schema: object) -> bool:
    """Whether the schema of a part describes a file, possibly nullable. Read-only fields are not files."""
    if not isinstance(schema, Mapping):
        return False
    node = document.resolved(label, cast("Node", schema))
    for key in ("anyOf", "oneOf"):
        options = [option for option in as_list(label, node.get(key)) if not _is_null(option)]
        if len(options) == 1 and "type" not in node:
            node = document.resolved(label, options[0])
    return node.get("readOnly") is not True and _says_bytes(node)


def mentions_file(schema: object) -> bool:
    """Whether a schema contains the schema of a file."""
    if isinstance(schema, list):
        return any(map(mentions_file, cast("list[object]", schema)))
    if not isinstance(schema, Mapping):
        return False
    node = cast("Node", schema)
    return _says_bytes(node) or any(map(mentions_file, node.values()))


def file_fields(document: ApiDocument, label: str, schema: Node) -> dict[str, bool]:
    """Return the file fields of a body by name, and whether each takes several files."""
    files: dict[str, bool] = {}
    for name, field in as_members(label, schema.get("properties")).items():
        if is_file(document, label, field):
            files[name] = False
        elif isinstance(field, Mapping):
            node = document.resolved(label, cast("Node", field))
            if node.get("type") == "array" and is_file(document, label, node.get("items")):
                files[name] = True
    return files


def takes_files(places: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether an operation with arguments in these places takes files."""
    return any(_is_file_place(place) for place in places.values())


def upload_policy(owner: str, places: Mapping[str, Mapping[str, Any]]) -> Policy:
    """Return the policy that refuses session files to principals who may not read them."""

    def decide(request: Request) -> Decision:
        if _READ in request.principal.permissions or not any(
            "path" in file for file in _files_in(places, request.arguments or {})
        ):
            return allow()
        return deny(f"Sending a file of the session needs the permission {_READ}")

    return Policy(f"{owner}:files", decide, phase="call")


async def with_uploads(
    ctx: Context, places: Mapping[str, Mapping[str, Any]], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments with each file that they name replaced by an ``Upload``.

    Raises ``FileError``, and ``ToolError`` for invalid base64 and for too many or too large files.
    """
    reading, filled = _UploadReader(ctx), dict(arguments)
    for name, place in places.items():
        if (value := filled.get(name)) is None or not _is_file_place(place):
            continue
        if place.get("file") is True:
            filled[name] = await reading.upload(name, value)
            continue
        if not isinstance(value, dict):  # allowed by the document's schema, but not a form
            continue
        fields = dict(cast("dict[str, Any]", value))
        for key, part in place["parts"].items():
            if part.get("file") is True and (source := fields.get(key)) is not None:
                several = isinstance(source, list)
                files = [
                    await reading.upload(key, item) for item in (cast("list[Any]", source) if several else [source])
                ]
                fields[key] = files if several else files[0]
        filled[name] = fields
    return filled


class _UploadReader:
    """Reads the files of one request, and enforces the limits on their number and size."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._left = MAX_UPLOAD_BYTES
        self._count = 0

    async def upload(self, argument: str, file: Mapping[str, str]) -> Upload:
        """Return the file that an argument names."""
        self._count += 1
        if self._count > _MAX_FILES:
            raise _refused(argument, f"a request has at most {_MAX_FILES} files")
        if "path" in file:
            stat = await self._ctx.files.stat(file["path"])
            self._check(argument, stat.size_bytes if stat is not None else 0)
            stat, data = await self._ctx.files.read(file["path"])
            name = stat.name
        else:
            self._check(argument, len(file["base64"]) // 4 * 3 - 2)
            name = re.split(r"[/\\]", file.get("name", ""))[-1]
            try:
                data = b64decode(file["base64"], validate=True)
            except ValueError:
                raise _refused(argument, "its base64 is invalid") from None
        self._check(argument, len(data))
        self._left -= len(data)
        return Upload(name if name not in ("", ".", "..") else "file", data)

    def _check(self, argument: str, size: int) -> None:
        if size > self._left:
            raise _refused(argument, f"the files of a request have at most {MAX_UPLOAD_BYTES:,} bytes together")


def multipart(argument: str, parts: Iterable[FormPart]) -> tuple[bytes, str]:
    """Return a body of these parts, and its ``Content-Type``. Raises ``ToolError`` if there are none."""
    if not (files := list(parts)):
        raise _refused(argument, "a form needs at least one field")
    try:
        import httpx2
    except ModuleNotFoundError as missing:
        if missing.name != "httpx2":
            raise
        raise not_installed_error() from None
    request = httpx2.Request("POST", "http://localhost", files=files)
    return request.read(), request.headers["content-type"]


def _files_in(places: Mapping[str, Mapping[str, Any]], arguments: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the members of arguments that are files."""
    for name, place in places.items():
        value = arguments.get(name)
        members: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
        if place.get("file") is True:
            yield members
            continue
        for key, part in place.get("parts", {}).items():
            if part.get("file") is True:
                entry = members.get(key)
                items = cast("Iterable[Any]", entry) if isinstance(entry, list | tuple) else (entry,)
                yield from (item for item in items if isinstance(item, Mapping))


def _is_file_place(place: Mapping[str, Any]) -> bool:
    return place.get("file") is True or any(part.get("file") is True for part in place.get("parts", {}).values())


def _is_string(node: Node) -> bool:
    kind = node.get("type") or "string"
    return kind in ("string", ["string", "null"], ["null", "string"], ["string"])


def _says_bytes(node: Node) -> bool:
    is_encoded = "contentEncoding" in node
    return _is_string(node) and (node.get("format") == "binary" or ("contentMediaType" in node and not is_encoded))


def _is_null(schema: object) -> bool:
    return isinstance(schema, Mapping) and cast("Node", schema).get("type") == "null"


def _refused(argument: str, why: str) -> ToolError:
    return ToolError(f"The argument {argument!r:.80} cannot be sent: {why}.", code="argument_refused", status=422)
