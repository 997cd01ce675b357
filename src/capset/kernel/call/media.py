"""Media in results for models: files of the session, so that a model reads a path and not base64 (spec 7, M10)."""

from __future__ import annotations

import mimetypes
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, cast

from capset.definitions.contents import is_content
from capset.definitions.tools.definition import AnyTool
from capset.kernel.call.session_context import SessionContext
from capset.kernel.call.truncation import FOLDER, store_result


async def media_as_files(context: SessionContext, record: str, tool: AnyTool | None, data: Any) -> Any:  # JSON data
    """Return a result with its media in files of the session, each in its place as ``{"type": "file", "path": …}``.

    ``record`` is the id of the call's. Results that are not content stay as they are. What cannot be stored becomes a
    text that says so.
    """
    if tool is None or not is_content(tool.output.annotation):
        return data
    if not isinstance(data, list):
        return await _kept(context, f"{FOLDER}/{record}", data)
    pieces = cast("list[Any]", data)
    return [await _kept(context, f"{FOLDER}/{record}-{number}", one) for number, one in enumerate(pieces, start=1)]


async def _kept(context: SessionContext, file: str, given: Any) -> Any:  # JSON data
    """Return one piece; its bytes are stored under the name ``file``, with an ending for their type."""
    piece: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    if piece.get("data") is None:
        return cast("Any", given)
    media_type = piece.get("media_type") or "application/octet-stream"
    try:
        content = b64decode(piece["data"], validate=True)
    except ValueError:  # a pattern of the host's has masked a part of it
        return {"type": "text", "text": f"[{piece['type']}, {media_type}: masked]"}
    path = f"{file}{mimetypes.guess_extension(media_type) or ''}"
    why = await store_result(context, path, content)
    if why is not None:
        return {"type": "text", "text": f"[{piece['type']}, {media_type}, {len(content):,} bytes: not kept: {why}]"}
    uri = {"uri": piece["uri"]} if "uri" in piece else {}
    return {"type": "file", "path": path, "media_type": media_type, **uri}
