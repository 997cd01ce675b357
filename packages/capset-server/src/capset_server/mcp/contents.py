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
    """The content of a result as a model gets it, and the file with all of its text if that is cut."""

    blocks: list[ContentBlock]
    is_cut: bool = False
    file: str | None = None


def gives_content(tool: AnyTool | None) -> bool:
    """Whether a tool's results are content, which has a form of its own, and no structure beside it."""
    return tool is not None and is_content(tool.output.annotation)


async def show(session: Session, record: str, content: Sequence[Mapping[str, Any]] | None, data: Any) -> Shown:
    """Return a result as content; ``content`` are its pieces where it is that, ``data`` its JSON data.

    Text that is too long for a model is cut, all of it together; the rest stays.
    """
    cut = await session.for_model(record, data, content=content)
    blocks: list[ContentBlock] = [TextContent(text=cut.text)] if content is None else blocks_of(cut.pieces)
    return Shown(blocks, cut.is_cut, cut.file)


async def show_foreign(session: Session, record: str, blocks: Sequence[Mapping[str, Any]]) -> Shown:
    """Return blocks of a server of others as they came; text that is too long is cut, all of it together."""
    cut = await session.for_model(record, None, content=[piece_of(block) for block in blocks])
    if cut.is_cut:
        return Shown(blocks_of(cut.pieces), cut.is_cut, cut.file)
    return Shown([*map(_foreign_block, blocks)])


def blocks_of(pieces: Iterable[Mapping[str, Any]]) -> list[ContentBlock]:
    """Return pieces of content as MCP writes them."""
    return [_block(piece) for piece in pieces]


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


def _foreign_block(block: Mapping[str, Any]) -> ContentBlock:
    try:
        return _FOREIGN.validate_python(block, by_name=False)
    except ValidationError:  # the host's pattern has masked a name in it
        return TextContent(text=json.dumps(block, ensure_ascii=False))
