"""The client's end of an event stream: signs of life while it is open, and nothing after its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import replace
from typing import Any

from capset_server.http.request_rules import RequestLimits
from capset_server.rest.calls import EventStream
from tests.waiting import moment, until


async def test_signs_of_life_end_with_the_answer() -> None:
    sent: list[bytes] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message.get("body", b""))

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        await until(lambda: b":\n\n" in sent, "a sign of life")
        yield b"last"

    await EventStream(send, replace(RequestLimits(), beat_seconds=0.05)).send_parts(parts(), receive)
    assert sent[:2] == [b"", b"first"]
    assert sent[-2:] == [b"last", b""]
    sent_count = len(sent)
    await moment(0.2)
    assert len(sent) == sent_count
