"""Media in results for models, stored as session files: a model reads a path, not base64 (spec 7, M10, M97)."""

from __future__ import annotations

import mimetypes
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from capset.kernel.call.session_context import SessionContext
from capset.kernel.call.truncation import RESULTS_FOLDER, store_result

_MAGIC_BYTES: Final[Mapping[str, tuple[bytes, ...]]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "audio/mpeg": (b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2"),
}
"""The leading bytes of the media types that models accept."""
_RIFF: Final[Mapping[bytes, str]] = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


class Medium(NamedTuple):
    """An image or a recording, of a type that models accept."""

    media_type: str
    data: bytes

    @property
    def is_image(self) -> bool:
        """Whether it is an image."""
        return self.media_type.startswith("image/")

    @property
    def base64(self) -> str:
        """Its bytes in base64."""
        return b64encode(self.data).decode()

    def __str__(self) -> str:
        return f"[{self.media_type}, {len(self.data):,} bytes]"


def medium_of(data: bytes) -> Medium | None:
    """Return bytes as an image or a recording, by their leading bytes; ``None`` if models do not accept the type.

    The type that a third-party server declares may be wrong, and a provider refuses a whole request for that.
    """
    if data[:4] == b"RIFF" and (media_type := _RIFF.get(data[8:12])) is not None:
        return Medium(media_type, data)
    types = (media_type for media_type, prefixes in _MAGIC_BYTES.items() if data.startswith(prefixes))
    return next((Medium(media_type, data) for media_type in types), None)


def medium_in(piece: Mapping[str, Any]) -> Medium | None:
    """Return the image or the recording in a piece of content, if models accept its type."""
    try:
        return medium_of(_decode_base64(piece.get("data") or ""))
    except ValueError:
        return None


async def media_as_files(context: SessionContext, record: str, data: Any) -> Any:  # JSON data
    """Store the media in content as session files, and return it with ``{"type": "file", "path": …}`` in their place.

    ``data`` is one piece of content or a list of them; ``record`` is the id of the call's record. Media that cannot be
    stored becomes a text that says so.
    """
    if not isinstance(data, list):
        return await _store_piece(context, f"{RESULTS_FOLDER}/{record}", data)
    pieces = cast("list[Any]", data)
    return [
        await _store_piece(context, f"{RESULTS_FOLDER}/{record}-{number}", piece)
        for number, piece in enumerate(pieces, start=1)
    ]


def content_data(pieces: Sequence[Mapping[str, Any]]) -> Any:  # JSON data
    """Return pieces of content as data for ``media_as_files``; if all are texts, they become one text."""
    if all(piece["type"] == "text" for piece in pieces):
        return "\n".join(piece["text"] for piece in pieces)
    data: list[Any] = [piece["text"] if piece["type"] == "text" else piece for piece in pieces]
    return data[0] if len(data) == 1 else data


async def _store_piece(context: SessionContext, file: str, raw_piece: Any) -> Any:  # JSON data
    """Store the bytes of one piece as ``file``, plus an extension for their type; return what replaces the piece."""
    piece: Mapping[str, Any] = cast("Mapping[str, Any]", raw_piece) if isinstance(raw_piece, Mapping) else {}
    if piece.get("data") is None:
        return cast("Any", raw_piece)
    media_type = piece.get("media_type") or "application/octet-stream"
    try:
        content = _decode_base64(piece["data"])
    except ValueError:  # one of the host's redaction patterns has masked a part of it
        return {"type": "text", "text": f"[{piece['type']}, {media_type}: masked]"}
    path = f"{file}{mimetypes.guess_extension(media_type) or ''}"
    problem = await store_result(context, path, content)
    if problem is not None:
        return {"type": "text", "text": f"[{piece['type']}, {media_type}, {len(content):,} bytes: not kept: {problem}]"}
    uri = {"uri": piece["uri"]} if "uri" in piece else {}
    return {"type": "file", "path": path, "media_type": media_type, **uri}


def _decode_base64(text: str) -> bytes:
    """Decode base64 text, which may contain line breaks. Raises ``ValueError``."""
    return b64decode("".join(text.split()), validate=True)
