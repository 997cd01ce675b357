"""Checks of the searchable texts: stored, listed, deleted (spec 5, P30)."""

from __future__ import annotations

from typing import Final

from capset.errors import StateError, StoreError
from capset.stores.base import DocumentRow, ScopeKey
from capset.testing.store_suite.support import (
    LATER,
    NOW,
    Check,
    Make,
    expect,
    expect_error,
    isolated_keys,
    opened,
    with_sessions,
)

_KEY: Final = ScopeKey("user", "acme", "ada", "memories")


def _rows(count: int) -> list[DocumentRow]:
    return [DocumentRow(f"id-{number:03}", f"text {number}", NOW) for number in range(count)]


async def a_text_comes_back_as_it_was_given(make: Make) -> None:
    """Any text, under its own key, and once only."""
    async with opened(make) as store:
        texts = ("", "Grüße, 世界 🌍 \ufeff'\"%_\\", " \n ", "x" * 1_000_000)
        rows = [DocumentRow(f"id-{number}", text, LATER) for number, text in enumerate(texts)]
        for row in rows:
            await store.documents.add(_KEY, row)
            expect(await store.documents.get(_KEY, row.id), row, "the text")
        expect(await store.documents.get(_KEY, "id-9"), None, "a text that no one added")
        await expect_error(StoreError, store.documents.add(_KEY, DocumentRow("id-1", "other", NOW)), "an id twice")
        expect(await store.documents.search(_KEY, "other", limit=9), [], "what is found of the refused text")
        expect(await store.documents.recent(_KEY, limit=9), rows[::-1], "the texts after all that")
        for text in ("\ud800", "a\0b"):
            await expect_error(StateError, store.documents.add(_KEY, DocumentRow("id-8", text, NOW)), f"{text!r}")
        expect(await store.documents.get(_KEY, "id-8"), None, "a text that no database keeps")


async def texts_are_listed_newest_first(make: Make) -> None:
    """By their ids, in any order of insertion; page by page."""
    async with opened(make) as store:
        rows = _rows(10)
        for row in (*rows[5:], *rows[:5]):
            await store.documents.add(_KEY, row)
        newest = rows[::-1]
        recent = store.documents.recent
        expect(await recent(_KEY, limit=4), newest[:4], "the first page")
        expect(await recent(_KEY, limit=4, before=newest[3].id), newest[4:8], "the second page")
        expect(await recent(_KEY, limit=4, before=newest[7].id), newest[8:], "the last page")
        expect(await recent(_KEY, limit=4, before=rows[0].id), [], "what follows the oldest")
        expect(await recent(_KEY, limit=0), [], "a page of nothing")
        expect(await recent(_KEY, limit=99, before="id-0035"), rows[3::-1], "those before an id that is not there")


async def a_deleted_text_is_gone(make: Make) -> None:
    """Not read, not listed, not found; its id can be used again."""
    async with opened(make) as store:
        rows = _rows(3)
        for row in rows:
            await store.documents.add(_KEY, row)
        expect(await store.documents.delete(_KEY, "id-001"), True, "deleting a text")
        expect(await store.documents.delete(_KEY, "id-001"), False, "deleting it again")
        expect(await store.documents.get(_KEY, "id-001"), None, "the deleted text")
        expect(await store.documents.recent(_KEY, limit=9), [rows[2], rows[0]], "the texts that are left")
        expect(await store.documents.search(_KEY, "1 text", limit=9), [rows[2], rows[0]], "those that are found")
        again = DocumentRow("id-001", "new", NOW)
        await store.documents.add(_KEY, again)
        expect(await store.documents.search(_KEY, "1 new", limit=9), [again], "the new text of its id")


async def every_part_of_a_key_tells_texts_apart(make: Make) -> None:
    """Two orgs with a user of the same id cannot find each other's; ids are unique within one key only."""
    async with with_sessions(make, "ada") as store:
        keys = isolated_keys("ada")
        rows = [DocumentRow("id-1", f"common own{number}", NOW) for number in range(len(keys))]
        for key, row in zip(keys, rows, strict=True):
            await store.documents.add(key, row)
        for key, row in zip(keys, rows, strict=True):
            expect(await store.documents.get(key, "id-1"), row, f"the text of {key}")
            expect(await store.documents.recent(key, limit=9), [row], f"the texts of {key}")
            expect(await store.documents.search(key, "common", limit=9), [row], f"what is found in {key}")
        expect(await store.documents.delete(keys[0], "id-1"), True, "deleting one")
        left = [await store.documents.search(key, "common", limit=9) for key in keys]
        expect(left, [[], *[[row] for row in rows[1:]]], "what is found then")


async def a_session_takes_its_texts_with_it(make: Make) -> None:
    """Texts of others stay; a missing session accepts no text."""
    async with with_sessions(make, "session-1", "session-2") as store:
        keys = [ScopeKey("session", "acme", f"session-{number}", "memories") for number in (1, 2, 3)]
        for key in keys[:2]:
            for row in _rows(3):
                await store.documents.add(key, row)
        await store.sessions.delete("session-1")
        for key, left in zip(keys, ([], _rows(3)[::-1], []), strict=True):
            expect(await store.documents.recent(key, limit=9), left, f"the texts of {key.owner}")
            expect(await store.documents.search(key, "text", limit=9), left, f"what is found of {key.owner}")
        for key in (keys[0], keys[2]):
            error = await expect_error(StateError, store.documents.add(key, _rows(1)[0]), f"a text for {key.owner}")
            expect(error.status, 404, "its status")


CHECKS: Final[tuple[Check, ...]] = (
    a_text_comes_back_as_it_was_given,
    texts_are_listed_newest_first,
    a_deleted_text_is_gone,
    every_part_of_a_key_tells_texts_apart,
    a_session_takes_its_texts_with_it,
)
