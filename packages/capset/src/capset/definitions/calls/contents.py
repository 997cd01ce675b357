"""Content of results other than plain data: images, audio, links and embedded resources (spec 7, M10, M97)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, model_validator

from capset.errors import ToolError


def _base64(content: bytes) -> str:
    return b64encode(content).decode()


Base64 = Annotated[bytes, PlainSerializer(_base64, return_type=str)]
"""Bytes that are serialised to JSON as base64 with the standard alphabet."""


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Text(_Content):
    """Text between other content; a list may hold a plain ``str`` in its place."""

    type: Literal["text"] = "text"
    text: str


class Image(_Content):
    """An image: its bytes, and their media type, such as ``image/png``."""

    type: Literal["image"] = "image"
    data: Base64
    media_type: str


class Audio(_Content):
    """A recording: its bytes, and their media type, such as ``audio/wav``."""

    type: Literal["audio"] = "audio"
    data: Base64
    media_type: str


class Embedded(_Content):
    """A resource that is sent along: its URI, and either its ``text`` or its bytes as ``data``."""

    type: Literal["resource"] = "resource"
    uri: str
    text: str | None = None
    data: Base64 | None = None
    media_type: str | None = None

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        if (self.text is None) == (self.data is None):
            raise ValueError("an embedded resource has text or data, and not both")
        return self


class Link(_Content):
    """A link to a resource, which a client may read; ``uri`` need not be in any list."""

    type: Literal["resource_link"] = "resource_link"
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    media_type: str | None = None


Content: TypeAlias = Annotated[Text | Image | Audio | Embedded | Link, Field(discriminator="type")]
"""One piece of content. A tool returns one, or a list of them; a list may hold plain texts too."""

_CONTENT_TYPES: Final = get_args(get_args(Content)[0])
_LIST_TYPES: Final = (list, tuple, Sequence)


def is_content(annotation: Any) -> bool:  # an annotation may be any object
    """Whether every value of a type is content: one piece, or a list that may also have texts and ``None``."""
    leaves = list(_leaves(annotation))
    return any(leaf in _CONTENT_TYPES for leaf in leaves) and all(
        leaf in (*_CONTENT_TYPES, str, NoneType) for leaf in leaves
    )


def _leaves(annotation: Any) -> Iterator[Any]:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _leaves(inner[0])
    elif origin in (Union, UnionType) or origin in _LIST_TYPES:
        for argument in inner:
            if argument is not Ellipsis:
                yield from _leaves(argument)
    else:
        yield annotation


def pieces_of(data: Any) -> list[Mapping[str, Any]]:  # JSON data
    """Return the pieces of content in JSON data, in order; a plain text becomes a piece of type ``text``."""
    match data:
        case None:
            return []
        case str():
            return [{"type": "text", "text": data}]
        case list():
            return [piece for element in cast("list[Any]", data) for piece in pieces_of(element)]
        case _:
            return [data]


ABSENT: Final = object()
"""Marks an absent structure, since ``None`` is a valid one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignResult:
    """The response of a third-party server, as a handler returns it. It is passed on unchanged.

    A response that violates its protocol or schema is noted, and fails no call: the work has been done (spec 7, M96).
    """

    value: Any
    """The result for programs, as JSON; the tool's output schema describes it."""
    blocks: Sequence[Mapping[str, Any]] | None = None
    """The content for models, as MCP content blocks in JSON; ``None`` if there is only the value."""
    structured: Any = ABSENT
    """The structured content beside the blocks, as JSON."""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The metadata of the response, as JSON."""
    error: ToolError | None = None
    """The error, if the response is one."""
    misfits: Sequence[str] = ()
    """Violations of the protocol: where they are and what was expected there, without values."""
    fits_schema: bool = True
    """Whether the value matches the schema of the tool; set by the kernel."""
    note: str | None = None
    """The note to the model about an invalid response; set by the kernel."""

    def pieces(self) -> list[Mapping[str, Any]]:
        """Return the pieces of content for a model: the blocks, or else the value.

        If there is a note, the structured content and the note follow.
        """
        pieces = [piece for block in self.blocks or () if (piece := piece_of(block)).get("text") != ""]
        beside = [] if not pieces or self.structured in (ABSENT, None) else [_text(self.structured)]
        pieces = pieces or [_text(self.value)]
        return pieces if self.note is None else [*pieces, *beside, _text(f"[{self.note}]")]


def piece_of(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert an MCP content block to a piece of content. An unknown block becomes a text with its JSON."""
    match block:
        case {"type": "text", "text": str(text)}:
            return _text(text)
        case {"type": "image" | "audio" as kind, "data": str(data), "mimeType": str(media_type)}:
            return {"type": kind, "data": data, "media_type": media_type}
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text), **resource}}:
            piece = {"type": "resource", "uri": uri, "text": text, "media_type": resource.get("mimeType")}
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(data), **resource}}:
            piece = {"type": "resource", "uri": uri, "data": data, "media_type": resource.get("mimeType")}
        case {"type": "resource_link", "uri": str(uri), "name": str(name)}:
            piece = {"type": "resource_link", "uri": uri, "name": name, "media_type": block.get("mimeType")}
            piece |= {member: block.get(member) for member in ("title", "description")}
        case _:
            return _text(block)
    return {member: value for member, value in piece.items() if value is not None}


def _text(value: Any) -> Mapping[str, Any]:  # JSON
    return {"type": "text", "text": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}
