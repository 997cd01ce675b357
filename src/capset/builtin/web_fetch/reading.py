"""Reads a body within its time and its size, and no further than it takes to see that it is binary."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Literal

from capset import ToolError
from capset.builtin.web_fetch.kinds import SAMPLE, Kind, kind_by_look, kind_by_type
from capset.ext import HttpResponse

Cut = Literal["time", "size", "broken", "coding"]
"""Why a body is not whole: its time was up, it is too large, its connection broke off, or its coding is broken."""
_AT_ONCE: Final = 256
"""After so many pieces others have their turn, and the deadline its say: tiny ones come thousands at a time."""


@dataclass(slots=True)
class Reading:
    """What was read, its content coding undone; of binary nothing, unless it was over before that could be seen."""

    kind: Kind
    data: bytearray = field(default_factory=bytearray)
    cut: Cut | None = None
    is_whole: bool = True


async def read_body(response: HttpResponse, media_type: str, *, limit: int, seconds: float) -> Reading:
    """Read at most ``limit`` bytes, in at most so many seconds; what is cut is no error.

    Raises ``ToolError`` (``bad_encoding``) where nothing of the body can be decoded.
    """
    data, kind, cut, pieces = bytearray(), kind_by_type(media_type), None, 0
    if kind == "binary":
        return Reading("binary", is_whole=False)
    scope = asyncio.timeout(seconds)
    try:
        async with scope, aclosing(response.chunks()) as chunks:
            async for piece in chunks:
                data += piece
                if kind is None and len(data) >= SAMPLE:
                    kind = kind_by_look(bytes(data[:SAMPLE]), media_type)
                    if kind == "binary":
                        return Reading("binary", is_whole=False)
                if len(data) > limit:
                    del data[limit:]
                    cut = "size"
                    break
                pieces += 1
                if pieces % _AT_ONCE == 0:
                    await asyncio.sleep(0)
    except TimeoutError:
        if not scope.expired():
            raise
        cut = "time"
    except ToolError as error:
        if error.code == "bad_encoding" and not data:
            raise
        cut = "coding" if error.code == "bad_encoding" else "broken"
    return Reading(kind or kind_by_look(bytes(data[:SAMPLE]), media_type), data, cut, is_whole=cut is None)
