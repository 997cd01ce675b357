from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.errors import InvalidArguments
from capset_tools.stateless_todo_list import Todo, stateless_todo_list, write_todos
from tests.helpers.tools.support import fields_of, send, session_of

STATUSES = ("pending", "in_progress", "completed")


def todos(*statuses: str) -> list[Todo]:
    items = [{"content": f"Do {i}", "activeForm": f"Doing {i}", "status": s} for i, s in enumerate(statuses)]
    return cast("list[Todo]", items)


@pytest.mark.spec("P29")
async def test_the_complete_list_comes_back_with_its_counts() -> None:
    given_list = todos("completed", "in_progress", "pending", "pending")
    async with session_of(stateless_todo_list) as session:
        result = await session.call(write_todos, todos=given_list)
    assert result == {
        "success": True,
        "todos": given_list,
        "counts": {"total": 4, "pending": 2, "in_progress": 1, "completed": 1},
        "warnings": [],
    }


@pytest.mark.spec("P29")
@pytest.mark.parametrize(
    ("statuses", "warning"),
    [
        ([], None),
        (["completed", "completed"], None),
        (["in_progress"], None),
        (["in_progress", "pending"], None),
        (["pending"], "No task is in_progress"),
        (["completed", "pending", "pending"], "No task is in_progress"),
        (["in_progress", "in_progress"], "2 tasks are in_progress"),
        (["in_progress", "pending", "in_progress", "in_progress"], "3 tasks are in_progress"),
    ],
)
async def test_it_warns_unless_exactly_one_task_is_in_progress(statuses: list[str], warning: str | None) -> None:
    async with session_of(stateless_todo_list) as session:
        result = await session.call(write_todos, todos=todos(*statuses))
    assert len(result["warnings"]) == (warning is not None)
    assert all(text.startswith(warning or "") for text in result["warnings"])


@pytest.mark.spec("P29", "G12")
@pytest.mark.parametrize("as_json", [True, False])
async def test_every_field_that_does_not_fit_is_named(as_json: bool) -> None:
    bad: list[dict[str, Any]] = [
        {"content": "", "activeForm": "   ", "status": "done"},
        {"content": 5, "activform": "Doing", "status": None},
        {},
    ]
    async with session_of(stateless_todo_list) as session:
        if as_json:
            message = await send(session, "write_todos", {"todos": bad})
            assert message.kind == "error"
            error_text = str(message.data)
        else:
            with pytest.raises(InvalidArguments) as refused:
                await session.call(write_todos, todos=cast("list[Todo]", bad))
            error_text = str(refused.value)
            assert fields_of(refused.value)["todos.2.activeForm"] == "required, but missing"
    for path in (
        *("todos.0.content", "todos.0.activeForm", "todos.0.status"),
        *("todos.1.content", "todos.1.activeForm", "todos.1.activform", "todos.1.status"),
        *("todos.2.content", "todos.2.activeForm", "todos.2.status"),
    ):
        assert f"{path}:" in error_text or f"'{path}'" in error_text


@pytest.mark.parametrize("arguments", [{}, {"todos": None}, {"todos": "Run tests"}, {"todos": {}}])
async def test_what_is_no_list_is_refused(arguments: dict[str, Any]) -> None:
    async with session_of(stateless_todo_list) as session:
        with pytest.raises(InvalidArguments, match="todos"):
            await session.call(write_todos, **arguments)


@pytest.mark.spec("P29")
async def test_nothing_is_stored() -> None:
    async with session_of(stateless_todo_list) as session:
        await session.call(write_todos, todos=todos("in_progress"))
        cleared = await session.call(write_todos, todos=[])
        assert cleared["counts"]["total"] == 0
        assert await session.files.list("/", recursive=True) == []


async def test_texts_are_trimmed() -> None:
    item = Todo(content=" Run tests\n", activeForm="\tR", status="pending")
    async with session_of(stateless_todo_list) as session:
        result = await session.call(write_todos, todos=[item])
    assert result["todos"] == [{"content": "Run tests", "activeForm": "R", "status": "pending"}]


@pytest.mark.spec("P29")
@given(st.lists(st.sampled_from(STATUSES)))
async def test_counts_add_up_and_there_is_at_most_one_warning(statuses: list[str]) -> None:
    result = await write_todos.handler(todos(*statuses))
    counts = result["counts"]
    assert counts == {"total": len(statuses), **{status: Counter(statuses)[status] for status in STATUSES}}
    fine = counts["in_progress"] == 1 or (counts["in_progress"] == 0 and counts["pending"] == 0)
    assert bool(result["warnings"]) is not fine


@pytest.mark.spec("P17")
def test_the_instructions_say_when_and_how_to_keep_a_list() -> None:
    (text,) = stateless_todo_list.part.instructions
    for word in ("write_todos", "three or more", "content", "activeForm", "in_progress", "completed", "warnings"):
        assert word in text
