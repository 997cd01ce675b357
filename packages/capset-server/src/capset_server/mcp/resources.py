"""``resources/…``: the files of the session, and tools that are offered as resources (spec 7, M11)."""

from __future__ import annotations

import json
import mimetypes
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    Annotations,
    BlobResourceContents,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from capset.composition.installation import InstalledTool
from capset.definitions.calls.contents import pieces_of
from capset.definitions.calls.files import FileStat
from capset.definitions.tools.mcp_offers import McpResource
from capset.errors import FileError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.kernel.call.session import Session
from capset_server.mcp.calls import Report, data_of, hashes, meta_of, question_in, run
from capset_server.mcp.contents import contents_of, gives_content
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.offers import freshness, resources_of
from capset_server.mcp.questions import McpClient

FILES: Final = "capset://files/"
"""The prefix of the URIs of the session's files; the path follows, percent-encoded, without its first slash."""
FILES_TEMPLATE: Final = f"{FILES}{{+path}}"
READ_PERMISSION: Final = "session_files:read"
"""The permission of the file tools, which REST requires too."""
MAX_READ: Final = 8 * 1024 * 1024
"""The largest file that is read in one piece, in bytes."""
PAGE: Final = 1_000
_LARGE: Final = 64 * 1024
"""Files above this size, in bytes, count against the memory for downloads, as in REST."""
_COPIES: Final = 3
"""The copies of a file in memory: its bytes, their base64, and the response as text."""
_NOT_FOUND_BEFORE: Final = -32002
"""The code of a missing resource up to 2025-11-25."""

Contents = TextResourceContents | BlobResourceContents


async def list_resources(session: Session, cursor: str | None) -> ListResourcesResult:
    """Return the resources in play and the session's files, by path, a thousand per page.

    ``cursor`` is the last URI of the previous page. Raises ``MCPError`` for any other cursor.
    """
    snapshot = await session.current()
    resources: list[Resource] = []
    if cursor is None:
        resources = [
            _resource(offer, installed) for offer, installed in resources_of(snapshot) if not offer.is_template
        ]
    elif not cursor.startswith(FILES):
        raise MCPError(INVALID_PARAMS, f"invalid cursor {cursor!r:.200}: use the one from the previous page")
    files = await files_of(session)
    if cursor is not None:
        after = path_of(cursor)
        files = [file for file in files if file.path > after]
    room = max(PAGE - len(resources), 1)
    resources += [_file(file) for file in files[:room]]
    last = _uri(files[room - 1].path) if len(files) > room else None
    # Files may change at any time, also by calls of others.
    return ListResourcesResult(
        resources=resources, next_cursor=last, ttl_ms=0, cache_scope="private", _meta=hashes(snapshot)
    )


def list_templates(snapshot: Snapshot) -> ListResourceTemplatesResult:
    """Return the templates in play, and that of the session's files for those who may read them."""
    templates = [_template(offer, installed) for offer, installed in resources_of(snapshot) if offer.is_template]
    if may_read_files(snapshot):
        about = "A file of the session, by its path."
        templates.append(ResourceTemplate(uri_template=FILES_TEMPLATE, name="files", title="Files", description=about))
    return ListResourceTemplatesResult(resource_templates=templates, _meta=hashes(snapshot), **freshness(snapshot))


def list_offered(snapshot: Snapshot) -> list[Resource | ResourceTemplate]:
    """Return all resources and templates in play, apart from files."""
    return [
        _template(offer, installed) if offer.is_template else _resource(offer, installed)
        for offer, installed in resources_of(snapshot)
    ]


async def read_resource(
    exchange: Exchange, params: ReadResourceRequestParams, report: Report, client: McpClient
) -> ReadResourceResult | InputRequiredResult:
    """Return the contents of a URI: a file directly, anything else by a call of its tool.

    Raises ``MCPError`` for an unknown URI, a file that may not be read or is too large, and a failed call.
    """
    uri, snapshot = params.uri, await exchange.session.current()
    if uri.startswith(FILES):
        contents = await _read_file(exchange, uri, client)
        return ReadResourceResult(contents=[contents], ttl_ms=0, cache_scope="private", _meta=hashes(snapshot))
    for offer, installed in resources_of(snapshot):
        if (arguments := offer.arguments(uri)) is not None:
            ended = await run(exchange, installed.name, arguments, report, client)
            if (question := question_in(ended, client)) is not None:
                return question
            read = _contents(offer, installed, uri, data_of(ended))
            return ReadResourceResult(contents=read, ttl_ms=0, cache_scope="private", _meta=meta_of(ended))
    raise _not_found(uri, client)


