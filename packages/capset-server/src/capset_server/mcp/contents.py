"""Results as MCP's content: texts, images, audio, embedded resources and links (spec 7, M10, M97)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

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
from pydantic import TypeAdapter, ValidationError

from capset.definitions.calls.contents import is_content, piece_of
from capset.definitions.tools.definition import AnyTool
from capset.kernel.call.session import Session

_FOREIGN: Final = TypeAdapter[ContentBlock](ContentBlock)


class Shown(NamedTuple):
    """The content of a result as a model gets it, and the file with the full text if it is truncated."""

    blocks: list[ContentBlock]
    is_cut: bool = False
    file: str | None = None


def gives_content(tool: AnyTool | None) -> bool:
    """Return whether a tool's results are content, which comes without structured content."""
    return tool is not None and is_content(tool.output.annotation)


async def show(session: Session, record: str, content: Sequence[Mapping[str, Any]] | None, data: Any) -> Shown:
    """Return a result as MCP content: ``content`` is its pieces if it has any, ``data`` its JSON data.

    Text that is too long for a model in total is truncated; everything else is kept.
    """
    cut = await session.for_model(record, data, content=content)
    blocks: list[ContentBlock] = [TextContent(text=cut.text)] if content is None else blocks_of(cut.pieces)
    return Shown(blocks, cut.is_cut, cut.file)


async def show_foreign(session: Session, record: str, blocks: Sequence[Mapping[str, Any]]) -> Shown:
    """Return the blocks of an upstream server unchanged; text that is too long in total is truncated."""
    cut = await session.for_model(record, None, content=[piece_of(block) for block in blocks])
    if cut.is_cut:
        return Shown(blocks_of(cut.pieces), cut.is_cut, cut.file)
    return Shown([*map(_foreign_block, blocks)])


def blocks_of(pieces: Iterable[Mapping[str, Any]]) -> list[ContentBlock]:
    """Return pieces of content as MCP content blocks."""
    return [_block(piece) for piece in pieces]


def contents_of(piece: Mapping[str, Any]) -> TextResourceContents | BlobResourceContents:
    """Return an embedded resource as MCP resource contents."""
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


def _foreign_block(block: Mapping[str, Any]) -> ContentBlock:
    try:
        return _FOREIGN.validate_python(block, by_name=False)
    except ValidationError:  # the host's redaction has masked the name of a member
        return TextContent(text=json.dumps(block, ensure_ascii=False))
