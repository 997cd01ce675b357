"""The content of messages to agents: text, or a list of text and file parts (extra ``agent``)."""

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

MAX_FILE_BYTES: Final = 16 * 2**20
"""The maximum total size of the files of one message, in bytes. The same limit holds for files sent with a message."""
READ_FILES_PERMISSION: Final = "session_files:read"
"""The permission to read a session's files over REST and with the file tools; file parts of messages require it too."""
_TEXT_MEDIA_TYPES: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")


class TextPart(BaseModel):
    """A text part."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["text"]
    text: str


class FilePart(BaseModel):
    """A file of the session, such as an image. By default, ``media_type`` is guessed from the file name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["file"]
    path: str
    media_type: Annotated[str, Field(pattern=r"^[\w.+-]+/[\w.+-]+( *;.*)?$")] | None = None


_PARTS: Final = TypeAdapter(list[Annotated[TextPart | FilePart, Discriminator("type")]])


async def prompt_of(
    content: Any, files: SessionFiles, permissions: AbstractSet[str]
) -> str | Sequence[UserContent]:  # content is any JSON
    """Return the prompt of a turn: text unchanged, a list of parts part by part, other data as JSON.

    ``permissions`` are the sender's. Raises ``PermissionDenied`` for a file part, whether or not the file exists, if
    the sender may not read the session's files. Raises ``InvalidArguments`` for an invalid list of parts, a missing
    file, or files of more than ``MAX_FILE_BYTES`` bytes in total.
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
    if READ_FILES_PERMISSION not in permissions and any(isinstance(part, FilePart) for part in parts):
        raise PermissionDenied(
            f"Permission denied: sending a file of the session requires the permission {READ_FILES_PERMISSION}"
        )
    prompt: list[UserContent] = []
    remaining = MAX_FILE_BYTES
    for part in parts:
        if isinstance(part, TextPart):
            prompt.append(part.text)
            continue
        content = await _read_file(part.path, files, remaining)
        remaining -= len(content)
        prompt.append(_content_of(part, content))
    return prompt


def context_messages(messages: Iterable[ContextMessage]) -> list[ModelMessage]:
    """Convert the context messages of a step to pydantic-ai's messages."""
    return [
        ModelResponse(parts=[ModelText(message.content)])
        if message.role == "assistant"
        else ModelRequest(parts=[UserPromptPart(message.content)])
        for message in messages
    ]


def _is_parts(content: Any) -> bool:  # any JSON
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    return bool(parts) and all(isinstance(part, dict) and "type" in part for part in parts)


async def _read_file(path: str, files: SessionFiles, limit: int) -> bytes:
    try:
        file, content = await files.read(path, size=limit + 1)
    except FileError as error:
        raise InvalidArguments(f"Invalid content: {error.message}") from None
    if file.size_bytes > limit:
        raise InvalidArguments(
            f"Invalid content: the files of a message may have at most {MAX_FILE_BYTES} bytes in total; {path!r}, with "
            f"{file.size_bytes} bytes, does not fit"
        )
    return content


def _content_of(part: FilePart, content: bytes) -> UserContent:
    media_type = part.media_type or mimetypes.guess_type(part.path)[0] or "application/octet-stream"
    if media_type.startswith(_TEXT_MEDIA_TYPES):
        return f"{part.path}:\n{content.decode(errors='replace')}"
    return BinaryContent(content, media_type=media_type)