def may_read_files(snapshot: Snapshot) -> bool:
    """Return whether the caller may read the session's files."""
    return snapshot.refusal is None and READ_PERMISSION in snapshot.principal.permissions


async def files_of(session: Session) -> list[FileStat]:
    """Return the session's files by path; none for a caller who may not read them."""
    if not may_read_files(session.snapshot):
        return []
    return [file for file in await session.files.list(recursive=True) if not file.is_directory]


def _resource(offer: McpResource, installed: InstalledTool) -> Resource:
    return Resource(uri=offer.uri, **_shown(offer, installed))


def _template(offer: McpResource, installed: InstalledTool) -> ResourceTemplate:
    return ResourceTemplate(uri_template=offer.uri, **_shown(offer, installed))


def _shown(offer: McpResource, installed: InstalledTool) -> dict[str, Any]:  # members of both models
    tool = installed.tool
    return {
        "name": installed.name,
        "title": offer.title or tool.title,
        "description": tool.description,
        "mime_type": offer.media_type,
    }


def _file(stat: FileStat) -> Resource:
    return Resource(
        uri=_uri(stat.path),
        name=stat.path,
        mime_type=mimetypes.guess_type(stat.path)[0],
        size=stat.size_bytes,
        annotations=Annotations(last_modified=stat.modified_at),
    )


def _uri(path: str) -> str:
    return FILES + quote(path[1:])


def path_of(uri: str) -> str:
    """Return the path of a file, given its URI."""
    return "/" + unquote(uri.removeprefix(FILES))


async def _read_file(exchange: Exchange, uri: str, client: McpClient) -> Contents:
    session = exchange.session
    if not may_read_files(session.snapshot):
        principal_id = session.snapshot.principal.id
        raise MCPError(
            INVALID_PARAMS,
            f"Permission denied: {principal_id} lacks the permission {READ_PERMISSION}",
            data={"uri": uri},
        )
    try:
        stat = await session.files.stat(path_of(uri))
        if stat is None or stat.is_directory:
            raise _not_found(uri, client)
        if stat.size_bytes > MAX_READ:
            raise MCPError(
                INVALID_PARAMS,
                f"{stat.path} has {stat.size_bytes:,} bytes; a resource has at most {MAX_READ:,}: read it by REST",
                data={"uri": uri},
            )
        if exchange.reserve is not None and stat.size_bytes > _LARGE:
            await exchange.reserve(_COPIES * stat.size_bytes)
        stat, content = await session.files.read(stat.path)
    except FileError as error:
        raise MCPError(INVALID_PARAMS, error.message, data={"uri": uri}) from None
    guessed = mimetypes.guess_type(stat.path)[0]
    text = None if guessed is not None and guessed.startswith(("image/", "audio/", "video/")) else _decoded(content)
    if text is not None:
        return TextResourceContents(uri=uri, mime_type=guessed or "text/plain", text=text)
    blob = b64encode(content).decode()
    return BlobResourceContents(uri=uri, mime_type=guessed or "application/octet-stream", blob=blob)


def _decoded(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _contents(offer: McpResource, installed: InstalledTool, uri: str, data: Any) -> list[Contents]:  # JSON data
    if gives_content(installed.tool):
        return [_piece(offer, uri, piece) for piece in pieces_of(data)]
    if isinstance(data, str):
        return [TextResourceContents(uri=uri, mime_type=offer.media_type or "text/plain", text=data)]
    text = json.dumps(data, ensure_ascii=False)
    return [TextResourceContents(uri=uri, mime_type=offer.media_type or "application/json", text=text)]


def _piece(offer: McpResource, uri: str, piece: Mapping[str, Any]) -> Contents:
    match piece["type"]:
        case "resource":
            return contents_of(piece)
        case "text":
            return TextResourceContents(uri=uri, mime_type=offer.media_type or "text/plain", text=piece["text"])
        case "resource_link":
            return TextResourceContents(uri=uri, mime_type="text/uri-list", text=piece["uri"])
        case _:
            return BlobResourceContents(uri=uri, mime_type=piece["media_type"], blob=piece["data"])


def _not_found(uri: str, client: McpClient) -> MCPError:
    code = INVALID_PARAMS if client.is_modern else _NOT_FOUND_BEFORE
    return MCPError(code, f"Resource not found: {uri:.500}", {"uri": uri})
