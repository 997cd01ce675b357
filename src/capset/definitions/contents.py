"""Content of results beside plain data: images, audio, links and embedded resources (spec 7, M10)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, model_validator


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
        for one in inner:
            if one is not Ellipsis:
                yield from _leaves(one)
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
            return [piece for one in cast("list[Any]", data) for piece in pieces_of(one)]
        case _:
            return [data]
