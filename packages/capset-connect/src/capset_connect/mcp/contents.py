"""Content that an MCP server sends, in capset's own types (spec 7, M10, M21)."""

from __future__ import annotations

import binascii
from base64 import b64decode

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from capset.definitions.calls.contents import Audio, Embedded, Image, Link, Text
from capset.errors import ToolError


def content_of(
    given: TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource,
) -> Text | Image | Audio | Embedded | Link:
    """Return a piece of content. Raises ``ToolError`` for bytes that are no base64."""
    match given:
        case TextContent():
            return Text(text=given.text)
        case ImageContent():
            return Image(data=_decoded(given.data), media_type=given.mime_type)
        case AudioContent():
            return Audio(data=_decoded(given.data), media_type=given.mime_type)
        case EmbeddedResource():
            return embedded_of(given.resource)
        case ResourceLink():
            return Link(
                uri=given.uri,
                name=given.name,
                title=given.title,
                description=given.description,
                media_type=given.mime_type,
            )


def embedded_of(given: TextResourceContents | BlobResourceContents) -> Embedded:
    """Return the contents of a resource. Raises ``ToolError`` for bytes that are no base64."""
    if isinstance(given, TextResourceContents):
        return Embedded(uri=given.uri, text=given.text, media_type=given.mime_type)
    return Embedded(uri=given.uri, data=_decoded(given.blob), media_type=given.mime_type)


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise ToolError("The MCP server sent bytes that are no base64.", code="mcp_error", status=502) from None
