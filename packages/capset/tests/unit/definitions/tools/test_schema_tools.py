from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from capset import Context
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.schema_tools import schema_tool
from capset.errors import DefinitionError
from capset.fingerprint.hashes import tool_hash
from tests.helpers.kernel.support import ask, desk

PLACE: dict[str, Any] = {"location": {"type": "string", "required": True}, "unit": {"type": "string", "default": "c"}}


def made(handler: Any, parameters: Any = PLACE, *, name: str = "t", **options: Any) -> AnyTool:
    return schema_tool(name=name, parameters=parameters, handler=handler, description="Do it.", **options)


def weather(params: dict[str, Any]) -> dict[str, Any]:
    return {"at": params["location"], "unit": params["unit"]}


async def who(params: dict[str, Any], context: Context) -> str:
    params["location"] = "changed"
    return context.principal.id


class Handler:
    async def __call__(self, params: dict[str, Any], context: Context | None = None) -> bool:
        return context is not None


@pytest.mark.spec("G11", "G27")
async def test_the_arguments_come_as_one_mapping_with_their_defaults() -> None:
    tool = made(weather, name="get-weather", effect="read")
    async with desk(tool) as opened:
        assert await opened.session.call(tool, location="Paris") == {"at": "Paris", "unit": "c"}
        (reply,) = await ask(opened.session, "get-weather", {"location": "Oslo", "unit": "f"})
        assert reply.data == {"at": "Oslo", "unit": "f"}
        (error,) = await ask(opened.session, "get-weather", {"locatio": 1})
        assert error.data["code"] == "invalid_arguments"


@pytest.mark.spec("G27")
async def test_a_handler_may_take_the_context_and_its_mapping_is_its_own() -> None:
    tool = made(who, permissions={"a:read"})
    async with desk(tool, permissions={"a:read"}) as opened:
        assert await opened.session.call(tool, location="Paris") == "user-1"
        assert '"location":"Paris"' in (await opened.record(tool="t")).arguments


@pytest.mark.parametrize("handler", [Handler(), partial(Handler())])
async def test_an_object_may_be_a_handler(handler: Any) -> None:
    tool = made(handler, {})
    async with desk(tool) as opened:
        assert await opened.session.call(tool) is True


@pytest.mark.spec("G5")
async def test_a_result_is_checked_by_its_schema_and_any_json_without_one() -> None:
    checked = made(lambda params: "x", {}, name="a", returns={"type": "integer"})
    free = made(lambda params: [1, {"x": None}], {}, name="b")
    async with desk(checked, free) as opened:
        assert (await opened.session.try_call(checked)).error.code == "invalid_output"  # pyright: ignore[reportOptionalMemberAccess]
        assert await opened.session.call(free) == [1, {"x": None}]


def test_a_title_is_shown_and_moves_no_hash() -> None:
    untitled, titled = made(weather), made(weather, title="Get Weather")
    assert (untitled.title, titled.title) == (None, "Get Weather")
    assert tool_hash(untitled) == tool_hash(titled)


def generator(params: Any) -> Any:
    yield params


def no_parameters() -> None: ...


def by_name(*, location: str) -> str:
    return location


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (generator, "cannot yield"),
        (no_parameters, r"takes \(params, context\) or \(params\)"),
        (by_name, r"takes \(params, context\) or \(params\)"),
        (Handler, "a handler is a function"),
        ("./weather.py", "a handler is a function"),
    ],
)
def test_what_is_no_handler_is_refused(handler: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=f"tool 't': .*{message}"):
        made(handler, {})


@pytest.mark.parametrize("name", ["a b", ""])
def test_the_name_is_checked(name: str) -> None:
    with pytest.raises(DefinitionError, match="name of a tool"):
        made(weather, name=name)
