"""Words, and that every store finds the same by them (spec 5, P30)."""

from __future__ import annotations

import asyncio
import sys
import unicodedata
from collections.abc import Generator
from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset.errors import StateError
from capset.stores.base import DocumentRow, ScopeKey, Store, make_store
from capset.stores.sql import open_postgres
from capset.stores.texts import MAX_QUERY_WORDS, MAX_WORD_CHARACTERS, MAX_WORDS, query_terms, rank, storable, words
from capset_testing.store_suite.support import NOW
from tests.databases import Server

# Few letters, so that words meet; marks, cases and scripts; what would be syntax elsewhere; and anything.
PIECES = st.sampled_from(
    [
        *"abAB01 \t\n\"'*^:()+-{}_%\\,.",
        *"éÉßẞſıİΣςσ\u0301\u0345\u0e34ᾳ",
        *"日本語カガｶﾞー〇々ไทย한글",
        "NEAR",
        " OR ",
        " NOT ",
    ]
)
TEXTS = st.lists(PIECES | st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12).map("".join)
numbers = count()


@dataclass
class Trio:
    """A store in memory, one in a file, and one on a server."""

    runner: asyncio.Runner
    stores: tuple[Store, Store, Store]


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Generator[Trio]:
    file = tmp_path_factory.mktemp("words") / "a.db"
    with postgres.database() as url, asyncio.Runner() as runner:
        opened_trio = Trio(runner, (make_store("memory://"), make_store(f"sqlite:///{file}"), open_postgres(url)))
        for store in opened_trio.stores:
            runner.run(store.open())
        yield opened_trio
        for store in opened_trio.stores:
            runner.run(store.close())


@pytest.mark.nightly
@pytest.mark.spec("P30")
@settings(max_examples=250, deadline=None)
@given(st.lists(TEXTS, max_size=6), st.lists(TEXTS, min_size=1, max_size=4), st.integers(0, 7), st.data())
def test_stores_find_the_same(
    trio: Trio, texts: list[str], queries: list[str], limit: int, data: st.DataObject
) -> None:
    key = ScopeKey("org", None, f"org-{next(numbers)}", "texts")
    rows = [DocumentRow(f"id-{number}", text, NOW) for number, text in enumerate(texts)]
    gone = data.draw(st.sets(st.sampled_from([row.id for row in rows]))) if rows else set[str]()

    async def found_in(store: Store) -> list[list[DocumentRow]]:
        await asyncio.gather(*[store.documents.add(key, row) for row in rows])
        await asyncio.gather(*[store.documents.delete(key, row_id) for row_id in gone])
        return [await store.documents.search(key, query, limit=limit) for query in queries]

    in_memory, in_file, on_server = [trio.runner.run(found_in(store)) for store in trio.stores]
    assert in_memory == in_file == on_server
    remaining = {row.id: sorted(set(words(row.text))) for row in rows if row.id not in gone}
    assert [[row.id for row in matches] for matches in in_file] == [rank(query, remaining, limit) for query in queries]


@settings(deadline=None)
@given(st.text() | TEXTS)
def test_words_are_made_of_letters_and_digits_and_stay_as_they_are(text: str) -> None:
    tokens = words(text)
    assert all(word.isalnum() and len(word) <= MAX_WORD_CHARACTERS for word in tokens)
    assert words(" ".join(tokens)) == tokens
    assert len(query_terms(text)) == len(set(query_terms(text))) <= MAX_QUERY_WORDS


@pytest.mark.nightly
def test_every_letter_and_digit_can_be_found() -> None:
    def has_any(text: str) -> bool:  # a few Arabic letters are nothing but marks
        return any(unicodedata.category(character)[0] in "LN" for character in unicodedata.normalize("NFKD", text))

    assert [
        character for character in map(chr, range(sys.maxunicode + 1)) if has_any(character) != bool(words(character))
    ] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's 3.14, isn't it?", ["it", "s", "3", "14", "isn", "t", "it"]),
        ("snake_case kebab-case", ["snake", "case", "kebab", "case"]),
        ("Ärger STRASSE ﬁ ²", ["arger", "strasse", "fi", "2"]),
        ("東京2024へ", ["東", "京", "2024", "へ"]),
        ("ｶﾞ・ガ", ["カ", "カ"]),
        ("e\u0301\u0302\u0303", ["e"]),
        ("\u0301 _ 🌍 \ud800", []),
    ],
)
def test_texts_become_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_a_text_gives_so_many_words_at_most() -> None:
    assert len(words("a " * (MAX_WORDS + 1))) == MAX_WORDS
    assert words("x" * 1000) == ["x" * MAX_WORD_CHARACTERS]


@pytest.mark.parametrize(("text", "why"), [("a\0b", "NUL"), ("a\ud800b", "surrogate")])
def test_a_text_that_no_database_keeps_is_refused_by_name(text: str, why: str) -> None:
    assert storable("Ünïcode 🎉", "the title") == "Ünïcode 🎉"
    with pytest.raises(StateError, match=f"the title contains .*{why}"):
        storable(text, "the title")
