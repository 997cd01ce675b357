"""The content of messages to agents: text, or parts of text and of the session's files (extra ``agent``)."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, TypeAdapter, ValidationError
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequest, ModelResponse, UserContent, UserPromptPart
from pydantic_ai.messages import TextPart as ModelText
from pydantic_core import to_json

from capset.definitions.model_context import ContextMessage
from capset.errors import FileError, InvalidArguments, PermissionDenied
from capset.kernel.state.files import SessionFiles

MAX_FILES: Final = 16 * 2**20
"""Bytes of files in one message: as many as a message may have when its files are sent with it."""
READ_FILES: Final = "session_files:read"
"""The permission to read the files of a session, over REST and by the file tools; a message gives a model no others."""
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


async def prompt_of(
    content: Any, files: SessionFiles, permissions: AbstractSet[str]
) -> str | Sequence[UserContent]:  # content is any JSON
    """Return the prompt of a turn: a text as it is, a list of parts part by part, other data as JSON.

    ``permissions`` are those of the sender. Raises ``PermissionDenied`` for a file, whether or not it is there, if the
    sender may not read the session's files, and ``InvalidArguments`` for a list of parts that does not fit, for a file
    that is not there, and for files of more than ``MAX_FILES`` bytes in all.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not _is_parts(content):
        return to_json(content).decode()
    try:
        parts = _PARTS.validate_python(content)
    except ValidationError as error:
        problems = "; ".join(
            f"content.{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()[:10]
        )
        raise InvalidArguments(f"Invalid content: {problems}") from None
    if READ_FILES not in permissions and any(isinstance(part, FilePart) for part in parts):
        raise PermissionDenied(f"Permission denied: to send a file of the session needs the permission {READ_FILES}")
    prompt: list[UserContent] = []
    remaining = MAX_FILES
    for part in parts:
        if isinstance(part, TextPart):
            prompt.append(part.text)
            continue
        content = await _read(part.path, files, remaining)
        remaining -= len(content)
        prompt.append(_content_of(part, content))
    return prompt


def context_messages(messages: Iterable[ContextMessage]) -> list[ModelMessage]:
    """Return the ready-made messages of a step as pydantic-ai sends them."""
    return [
        ModelResponse(parts=[ModelText(message.content)])
        if message.role == "assistant"
        else ModelRequest(parts=[UserPromptPart(message.content)])
        for message in messages
    ]


def _is_parts(content: Any) -> bool:  # any JSON
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    return bool(parts) and all(isinstance(part, dict) and "type" in part for part in parts)


async def _read(path: str, files: SessionFiles, limit: int) -> bytes:
    try:
        file, content = await files.read(path, size=limit + 1)
    except FileError as error:
        raise InvalidArguments(f"Invalid content: {error.message}") from None
    if file.size_bytes > limit:
        raise InvalidArguments(
            f"Invalid content: the files of a message have at most {MAX_FILES} bytes in all; with {path!r}, which has "
            f"{file.size_bytes}, it has more"
        )
    return content


def _content_of(part: FilePart, content: bytes) -> UserContent:
    media_type = part.media_type or mimetypes.guess_type(part.path)[0] or "application/octet-stream"
    if media_type.startswith(_TEXT):
        return f"{part.path}:\n{content.decode(errors='replace')}"
    return BinaryContent(content, media_type=media_type)
