"""Checks of searchable texts: they are stored, listed, deleted, and found in order (spec 5, P30)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, Protocol

from capset.errors import StateError, StoreError
from capset.stores.base import DocumentRow, ScopeKey
from capset_testing.store_suite.support import (
    LATER,
    NOW,
    Make,
    expect,
    expect_error,
    isolated_keys,
    open_store,
    with_sessions,
)

_KEY: Final = ScopeKey("user", "acme", "ada", "memories")


def _rows(count: int) -> list[DocumentRow]:
    return [DocumentRow(f"id-{number:03}", f"text {number}", NOW) for number in range(count)]


async def a_text_comes_back_as_it_was_given(make: Make) -> None:
    """Check that any text is stored under its own key, and an id only once."""
    async with open_store(make) as store:
        texts = ("", "Grüße, 世界 🌍 \ufeff'\"%_\\", " \n ", "x" * 1_000_000)
        rows = [DocumentRow(f"id-{number}", text, LATER) for number, text in enumerate(texts)]
        for row in rows:
            await store.documents.add(_KEY, row)
            expect(await store.documents.get(_KEY, row.id), row, "the text")
        expect(await store.documents.get(_KEY, "id-9"), None, "a text that was not added")
        await expect_error(StoreError, store.documents.add(_KEY, DocumentRow("id-1", "other", NOW)), "an id twice")
        expect(await store.documents.search(_KEY, "other", limit=9), [], "the search for the refused text")
        expect(await store.documents.recent(_KEY, limit=9), rows[::-1], "the texts after all that")
        for text in ("\ud800", "a\0b"):
            await expect_error(StateError, store.documents.add(_KEY, DocumentRow("id-8", text, NOW)), f"{text!r}")
        expect(await store.documents.get(_KEY, "id-8"), None, "a text that cannot be stored")


async def a_text_is_stored_beside_known_ones_alone(make: Make) -> None:
    """Check that ``known`` prevents a write if there is an unknown text, even with concurrent writes."""
    async with open_store(make) as store:
        add, rows = store.documents.add, _rows(9)
        expect(await add(_KEY, rows[0]), True, "storing a text without conditions")
        expect(await add(_KEY, rows[1], known=set()), False, "storing a text if none is known")
        expect(await store.documents.get(_KEY, rows[1].id), None, "the text that was not stored")
        expect(await store.documents.search(_KEY, "text 1", limit=9), rows[:1], "the texts found then")
        expect(await add(_KEY, rows[1], known={rows[0].id}), True, "storing it if the other is known")
        await store.documents.delete(_KEY, rows[0].id)
        both = {rows[0].id, rows[1].id}
        expect(await add(_KEY, rows[2], known=both), True, "storing a text if a known one is gone")
        expect(await add(replace(_KEY, owner="bob"), rows[0], known=set()), True, "storing one of another owner")
        known_ids = {rows[1].id, rows[2].id}
        stored = await asyncio.gather(*[add(_KEY, row, known=known_ids) for row in rows[3:]])
        expect(sorted(stored), [*[False] * 5, True], "storing six at once")
        remaining = [rows[3:][stored.index(True)], rows[2], rows[1]]
        expect(await store.documents.recent(_KEY, limit=9), remaining, "the texts after all that")


async def texts_are_listed_newest_first(make: Make) -> None:
    """Check the order by id, regardless of the order of insertion, and pages."""
    async with open_store(make) as store:
        rows = _rows(10)
        for row in (*rows[5:], *rows[:5]):
            await store.documents.add(_KEY, row)
        newest = rows[::-1]
        recent = store.documents.recent
        expect(await recent(_KEY, limit=4), newest[:4], "the first page")
        expect(await recent(_KEY, limit=4, before=newest[3].id), newest[4:8], "the second page")
        expect(await recent(_KEY, limit=4, before=newest[7].id), newest[8:], "the last page")
        expect(await recent(_KEY, limit=4, before=rows[0].id), [], "the page after the oldest")
        expect(await recent(_KEY, limit=0), [], "a page with limit 0")
        expect(await recent(_KEY, limit=99, before="id-0035"), rows[3::-1], "the texts before a missing id")


async def a_deleted_text_is_gone(make: Make) -> None:
    """Check that it is not read, listed or found, and that its id can be used again."""
    async with open_store(make) as store:
        rows = _rows(3)
        for row in rows:
            await store.documents.add(_KEY, row)
        expect(await store.documents.delete(_KEY, "id-001"), True, "deleting a text")
        expect(await store.documents.delete(_KEY, "id-001"), False, "deleting it again")
        expect(await store.documents.get(_KEY, "id-001"), None, "the deleted text")
        expect(await store.documents.recent(_KEY, limit=9), [rows[2], rows[0]], "the remaining texts")
        expect(await store.documents.search(_KEY, "1 text", limit=9), [rows[2], rows[0]], "the texts that are found")
        new_row = DocumentRow("id-001", "new", NOW)
        await store.documents.add(_KEY, new_row)
        expect(await store.documents.search(_KEY, "1 new", limit=9), [new_row], "the new text of its id")


async def every_part_of_a_key_tells_texts_apart(make: Make) -> None:
    """Check keys that differ in one part, such as the same user id in two orgs; ids are unique per key."""
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
        matches = [await store.documents.search(key, "common", limit=9) for key in keys]
        expect(matches, [[], *[[row] for row in rows[1:]]], "what is found then")


async def a_session_takes_its_texts_with_it(make: Make) -> None:
    """Texts of other owners stay; a missing session accepts no text."""
    async with with_sessions(make, "session-1", "session-2") as store:
        keys = [ScopeKey("session", "acme", f"session-{number}", "memories") for number in (1, 2, 3)]
        for key in keys[:2]:
            for row in _rows(3):
                await store.documents.add(key, row)
        await store.sessions.delete("session-1")
        for key, expected in zip(keys, ([], _rows(3)[::-1], []), strict=True):
            expect(await store.documents.recent(key, limit=9), expected, f"the texts of {key.owner}")
            expect(await store.documents.search(key, "text", limit=9), expected, f"what is found of {key.owner}")
        for key in (keys[0], keys[2]):
            error = await expect_error(StateError, store.documents.add(key, _rows(1)[0]), f"a text for {key.owner}")
            expect(error.status, 404, "its status")


class _SearchDocuments(Protocol):
    async def __call__(self, query: str, limit: int = 99) -> list[str]:
        """Return the texts that a query finds, in order."""
        ...


@asynccontextmanager
async def _open_search(make: Make, *texts: str) -> AsyncGenerator[_SearchDocuments]:
    """Open a new store with texts, the last one the newest."""
    async with open_store(make) as store:
        for number, text in enumerate(texts):
            await store.documents.add(_KEY, DocumentRow(f"id-{number:03}", text, NOW))

        async def search(query: str, limit: int = 99) -> list[str]:
            return [row.text for row in await store.documents.search(_KEY, query, limit=limit)]

        yield search


async def a_word_finds_what_begins_with_it(make: Make) -> None:
    """Check that a query does not find words that end with it or contain it."""
    async with _open_search(make, "storm", "brainstorm", "a stormy night", "store", "the STORM-proof door") as search:
        expect(await search("storm"), ["the STORM-proof door", "a stormy night", "storm"], "what is found")
        expect(await search("sto"), ["the STORM-proof door", "store", "a stormy night", "storm"], "by a beginning")
        expect(await search("stormier"), [], "by a longer word")


async def case_marks_and_width_do_not_matter(make: Make) -> None:
    """Check texts and queries, composed and decomposed."""
    groups = (
        ("Crème brûlée", ("creme", "CRÈME", "cre\u0300me", "BRULEE", "crème")),
        ("STRASSE", ("straße", "Strasse", "STRAẞE")),
        ("Ｆｕｌｌ ｗｉｄｔｈ ４２", ("full", "width", "42")),
        ("ﬁnd the ligature", ("find", "fi")),
        ("İstanbul", ("istanbul", "ISTANBUL")),
        ("Ὀδυσσεύς ᾠδή", ("οδυσσευσ", "ΟΔΥΣΣΕΥΣ", "ωδη")),
        ("Ёлка", ("елка", "ёлка")),
        ("नमस्ते", ("नमस्ते",)),
        ("한국어를", ("한국어",)),
    )
    async with _open_search(make, *[text for text, _ in groups]) as search:
        for text, queries in groups:
            for query in queries:
                expect(await search(query), [text], f"what {query!r} finds")


async def what_has_no_spaces_is_found_by_any_part(make: Make) -> None:
    """Check Chinese, Japanese and Thai, also next to Latin letters."""
    texts = ("我喜歡喝綠茶", "東京でラーメンを食べた", "ﾗｰﾒﾝ", "用Python編程", "ฉันชอบชาเขียว", "〇と々")
    async with _open_search(make, *texts) as search:
        for query, expected in (
            ("綠茶", texts[:1]),
            ("食", (texts[1],)),
            ("ラ", (texts[2], texts[1])),
            ("python", (texts[3],)),
            ("程", (texts[3],)),
            ("ข", (texts[4],)),
            ("〇", (texts[5],)),
        ):
            expect(await search(query), list(expected), f"what {query!r} finds")


async def more_words_come_first_then_newer_texts(make: Make) -> None:
    """Check that the number of a word's occurrences in a text, or in the query, does not matter."""
    texts = ("red green blue", "red red red red", "green blue", "redder", "blue", "none of them")
    async with _open_search(make, *texts) as search:
        best = ["red green blue", "green blue", "blue", "redder", "red red red red"]
        expect(await search("red green blue"), best, "by three words")
        expect(await search("blue, green; red! RED red"), best, "by the same in another order")
        for limit in (0, 1, 2, 4):
            expect(await search("red green blue", limit), best[:limit], f"the best {limit}")
        expect(await search("r re red redd"), ["redder", "red red red red", "red green blue"], "by words within words")


