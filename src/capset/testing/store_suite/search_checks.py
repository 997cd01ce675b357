"""Checks of search results and their order (spec 5, P30)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from capset.stores.base import DocumentRow, ScopeKey
from capset.testing.store_suite.support import NOW, Check, Make, expect, opened

_KEY: Final = ScopeKey("user", "acme", "ada", "memories")


class _Find(Protocol):
    async def __call__(self, query: str, limit: int = 99) -> list[str]:
        """Return the texts that a query finds, in order."""
        ...


@asynccontextmanager
async def _shelf(make: Make, *texts: str) -> AsyncGenerator[_Find]:
    """Open a new store with texts, the last one the newest."""
    async with opened(make) as store:
        for number, text in enumerate(texts):
            await store.documents.add(_KEY, DocumentRow(f"id-{number:03}", text, NOW))

        async def find(query: str, limit: int = 99) -> list[str]:
            return [row.text for row in await store.documents.search(_KEY, query, limit=limit)]

        yield find


async def a_word_finds_what_begins_with_it(make: Make) -> None:
    """Not a text whose word ends with it or contains it."""
    async with _shelf(make, "storm", "brainstorm", "a stormy night", "store", "the STORM-proof door") as find:
        expect(await find("storm"), ["the STORM-proof door", "a stormy night", "storm"], "what is found")
        expect(await find("sto"), ["the STORM-proof door", "store", "a stormy night", "storm"], "by a beginning")
        expect(await find("stormier"), [], "by a longer word")


async def case_marks_and_width_do_not_matter(make: Make) -> None:
    """In texts and in queries; composed or decomposed."""
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
    async with _shelf(make, *[text for text, _ in groups]) as find:
        for text, queries in groups:
            for query in queries:
                expect(await find(query), [text], f"what {query!r} finds")


async def what_has_no_spaces_is_found_by_any_part(make: Make) -> None:
    """Chinese, Japanese and Thai; also beside Latin letters."""
    texts = ("我喜歡喝綠茶", "東京でラーメンを食べた", "ﾗｰﾒﾝ", "用Python編程", "ฉันชอบชาเขียว", "〇と々")
    async with _shelf(make, *texts) as find:
        for query, found in (
            ("綠茶", texts[:1]),
            ("食", (texts[1],)),
            ("ラ", (texts[2], texts[1])),
            ("python", (texts[3],)),
            ("程", (texts[3],)),
            ("ข", (texts[4],)),
            ("〇", (texts[5],)),
        ):
            expect(await find(query), list(found), f"what {query!r} finds")


async def more_words_come_first_then_newer_texts(make: Make) -> None:
    """Check that the number of a word's occurrences in a text, or in the query, does not matter."""
    texts = ("red green blue", "red red red red", "green blue", "redder", "blue", "none of them")
    async with _shelf(make, *texts) as find:
        best = ["red green blue", "green blue", "blue", "redder", "red red red red"]
        expect(await find("red green blue"), best, "by three words")
        expect(await find("blue, green; red! RED red"), best, "by the same in another order")
        for limit in (0, 1, 2, 4):
            expect(await find("red green blue", limit), best[:limit], f"the best {limit}")
        expect(await find("r re red redd"), ["redder", "red red red red", "red green blue"], "by words within words")


async def nothing_in_a_query_is_syntax(make: Make) -> None:
    """Any query consists of words and separators only."""
    texts = ("alpha", "beta", "near", "not or and", "words", "rowid 5", "drop documents", "100")
    async with _shelf(make, *texts) as find:
        for query, found in (
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
            expect(await find(query), found, f"what {query!r} finds")


async def a_query_without_words_finds_nothing(make: Make) -> None:
    """Not even a text without words."""
    async with _shelf(make, "", "!?", "a", "🌍") as find:
        for query in ("", " ", "!?", "🌍", "\n\t", "_", "\u0301"):
            expect(await find(query), [], f"what {query!r} finds")


async def long_words_texts_and_queries_are_bounded_alike(make: Make) -> None:
    """By the bounds of ``stores.texts``: 64 characters, 20,000 words of a text, 32 of a query."""
    long, many = "a" * 100, " ".join([f"w{number}" for number in range(20_001)])
    async with _shelf(make, long, many) as find:
        for query, found in (
            ("a" * 64, [long]),
            ("a" * 64 + "b", [long]),
            ("a" * 63 + "b", []),
            ("w19999", [many]),
            ("w20000", []),
            (" ".join([f"x{number}" for number in range(31)]) + " w1", [many]),
            (" ".join([f"x{number}" for number in range(32)]) + " w1", []),
        ):
            expect([text[:9] for text in await find(query)], [text[:9] for text in found], f"what {query[:99]!r} finds")


CHECKS: Final[tuple[Check, ...]] = (
    a_word_finds_what_begins_with_it,
    case_marks_and_width_do_not_matter,
    what_has_no_spaces_is_found_by_any_part,
    more_words_come_first_then_newer_texts,
    nothing_in_a_query_is_syntax,
    a_query_without_words_finds_nothing,
    long_words_texts_and_queries_are_bounded_alike,
)
