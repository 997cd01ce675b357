"""A tool whose schemas came as JSON Schema is validated on its way in and on its way out (spec 3, K9)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from capset import Tool, tool
from capset.errors import InvalidArguments, InvalidOutput
from capset.fingerprint.hashes import tool_hash
from capset.schemas.json_schema import compile_json_schema
from tests.kernel.support import Desk, ask, desk

TAKES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "maximum": 5, "default": 1},
        "options": {"type": "object", "properties": {"unit": {"default": "C"}}, "default": {}},
    },
    "required": ["city"],
    "additionalProperties": False,
}
GIVES = {"type": "object", "properties": {"high": {"type": "number", "maximum": 60}}, "required": ["high"]}
seen: list[dict[str, Any]] = []


@tool(effect="read")
async def typed(city: str, days: int, options: object) -> object:
    """Give the weather of a city."""
    seen.append({"city": city, "days": days, "options": options})
    return {"high": 10 * days} if city != "Hell" else {"high": "secret", "more": city}


weather: Tool[..., Any] = replace(
    typed, name="weather", arguments=compile_json_schema("weather", TAKES), output=compile_json_schema("weather", GIVES)
)


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


async def reply(opened: Desk, arguments: object) -> Any:
    (only,) = await ask(opened.session, "weather", arguments)
    return only


@pytest.mark.spec("K9")
async def test_defaults_are_filled_in_and_the_result_is_the_data() -> None:
    async with desk(weather) as opened:
        given = {"city": "Rome", "options": {"unit": "F"}}
        assert await opened.session.call(weather, **given) == {"high": 10}
        assert (await reply(opened, {"city": "Bern", "days": 2})).data == {"high": 20}
    assert seen == [
        {"city": "Rome", "days": 1, "options": {"unit": "F"}},
        {"city": "Bern", "days": 2, "options": {"unit": "C"}},
    ]


@pytest.mark.spec("K9", "G12")
async def test_what_does_not_fit_reaches_no_handler_and_every_field_is_named() -> None:
    async with desk(weather) as opened:
        with pytest.raises(InvalidArguments) as raised:
            await opened.session.call(weather, dais=9, days="secret")
        error = await reply(opened, {"dais": 9, "days": "secret"})
        (text,) = await ask(opened.session, "weather", b'{"city": "Rome", "city": "Bern"}')
    listed = {
        "city: required, but missing",
        "days: Input should be an integer",
        "dais: no such parameter (did you mean 'days'?)",
    }
    assert set(map(str, raised.value.fields)) == listed
    assert (error.data["code"], error.data["status"]) == ("invalid_arguments", 422)
    assert {field["path"] for field in error.data["fields"]} == {"city", "days", "dais"}
    assert "secret" not in json.dumps(error.data)
    assert text.data["status"] == 422
    assert seen == []


@pytest.mark.spec("K9")
async def test_a_result_that_does_not_fit_is_an_invalid_output_that_tells_only_places() -> None:
    async with desk(weather) as opened:
        with pytest.raises(InvalidOutput, match=r"does not fit its schema: high\.$"):
            await opened.session.call(weather, city="Hell")


@pytest.mark.spec("K4")
async def test_the_agent_is_shown_the_schemas_as_they_came_and_they_are_part_of_the_hash() -> None:
    async with desk(weather) as opened:
        shown = opened.session.snapshot.tools["weather"].tool
        assert (shown.arguments.json_schema, shown.output.json_schema) == (TAKES, GIVES)
    other = {**TAKES, "description": "Where and when."}
    turned = {**TAKES, "required": ["city"], "properties": dict(reversed(TAKES["properties"].items()))}
    hashes = [tool_hash(replace(weather, arguments=compile_json_schema("it", one))) for one in (TAKES, turned, other)]
    assert hashes[0] == hashes[1] == tool_hash(weather)
    assert hashes[2] != hashes[0]
