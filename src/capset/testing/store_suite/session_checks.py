"""The sessions."""

from __future__ import annotations

from typing import Final

from capset.errors import StoreError
from capset.stores.base import SessionRow
from capset.testing.store_suite.support import NOW, Check, Make, expect, expect_error, opened


def _row(id: str, org: str | None = None) -> SessionRow:
    return SessionRow(id, "scribe", '{"name":"scribe"}', "1" * 64, "user-1", "user", org, NOW)


async def a_session_comes_back_as_it_was_given(make: Make) -> None:
    """With an org and without."""
    async with opened(make) as store:
        await store.sessions.create(_row("a"))
        await store.sessions.create(_row("b", org="acme"))
        expect(await store.sessions.get("a"), _row("a"), "the session without an org")
        expect(await store.sessions.get("b"), _row("b", org="acme"), "the session with an org")
        expect(await store.sessions.get("c"), None, "a session that nobody made")


async def a_second_session_of_an_id_is_refused(make: Make) -> None:
    """Leave the first one as it is."""
    async with opened(make) as store:
        await store.sessions.create(_row("a"))
        await expect_error(StoreError, store.sessions.create(_row("a", org="acme")), "a second session of an id")
        expect(await store.sessions.get("a"), _row("a"), "the first session")


CHECKS: Final[tuple[Check, ...]] = (a_session_comes_back_as_it_was_given, a_second_session_of_an_id_is_refused)
