from __future__ import annotations

from typing import Any

import pytest

from capset.errors import InvalidArguments, PermissionDenied, StateError, ToolError
from capset_testing import session_for
from capset_tools.memory import MemoryConfig, memory
from tests.helpers.tools.memory.support import BOTH, READ, WRITE, forget, recall, remember, tool_of


async def test_what_is_remembered_is_recalled_and_forgotten() -> None:
    async with session_for(memory, permissions=BOTH) as desk:
        (stored,) = await remember(desk.session, memory, "  Ada drinks green tea. ")
        assert stored == {
            "id": stored["id"],
            "text": "Ada drinks green tea.",
            "created_at": "2026-01-01T00:00:00.000000Z",
            "created": True,
        }
        recalled = await desk.session.call(tool_of(memory, "recall"), query="tea")
        assert recalled == {"memories": [{key: stored[key] for key in ("id", "text", "created_at")}], "count": 1}
        assert await forget(desk.session, memory, stored["id"]) == {"id": stored["id"], "forgotten": True}
        assert await recall(desk.session, memory, "tea") == []


async def test_the_same_text_is_kept_once() -> None:
    async with session_for(memory, permissions=BOTH) as desk:
        (first,) = await remember(desk.session, memory, "Ada drinks\ngreen tea.")
        desk.clock.advance(60)
        for spelling in ("Ada drinks\ngreen tea.", "ada  drinks GREEN tea. "):
            assert await remember(desk.session, memory, spelling) == [{**first, "created": False}]
        assert await recall(desk.session, memory, "ada") == ["Ada drinks\ngreen tea."]
        await forget(desk.session, memory, first["id"])
        (later,) = await remember(desk.session, memory, "Ada drinks green tea.")
    assert later["created"]
    assert later["id"] != first["id"]


@pytest.mark.parametrize("id", ["no-such-id", "00000000-0000-7000-8000-000000000000", "é", "x" * 5000, "a\nb"])
async def test_forgetting_what_is_not_there_says_so(id: str) -> None:
    async with session_for(memory, permissions=BOTH) as desk:
        await remember(desk.session, memory, "stays")
        assert await forget(desk.session, memory, id) == {"id": id, "forgotten": False}
        assert await recall(desk.session, memory, "stays") == ["stays"]


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("remember", {"text": ""}, "text"),
        ("remember", {"text": " \n\t"}, "text"),
        ("remember", {}, "text"),
        ("recall", {"query": " "}, "query"),
        ("recall", {"query": "x", "limit": 0}, "limit"),
        ("recall", {"query": "x", "limit": 51}, "limit"),
        ("recall", {"query": "x", "limit": True}, "limit"),
        ("forget", {"id": ""}, "id"),
        ("forget", {"id": "x", "all": True}, "all"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_the_name_of_its_field(
    tool: str, arguments: dict[str, Any], field: str
) -> None:
    async with session_for(memory, permissions=BOTH) as desk:
        with pytest.raises(InvalidArguments) as caught:
            await desk.session.call(tool_of(memory, tool), **arguments)
    assert [error.path for error in caught.value.fields] == [field]


async def test_a_text_that_cannot_be_kept_is_refused_in_words_for_a_model() -> None:
    async with session_for(memory, permissions=BOTH, config=MemoryConfig(max_length=10)) as desk:
        await remember(desk.session, memory, "ten chars!", " " * 50 + "ten too...")
        with pytest.raises(ToolError, match="up to 10 characters, this one 11; shorten it") as caught:
            await remember(desk.session, memory, "eleven char")
        assert caught.value.code == "memory_too_long"
        with pytest.raises(StateError, match="without NUL"):
            await remember(desk.session, memory, "a\0b")
        with pytest.raises(InvalidArguments, match="unicode"):
            await remember(desk.session, memory, "a\ud800")
        assert await recall(desk.session, memory, "eleven a ten") == ["ten too...", "ten chars!"]


async def test_the_longest_text_that_can_be_configured_fits_whatever_its_letters() -> None:
    async with session_for(memory, permissions=BOTH, config=MemoryConfig(max_length=16_000)) as desk:
        assert (await remember(desk.session, memory, "🍵" * 16_000))[0]["created"]


async def test_a_full_memory_takes_no_more_until_something_is_forgotten() -> None:
    async with session_for(memory, permissions=BOTH, config=MemoryConfig(capacity=2)) as desk:
        first, _ = await remember(desk.session, memory, "one", "two")
        with pytest.raises(ToolError, match="keeps 2 texts; forget one first") as caught:
            await remember(desk.session, memory, "three")
        assert (caught.value.code, caught.value.status) == ("memory_full", 409)
        assert not (await remember(desk.session, memory, "TWO"))[0]["created"]
        await forget(desk.session, memory, first["id"])
        assert (await remember(desk.session, memory, "three"))[0]["created"]


async def test_recall_returns_as_many_as_asked_for() -> None:
    async with session_for(memory, permissions=BOTH) as desk:
        await remember(desk.session, memory, *[f"tea number {number}" for number in range(60)])
        assert await recall(desk.session, memory, "tea", limit=2) == ["tea number 59", "tea number 58"]
        assert len(await recall(desk.session, memory, "tea")) == 5
        assert len(await recall(desk.session, memory, "tea", limit=50)) == 50


@pytest.mark.spec("G10")
@pytest.mark.parametrize(
    ("permissions", "allowed"),
    [((), ()), ((READ,), ("recall",)), ((WRITE,), ("remember", "forget")), (BOTH, ("remember", "recall", "forget"))],
)
async def test_each_tool_needs_its_permission(permissions: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    arguments_by_tool = {"remember": {"text": "x"}, "recall": {"query": "x"}, "forget": {"id": "x"}}
    async with session_for(memory, permissions=permissions) as desk:
        for name, arguments in arguments_by_tool.items():
            result = await desk.session.try_call(tool_of(memory, name), **arguments)
            assert result.success is (name in allowed)
            assert result.success or isinstance(result.error, PermissionDenied)


async def test_what_is_done_is_on_record_by_its_effect() -> None:
    async with session_for(memory, permissions=BOTH) as desk:
        await remember(desk.session, memory, "x")
        await recall(desk.session, memory, "x")
        await forget(desk.session, memory, "x")
        recorded = [(record.tool, record.effect, record.outcome) for record in await desk.records()]
    assert recorded == [
        ("remember", "write", "succeeded"),
        ("recall", "read", "succeeded"),
        ("forget", "destructive", "succeeded"),
    ]
