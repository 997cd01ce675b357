"""Descriptions whose words come in another order: a change, unless the host says that it is none (spec 7, M95)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.errors import PermissionDenied
from capset_connect.pins.offers import hash_of
from capset_connect.pins.tool_pins import standings
from tests.helpers.connect.mcp.opening import offers_of, opened
from tests.helpers.connect.mcp.raw import ECHO, raw
from tests.helpers.connect.mcp.urls import declared, serving

WORDS = st.lists(st.sampled_from(["send", "delete", "'a'", "{'b'}", ",", "never", "Größe", "\u200b"]), min_size=1)


def described(text: str, *, of_argument: str = "A word.") -> dict[str, Any]:
    properties = {"word": {"type": "string", "description": of_argument, "enum": ["a", "b"]}}
    return {**ECHO, "description": text, "inputSchema": {"type": "object", "properties": properties}}


@pytest.mark.spec("M95")
@given(words=WORDS, data=st.data())
def test_only_the_order_of_words_in_descriptions_may_differ(words: list[str], data: st.DataObject) -> None:
    text, shuffled = " ".join(words), " ".join(data.draw(st.permutations(words)))
    tool, other = described(text, of_argument=text), described(shuffled, of_argument=shuffled)
    assert hash_of(tool, ignores_word_order=True) == hash_of(other, ignores_word_order=True)
    assert (hash_of(tool) == hash_of(other)) == (text == shuffled)
    assert hash_of(tool, ignores_word_order=True) != hash_of(tool)


@pytest.mark.spec("M95")
@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"description": "One of: a, b."}, {"description": "One of: a b."}),
        ({"description": "One of: a, b."}, {"description": "One of: a, b, b."}),
        ({"title": "a b"}, {"title": "b a"}),
        ({"_meta": {"description": "a b"}}, {"_meta": {"description": "b a"}}),
        ({"inputSchema": {"enum": ["a", "b"]}}, {"inputSchema": {"enum": ["b", "a"]}}),
        ({"inputSchema": {"default": {"description": "a b"}}}, {"inputSchema": {"default": {"description": "b a"}}}),
    ],
)
def test_other_words_and_the_order_of_everything_else_count(before: dict[str, Any], now: dict[str, Any]) -> None:
    assert hash_of(before, ignores_word_order=True) != hash_of(now, ignores_word_order=True)


@pytest.mark.spec("M95", "M5")
async def test_the_host_says_that_the_order_does_not_count(tmp_path: Path) -> None:
    store, tools = f"sqlite:///{tmp_path / 'capset.db'}", [described("One of: {'a', 'b'}.")]
    async with serving(raw(tools=tools)) as upstream:
        strict, lenient = declared(upstream), declared(upstream, ignore_word_order=True)
        async with opened(strict, store) as site:
            assert await site.call("books_echo", word="a") == "done"
            pins = await site.kernel.store.pins.list()
        tools[0] = described("One of: {'b', 'a'}.")
        async with opened(strict, store) as site:
            with pytest.raises(PermissionDenied, match="describes its tool 'echo'"):
                await site.call("books_echo", word="a")
        async with opened(lenient, store) as site:
            assert site.tool("books_echo").description == "One of: {'a', 'b'}.", "the model reads what was approved"
            assert await site.call("books_echo", word="a") == "done"
        (standing,) = standings(pins, (await offers_of(lenient)).values())
        assert standing.state == "approved"
        tools[0] = described("One of: {'b', 'a', 'c'}.")
        async with opened(lenient, store) as site:
            with pytest.raises(PermissionDenied, match="describes its tool 'echo'"):
                await site.call("books_echo", word="a")


@pytest.mark.spec("M95")
async def test_what_was_approved_in_any_order_is_a_pin_like_any_other() -> None:
    tools = [described("One of: {'a', 'b'}.")]
    async with serving(raw(tools=tools)) as upstream:
        async with opened(declared(upstream, ignore_word_order=True)) as site:
            (pin,) = await site.kernel.store.pins.list()
            assert await site.call("books_echo", word="a") == "done"
        (offer,) = (await offers_of(declared(upstream))).values()
    assert pin.hash == offer.hash, "also for a host that counts the order"
