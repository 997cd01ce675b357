"""Checks of the stored replies."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from capset.stores.base import ReplyRow, SessionRow
from capset.testing.store_suite.support import LATER, NOW, Check, Make, expect, opened

_ROW: Final = ReplyRow("a", "key-1", "0" * 64, NOW)


async def a_request_is_reserved_once(make: Make) -> None:
    """Later requests get the stored row: first without, then with its reply."""
    async with opened(make) as store:
        tries = [store.replies.reserve(replace(_ROW, digest=str(number)), expired=NOW) for number in range(8)]
        found = await asyncio.gather(*tries)
        expect(len([one for one in found if one is None]), 1, "how many of eight were the first")
        (kept,) = {one for one in found if one is not None}
        expect((kept.status, kept.body), (None, None), "what is kept while it is under way")
        await store.replies.fulfil("a", "key-1", 200, '{"é": 1}')
        answered = replace(kept, status=200, body='{"é": 1}')
        expect(await store.replies.reserve(_ROW, expired=NOW), answered, "what is kept of an answer")
        for other in (replace(_ROW, session="b"), replace(_ROW, key="key-2")):
            expect(await store.replies.reserve(other, expired=NOW), None, "a request of another session or key")


async def a_request_is_forgotten_when_it_should_be(make: Make) -> None:
    """When it failed, when it is old, and with its session."""
    async with opened(make) as store:
        await store.replies.reserve(_ROW, expired=NOW)
        await store.replies.release("a", "key-1")
        expect(await store.replies.reserve(_ROW, expired=NOW), None, "a request that came to nothing before")
        expect(await store.replies.reserve(_ROW, expired=NOW), _ROW, "a request that is not old")
        later = replace(_ROW, created_at=LATER)
        expect(await store.replies.reserve(later, expired=LATER), None, "a request that was old")
        await store.sessions.create(SessionRow("a", "scribe", "{}", "1" * 64, "user-1", "user", None, NOW))
        await store.sessions.delete("a")
        expect(await store.replies.reserve(later, expired=LATER), None, "a request of a session that was deleted")


CHECKS: Final[tuple[Check, ...]] = (a_request_is_reserved_once, a_request_is_forgotten_when_it_should_be)
