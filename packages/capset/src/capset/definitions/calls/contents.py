"""Content of results beside plain data: images, audio, links and embedded resources (spec 7, M10, M97)."""

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
"""Bytes that are written in JSON as base64 with the standard alphabet."""


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

_KINDS: Final = (Text, Image, Audio, Embedded, Link)
_LISTS: Final = (list, tuple, Sequence)


def is_content(annotation: Any) -> bool:  # an annotation may be any object
    """Whether all values of a type are content: one piece, or a list of pieces, among them texts and ``None``."""
    leaves = list(_leaves(annotation))
    return any(leaf in _KINDS for leaf in leaves) and all(leaf in (*_KINDS, str, NoneType) for leaf in leaves)


def _leaves(annotation: Any) -> Iterator[Any]:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _leaves(inner[0])
    elif origin in (Union, UnionType) or origin in _LISTS:
        for argument in inner:
            if argument is not Ellipsis:
                yield from _leaves(argument)
    else:
        yield annotation


def pieces_of(data: Any) -> list[Mapping[str, Any]]:  # JSON data
    """Return the pieces in the JSON data of such a value, in order; a plain text is one of type ``text``."""
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
"""In the place of a structure where there is none; ``None`` is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignResult:
    """The answer of a server of others, as a handler returns it. It is passed on as it came.

    An answer that does not fit is noted and fails no call: what was done is done (spec 7, M96).
    """

    value: Any
    """JSON for programs, which the schema of the tool is about."""
    blocks: Sequence[Mapping[str, Any]] | None = None
    """What models read, as MCP's blocks of content, JSON; ``None`` if the value is all that there is."""
    structured: Any = ABSENT
    """The structure beside the blocks, JSON."""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The metadata of the answer, JSON."""
    error: ToolError | None = None
    """The error that the answer is, if it is one."""
    misfits: Sequence[str] = ()
    """How it does not fit its protocol: the places and what was expected there, without values."""
    fits_schema: bool = True
    """Whether the value fits the schema of the tool. The kernel looks."""
    note: str | None = None
    """What a model is told of a result that does not fit. The kernel writes it."""

    def pieces(self) -> list[Mapping[str, Any]]:
        """Return what a model reads, as pieces of content: the blocks, or else the value.

        If the result does not fit, the structure and the note follow.
        """
        pieces = [piece for block in self.blocks or () if (piece := piece_of(block)).get("text") != ""]
        beside = [] if not pieces or self.structured in (ABSENT, None) else [_text(self.structured)]
        pieces = pieces or [_text(self.value)]
        return pieces if self.note is None else [*pieces, *beside, _text(f"[{self.note}]")]


def piece_of(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a block of content, as MCP writes it, as a piece of content. What is none becomes its JSON as a text."""
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
