"""The access log: lines are gathered for a moment, and none is lost."""

from __future__ import annotations

import asyncio
import io
import json

from capset.server.observability import logs
from capset.server.observability.logs import AccessLog


class Writes(io.BytesIO):
    """What was written, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []

    def write(self, part: bytes, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.parts.append(part)
        return len(part)


async def test_lines_of_one_moment_are_one_write() -> None:
    stream = Writes()
    log = AccessLog(stream)
    for number in range(3):
        log.put({"number": number})
    assert stream.parts == []
    await asyncio.sleep(2 * logs.FLUSH_SECONDS)
    log.put({"number": 3})
    await asyncio.sleep(2 * logs.FLUSH_SECONDS)
    written = [[json.loads(line)["number"] for line in part.splitlines()] for part in stream.parts]
    assert written == [[0, 1, 2], [3]]
