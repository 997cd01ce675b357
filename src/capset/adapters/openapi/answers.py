"""Answers of APIs: values, texts, and errors that a model can read (spec 7, M9)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final, cast

from capset.adapters.openapi.arguments import is_json
from capset.definitions.secrets import MASK
from capset.errors import ToolError, TransientError
from capset.net.media import UTF_8, codec_of, decoded, is_text, media_type_of, of_type
from capset.net.response import HttpResponse
from capset.schemas.strict_json import parse_json
from capset.schemas.validation_errors import SchemaMismatch

_EXCERPT: Final = 2_000
"""The maximum length of what is told of the body of an error, in characters."""
_ERROR_BYTES: Final = 16 * 1024
_PHRASES: Final = {one.value: one.phrase for one in HTTPStatus}
_TRANSIENT: Final = frozenset({429, 502, 503, 504})
_THREAD_FROM: Final = 64 * 1024
"""From this size on, in bytes, JSON is parsed in a thread."""
_LONG_ENOUGH: Final = 8
"""Shorter secrets are not masked: they could be part of any text."""


async def answer_of(label: str, method: str, response: HttpResponse, limit: int, secrets: Iterable[str]) -> Any:  # JSON
    """Return the answer to a call: a JSON value, a text, nothing for an empty one.

    Of ``HEAD`` it is ``status`` and ``headers``; of a body that is neither JSON nor text ``media_type`` and ``bytes``.
    Secrets in it are masked. Raises ``ToolError`` for a status of 300 and more (``http_404``), with the beginning of
    the body, ``TransientError`` if another try may succeed, ``too_large`` and ``bad_answer``.
    """
    hidden = [one for one in secrets if len(one) >= _LONG_ENOUGH]
    if response.status >= 300:
        raise await _error(label, response, hidden)
    if method == "HEAD":
        headers = {name: _masked(value, hidden) for name, value in response.headers if name != "set-cookie"}
        return {"status": response.status, "headers": headers}
    content_type = response.header("content-type") or ""
    media = media_type_of(content_type)
    length = response.header("content-length") or ""
    if media and not is_json(media) and not is_text(media):
        read = await response.read(limit)
        size = len(read.data) if read.cut is None else int(length) if length.isdigit() else None
        return {"media_type": media, "bytes": size} if read.data else None
    read = await response.read(limit)
    if read.cut is not None:
        raise ToolError(f"The answer of the {label} has more than {limit:,} bytes.", code="too_large", status=502)
    if not read.data:
        return None
    if is_json(media):
        return await _value(label, read.data, content_type, hidden)
    if not media and b"\0" in read.data:
        return {"media_type": None, "bytes": len(read.data)}
    return _masked(_text(read.data, content_type), hidden)


async def _value(label: str, data: bytes, content_type: str, hidden: list[str]) -> Any:  # JSON
    def parsed() -> Any:
        return _without(parse_json(_text(data, content_type)), hidden)

    try:
        return await asyncio.to_thread(parsed) if len(data) > _THREAD_FROM else parsed()
    except SchemaMismatch as error:
        raise ToolError(
            f"The {label} answered with what is no JSON, though it says so: {error}.", code="bad_answer", status=502
        ) from None


async def _error(label: str, response: HttpResponse, hidden: list[str]) -> ToolError:
    """Return the error of a status, with the beginning of the body."""
    content_type = response.header("content-type") or ""
    media = media_type_of(content_type)
    said = ""
    if not media or is_json(media) or is_text(media):
        read = await response.read(_ERROR_BYTES)
        text = _masked(_text(read.data, content_type, is_cut=read.cut is not None), hidden).strip()
        said = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"
    elif response.header("content-length") != "0":
        said = f"a body {of_type(media)}"
    status = response.status if 400 <= response.status <= 599 else 502
    answered = f"The {label} answered {response.status} {_PHRASES.get(response.status, '')}".rstrip()
    message = f"{answered}: {said}" if said else f"{answered}."
    code = f"http_{response.status}"
    if status not in _TRANSIENT:
        return ToolError(message, code=code, status=status)
    error = TransientError(message, code=code, status=status)
    wait = response.header("retry-after") or ""
    error.retry_after = float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 8 else None
    return error


def _text(data: bytes, content_type: str, *, is_cut: bool = False) -> str:
    return decoded(bytearray(data), codec_of(content_type, data[:4]) or UTF_8, is_cut=is_cut)


def _masked(text: str, hidden: Iterable[str]) -> str:
    for one in hidden:
        text = text.replace(one, MASK)
    return text


def _without(value: Any, hidden: list[str]) -> Any:  # JSON
    """Return a value with secrets masked in its texts; itself if there are none."""
    if not hidden:
        return value
    match value:
        case str():
            return _masked(value, hidden)
        case list():
            return [_without(one, hidden) for one in cast("list[Any]", value)]
        case dict():
            members = cast("dict[str, Any]", value)
            return {_masked(name, hidden): _without(one, hidden) for name, one in members.items()}
        case _:
            return value
