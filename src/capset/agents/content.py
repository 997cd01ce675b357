"""The content of messages to agents: text, or parts of text and of the session's files (extra ``agent``)."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, TypeAdapter, ValidationError
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequest, ModelResponse, UserContent, UserPromptPart
from pydantic_ai.messages import TextPart as ModelText
from pydantic_core import to_json

from capset.definitions.model_context import ContextMessage
from capset.errors import FileError, InvalidArguments
from capset.kernel.state.files import SessionFiles

_TEXT: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")


class TextPart(BaseModel):
    """A part that is text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["text"]
    text: str


class FilePart(BaseModel):
    """A part that is a file of the session, such as an image; ``media_type`` follows from its name if left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["file"]
    path: str
    media_type: Annotated[str, Field(pattern=r"^[\w.+-]+/[\w.+-]+( *;.*)?$")] | None = None


_PARTS: Final = TypeAdapter(list[Annotated[TextPart | FilePart, Discriminator("type")]])


async def prompt_of(content: Any, files: SessionFiles) -> str | Sequence[UserContent]:  # content is any JSON
    """Return the prompt of a turn: a text as it is, a list of parts part by part, other data as JSON.

    Raises ``InvalidArguments`` for a list of parts that does not fit, and for a file that is not there.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not _is_parts(content):
        return to_json(content).decode()
    try:
        parts = _PARTS.validate_python(content)
    except ValidationError as error:
        told = "; ".join(f"content.{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:10])
        raise InvalidArguments(f"Invalid content: {told}") from None
    return [part.text if isinstance(part, TextPart) else await _file(part, files) for part in parts]


def context_messages(messages: Iterable[ContextMessage]) -> list[ModelMessage]:
    """Return the ready-made messages of a step as pydantic-ai sends them."""
    return [
        ModelResponse(parts=[ModelText(one.content)])
        if one.role == "assistant"
        else ModelRequest(parts=[UserPromptPart(one.content)])
        for one in messages
    ]


def _is_parts(content: Any) -> bool:  # any JSON
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    return bool(parts) and all(isinstance(one, dict) and "type" in one for one in parts)


async def _file(part: FilePart, files: SessionFiles) -> UserContent:
    try:
        _, content = await files.read(part.path)
    except FileError as error:
        raise InvalidArguments(f"Invalid content: {error.message}") from None
    media_type = part.media_type or mimetypes.guess_type(part.path)[0] or "application/octet-stream"
    if media_type.startswith(_TEXT):
        return f"{part.path}:\n{content.decode(errors='replace')}"
    return BinaryContent(content, media_type=media_type)
