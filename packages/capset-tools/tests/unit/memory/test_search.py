from __future__ import annotations

import pytest

from capset_testing import session_for
from capset_tools.memory import memory
from tests.helpers.tools.memory.support import BOTH, recall, remember

TEXTS = {
    "english": "The user prefers dark roast coffee.",
    "german": "Die Straße vor dem Haus wird im März gesperrt.",
    "french": "Le café de la gare ferme à midi.",
    "greek": "Ο Οδυσσεύς μένει στην Ιθάκη.",
    "russian": "Ёлка стоит в углу.",
    "arabic": "يفضل المستخدم الشاي الأخضر",
    "hindi": "उपयोगकर्ता को चाय पसंद है",
    "korean": "사용자는 녹차를 좋아한다",
    "japanese": "東京でラーメンを食べた",
    "chinese": "我喜歡喝綠茶",
    "thai": "ฉันชอบชาเขียว",
}


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("COFFEE", "english"),
        ("roas", "english"),
        ("strasse", "german"),
        ("marz", "german"),
        ("CAFE", "french"),
        ("ιθακη", "greek"),
        ("елка", "russian"),
        ("الشاي", "arabic"),
        ("चाय", "hindi"),
        ("녹차", "korean"),
        ("ラーメン", "japanese"),
        ("綠茶", "chinese"),
        ("เขียว", "thai"),
    ],
)
async def test_memories_are_found_in_their_own_language(query: str, language: str) -> None:
    async with session_for(memory, permissions=BOTH) as desk:
        await remember(desk.session, memory, *TEXTS.values())
        assert (await recall(desk.session, memory, query))[0] == TEXTS[language]


async def test_the_memory_with_the_most_words_comes_first_then_the_newer() -> None:
    async with session_for(memory, permissions=BOTH) as desk:
        await remember(desk.session, memory, "green tea at noon", "green tea", "green apples", "nothing like it")
        recalled = await recall(desk.session, memory, "noon tea, green")
    assert recalled == ["green tea at noon", "green tea", "green apples"]


@pytest.mark.parametrize("query", ["🍵", "???", 'coffee machine*" OR 1=1 --'.replace("coffee machine", "")])
async def test_a_query_that_says_nothing_finds_nothing(query: str) -> None:
    async with session_for(memory, permissions=BOTH) as desk:
        await remember(desk.session, memory, "coffee")
        assert await recall(desk.session, memory, query) == []
