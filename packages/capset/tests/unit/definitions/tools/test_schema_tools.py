"""Tools of JSON Schema and a plain handler (spec 4, G5, G11, G27)."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from capset import Context, ToolError
from capset.definitions.tools.schema_tools import schema_tool
from capset.errors import DefinitionError
from capset.fingerprint.hashes import tool_hash
from tests.helpers.kernel.support import ask, desk

PLACE: dict[str, Any] = {"location": {"type": "string", "required": True}, "unit": {"type": "string", "default": "c"}}


def weather(params: dict[str, Any]) -> dict[str, Any]:
    return {"at": params["location"], "unit": params["unit"]}


async def who(params: dict[str, Any], context: Context) -> str:
    params["location"] = "changed"
    return context.principal.id


class Asked:
    """An object that is called, and awaited."""

    async def __call__(self, params: dict[str, Any], context: Context | None = None) -> bool:
        return context is not None


@pytest.mark.spec("G11", "G27")
async def test_the_arguments_come_as_one_mapping_with_their_defaults() -> None:
    tool = schema_tool(name="get-weather", parameters=PLACE, handler=weather, description="Weather", effect="read")
    async with desk(tool) as opened:
        assert await opened.session.call(tool, location="Paris") == {"at": "Paris", "unit": "c"}
        (reply,) = await ask(opened.session, "get-weather", {"location": "Oslo", "unit": "f"})
        assert reply.data == {"at": "Oslo", "unit": "f"}
        (error,) = await ask(opened.session, "get-weather", {"locatio": 1})
        assert error.data["code"] == "invalid_arguments"


@pytest.mark.spec("G27")
async def test_a_handler_may_take_the_context_and_its_mapping_is_its_own() -> None:
    tool = schema_tool(name="who", parameters=PLACE, handler=who, description="Who", permissions={"a:read"})
    async with desk(tool, permissions={"a:read"}) as opened:
        assert await opened.session.call(tool, location="Paris") == "user-1"
        assert '"location":"Paris"' in (await opened.record(tool="who")).arguments


@pytest.mark.parametrize("handler", [Asked(), functools.partial(Asked())])
async def test_an_object_may_be_a_handler(handler: Any) -> None:
    tool = schema_tool(name="t", parameters={}, handler=handler, description="T")
    async with desk(tool) as opened:
        assert await opened.session.call(tool) is True


@pytest.mark.spec("G5")
async def test_a_result_is_checked_by_its_schema_and_any_json_without_one() -> None:
    number = {"type": "integer"}
    checked = schema_tool(name="a", parameters={}, handler=lambda params: "x", description="A", returns=number)
    free = schema_tool(name="b", parameters={}, handler=lambda params: [1, {"x": None}], description="B")
    async with desk(checked, free) as opened:
        assert (await opened.session.try_call(checked)).error.code == "invalid_output"  # pyright: ignore[reportOptionalMemberAccess]
        assert await opened.session.call(free) == [1, {"x": None}]


async def test_what_a_handler_says_of_a_failure_is_told() -> None:
    def fail(params: dict[str, Any]) -> None:
        raise ToolError("the shelf is empty")

    tool = schema_tool(name="t", parameters={}, handler=fail, description="T")
    async with desk(tool) as opened:
        with pytest.raises(ToolError, match=r"^the shelf is empty$"):
            await opened.session.call(tool)


def test_a_title_is_shown_and_moves_no_hash() -> None:
    definitions = [
        schema_tool(name="t", parameters=PLACE, handler=weather, description="T", title=title)
        for title in (None, "Get Weather")
    ]
    assert [definition.title for definition in definitions] == [None, "Get Weather"]
    assert tool_hash(definitions[0]) == tool_hash(definitions[1])


def generator(params: Any) -> Any:
    yield params


def no_parameters() -> None: ...


def by_name(*, location: str) -> str:
    return location


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (generator, "yields nothing"),
        (no_parameters, r"takes \(params, context\) or \(params\)"),
        (by_name, r"takes \(params, context\) or \(params\)"),
        (Asked, "a handler is a function"),
        ("./weather.py", "a handler is a function"),
    ],
)
def test_what_is_no_handler_is_refused(handler: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=f"tool 't': .*{message}"):
        schema_tool(name="t", parameters={}, handler=handler, description="T")


def test_everything_else_of_a_tool_is_checked_as_ever() -> None:
    with pytest.raises(DefinitionError, match="limits"):
        schema_tool(name="t", parameters={}, handler=weather, description="T", limits="100")
    with pytest.raises(DefinitionError, match="not idempotent"):
        schema_tool(name="t", parameters={}, handler=weather, description="T", retry=3)
    with pytest.raises(DefinitionError, match="name of a tool"):
        schema_tool(name="a b", parameters={}, handler=weather, description="T")
