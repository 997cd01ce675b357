"""Images and files in messages of front ends, stored as files of the session and parts of the turn (P95)."""

from __future__ import annotations

import mimetypes
import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from capset.errors import InvalidArguments
from capset.stores.base import SessionRow
from capset_server.auth.callers import Caller
from capset_server.rest.files import allowed_session, store_file
from capset_server.service import Service

FOLDER: Final = "/attachments"
MAX_FILES: Final = 32
"""The maximum number of files in one message."""
_NAME_LENGTH: Final = 100
"""The maximum length of a file name. Longer names keep their end."""
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+( *;.*)?", re.ASCII)
_ODD: Final = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file in a message. ``media_type`` is ``""`` if it follows from the name."""

    name: str
    media_type: str
    content: bytes

    @property
    def path(self) -> str:
        """The path among the session's files, the same for equal content under the same name."""
        return f"{FOLDER}/{sha256(self.content).hexdigest()[:12]}/{self.name}"

    @classmethod
    def of(cls, name: str, media_type: str, content: bytes) -> Attachment:
        """Return an attachment with a client's name and media type, both sanitised. Either may be empty."""
        media_type = media_type if _MEDIA_TYPE.fullmatch(media_type) else ""
        name = _ODD.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip(".")[-_NAME_LENGTH:]
        if not name:
            name = "file" + (mimetypes.guess_extension(media_type.partition(";")[0].strip()) or "")
        return cls(name, media_type, content)

    @classmethod
    def of_url(cls, url: str, name: str, media_type: str) -> Attachment:
        """Return the file in a ``data:`` URL (RFC 2397). Raises ``InvalidArguments`` for any other URL."""
        head, comma, data = url.partition(",")
        if head[:5].lower() != "data:" or not comma:
            raise InvalidArguments(
                f"a file in a message must be a data: URL with its content, since URLs are not fetched; got {url!r:.80}"
            )
        own_type, *options = head[5:].split(";")
        content = unquote_to_bytes(data)
        if options and options[-1].strip().lower() == "base64":
            content = decode_base64(content)
        return cls.of(name, media_type or own_type.strip(), content)


def decode_base64(text: str | bytes) -> bytes:
    """Decode base64. Raises ``InvalidArguments`` if ``text`` is not valid base64."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise InvalidArguments("a file in a message is not valid base64: encode its content again") from None


async def store_attachments(
    service: Service, caller: Caller, row: SessionRow, pieces: Sequence[str | Attachment]
) -> Any:  # content of a turn: JSON
    """Store a message's files in the session, and return the message as the content of a turn.

    Raises ``PermissionDenied`` unless the caller may both write and read the session's files, ``InvalidArguments`` for
    too many files, and the errors of the store for files that exceed its limits.
    """
    files = [piece for piece in pieces if isinstance(piece, Attachment)]
    if not files:
        return "\n".join(piece for piece in pieces if isinstance(piece, str))
    if len(files) > MAX_FILES:
        raise InvalidArguments(f"a message has at most {MAX_FILES} files; this one has {len(files)}")
    session = await allowed_session(service, caller, row.id, "session_files:write", "session_files:read")
    for attachment in files:
        with BytesIO(attachment.content) as file:
            await store_file(service, caller, session, attachment.path, file)
    return [_part(piece) for piece in pieces if piece]


def _part(piece: str | Attachment) -> dict[str, str]:
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    media_type = {"media_type": piece.media_type} if piece.media_type else {}
    return {"type": "file", "path": piece.path, **media_type}