async def nothing_in_a_query_is_syntax(make: Make) -> None:
    """Check that a query consists of words and separators only."""
    texts = ("alpha", "beta", "near", "not or and", "words", "rowid 5", "drop documents", "100")
    async with _open_search(make, *texts) as search:
        for query, expected in (
            ('"alpha', ["alpha"]),
            ('"alpha" "beta"', ["beta", "alpha"]),
            ("alph*", ["alpha"]),
            ("*", []),
            ("^alpha", ["alpha"]),
            ("words:beta", ["words", "beta"]),
            ("{words}: alpha", ["words", "alpha"]),
            ("alpha - beta", ["beta", "alpha"]),
            ("-alpha", ["alpha"]),
            ("alpha + beta", ["beta", "alpha"]),
            ("NEAR(alpha beta, 9)", ["near", "beta", "alpha"]),
            ("alpha NOT beta", ["not or and", "beta", "alpha"]),
            ("alpha AND beta OR near", ["not or and", "near", "beta", "alpha"]),
            ("(((", []),
            ("'; DROP TABLE documents; --", ["drop documents"]),
            ("1%", ["100"]),
            ("_lpha", []),
            ("\0alpha\0", ["alpha"]),
            ("\ud800 alpha", ["alpha"]),
            ("\\alpha\\", ["alpha"]),
        ):
            expect(await search(query), expected, f"what {query!r} finds")


async def a_query_without_words_finds_nothing(make: Make) -> None:
    """Check that it does not even find a text without words."""
    async with _open_search(make, "", "!?", "a", "🌍") as search:
        for query in ("", " ", "!?", "🌍", "\n\t", "_", "\u0301"):
            expect(await search(query), [], f"what {query!r} finds")


async def long_words_texts_and_queries_are_bounded_alike(make: Make) -> None:
    """Check the bounds of ``stores.texts``: 64 characters per word, 20,000 words per text, 32 per query."""
    long, many = "a" * 100, " ".join([f"w{number}" for number in range(20_001)])
    async with _open_search(make, long, many) as search:
        for query, expected in (
            ("a" * 64, [long]),
            ("a" * 64 + "b", [long]),
            ("a" * 63 + "b", []),
            ("w19999", [many]),
            ("w20000", []),
            (" ".join([f"x{number}" for number in range(31)]) + " w1", [many]),
            (" ".join([f"x{number}" for number in range(32)]) + " w1", []),
        ):
            expect(
                [text[:9] for text in await search(query)],
                [text[:9] for text in expected],
                f"what {query[:99]!r} finds",
            )
