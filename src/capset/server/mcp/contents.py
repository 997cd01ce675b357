"""Results as MCP's content: texts, images, audio, embedded resources and links (spec 7, M10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from capset.definitions.contents import is_content, pieces_of
from capset.definitions.tools.definition import AnyTool
from capset.kernel.call.session import Session


class Shown(NamedTuple):
    """The content of a result as a model gets it, and the file with all of its text if that is cut."""

    blocks: list[ContentBlock]
    is_cut: bool = False
    file: str | None = None


def gives_content(tool: AnyTool | None) -> bool:
    """Whether a tool's results are content, which has a form of its own, and no structure beside it."""
    return tool is not None and is_content(tool.output.annotation)


async def show(session: Session, record: str, tool: AnyTool | None, data: Any) -> Shown:  # JSON data
    """Return a result as content. Text that is too long for a model is cut, all of it together; the rest stays."""
    if not gives_content(tool):
        told = await session.for_model(record, data)
        return Shown([TextContent(text=told.text)], told.is_cut, told.file)
    pieces = pieces_of(data)
    texts = [one["text"] for one in pieces if one.get("text") is not None]
    told = await session.for_model(record, "\n".join(texts))
    if not told.is_cut:
        return Shown(blocks_of(pieces))
    rest = blocks_of(one for one in pieces if one.get("text") is None)
    return Shown([TextContent(text=told.text), *rest], told.is_cut, told.file)


def blocks_of(pieces: Iterable[Mapping[str, Any]]) -> list[ContentBlock]:
    """Return pieces of content as MCP writes them."""
    return [_block(one) for one in pieces]


def contents_of(piece: Mapping[str, Any]) -> TextResourceContents | BlobResourceContents:
    """Return an embedded resource as the contents of one."""
    uri, media_type = piece["uri"], piece.get("media_type")
    if piece.get("text") is not None:
        return TextResourceContents(uri=uri, mime_type=media_type or "text/plain", text=piece["text"])
    return BlobResourceContents(uri=uri, mime_type=media_type or "application/octet-stream", blob=piece["data"])


def _block(piece: Mapping[str, Any]) -> ContentBlock:
    match piece["type"]:
        case "text":
            return TextContent(text=piece["text"])
        case "image":
            return ImageContent(data=piece["data"], mime_type=piece["media_type"])
        case "audio":
            return AudioContent(data=piece["data"], mime_type=piece["media_type"])
        case "resource":
            return EmbeddedResource(resource=contents_of(piece))
        case _:
            return ResourceLink(
                uri=piece["uri"],
                name=piece["name"],
                title=piece.get("title"),
                description=piece.get("description"),
                mime_type=piece.get("media_type"),
            )
