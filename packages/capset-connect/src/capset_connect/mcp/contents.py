"""Conversion of MCP content to capset's types (spec 7, M10, M21)."""

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
    content: TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource,
) -> Text | Image | Audio | Embedded | Link:
    """Convert a content block. Raises ``ToolError`` for invalid base64."""
    match content:
        case TextContent():
            return Text(text=content.text)
        case ImageContent():
            return Image(data=_decoded(content.data), media_type=content.mime_type)
        case AudioContent():
            return Audio(data=_decoded(content.data), media_type=content.mime_type)
        case EmbeddedResource():
            return embedded_of(content.resource)
        case ResourceLink():
            return Link(
                uri=content.uri,
                name=content.name,
                title=content.title,
                description=content.description,
                media_type=content.mime_type,
            )


def embedded_of(contents: TextResourceContents | BlobResourceContents) -> Embedded:
    """Convert the contents of a resource. Raises ``ToolError`` for invalid base64."""
    if isinstance(contents, TextResourceContents):
        return Embedded(uri=contents.uri, text=contents.text, media_type=contents.mime_type)
    return Embedded(uri=contents.uri, data=_decoded(contents.blob), media_type=contents.mime_type)


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise ToolError("The MCP server sent invalid base64.", code="mcp_error", status=502) from None
