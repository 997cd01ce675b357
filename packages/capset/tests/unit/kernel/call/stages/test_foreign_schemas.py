"""A tool whose schemas came as JSON Schema is validated on its way in and on its way out (spec 3, K9)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from capset import Agent, Capability, Record, Result, Tool, tool
from capset.definitions.calls.contents import ForeignResult
from capset.definitions.governance.settings import Governance
from capset.errors import InvalidArguments, InvalidOutput, ToolError
from capset.fingerprint.hashes import tool_hash
from capset.kernel.call.stages.result import MAX_NOTE_CHARACTERS
from capset.schemas.json_schema import compile_json_schema, compile_own_schema
from capset.wire.calls import call_data
from tests.helpers.kernel.support import ask, desk, opened

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


ARGUMENTS, OUTPUT = compile_own_schema("weather", TAKES), compile_own_schema("weather", GIVES)
weather: Tool[..., Any] = replace(typed, name="weather", arguments=ARGUMENTS, output=OUTPUT)


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


@pytest.mark.spec("K9")
async def test_defaults_are_filled_in_and_the_result_is_the_data() -> None:
    async with desk(weather) as harness:
        arguments = {"city": "Rome", "options": {"unit": "F"}}
        assert await harness.session.call(weather, **arguments) == {"high": 10}
        (reply,) = await ask(harness.session, "weather", {"city": "Bern", "days": 2})
        assert reply.data == {"high": 20}
    assert seen == [
        {"city": "Rome", "days": 1, "options": {"unit": "F"}},
        {"city": "Bern", "days": 2, "options": {"unit": "C"}},
    ]


@pytest.mark.spec("K9", "G12")
async def test_what_does_not_fit_reaches_no_handler_and_every_field_is_named() -> None:
    async with desk(weather) as harness:
        with pytest.raises(InvalidArguments) as raised:
            await harness.session.call(weather, dais=9, days="secret")
        (error,) = await ask(harness.session, "weather", {"dais": 9, "days": "secret"})
        (repetition,) = await ask(harness.session, "weather", b'{"city": "Rome", "city": "Bern"}')
    assert set(map(str, raised.value.fields)) == {
        "city: required, but missing",
        "days: Input should be an integer",
        "dais: no such parameter (did you mean 'days'?)",
    }
    assert (error.data["code"], error.data["status"]) == ("invalid_arguments", 422)
    assert {field["path"] for field in error.data["fields"]} == {"city", "days", "dais"}
    assert "secret" not in json.dumps(error.data)
    assert repetition.data["status"] == 422
    assert seen == []


@pytest.mark.spec("K9")
async def test_a_result_that_does_not_fit_is_an_invalid_output_that_tells_only_places() -> None:
    async with desk(weather) as harness:
        with pytest.raises(InvalidOutput, match=r"does not fit its schema: high\.$"):
            await harness.session.call(weather, city="Hell")


@pytest.mark.spec("K4")
async def test_the_agent_is_shown_the_schemas_as_they_came_and_they_are_part_of_the_hash() -> None:
    async with desk(weather) as harness:
        session_tool = harness.session.snapshot.tools["weather"].tool
        assert (session_tool.arguments.json_schema, session_tool.output.json_schema) == (TAKES, GIVES)
    other = {**TAKES, "description": "Where and when."}
    turned = {**TAKES, "properties": dict(reversed(TAKES["properties"].items()))}
    same, turned_hash, other_hash = (
        tool_hash(replace(weather, arguments=compile_own_schema("it", schema))) for schema in (TAKES, turned, other)
    )
    assert same == turned_hash == tool_hash(weather) != other_hash


async def answered(answer: ForeignResult, *redact: str) -> tuple[Result[Any], Record]:
    """Call a tool of a server of others that answers so."""

    @tool(effect="read")
    async def foreign(city: str) -> object:
        """Ask a server of others."""
        return answer

    kit = Capability("kit", tools=[replace(foreign, output=compile_json_schema("foreign", GIVES))])
    async with opened(Agent("tester", uses=[kit]), governance=Governance(redact=redact)) as harness:
        result = await harness.session.try_message(harness.session.message("foreign", {"city": "Rome"}))
        return result, await harness.record()


@pytest.mark.spec("M96")
async def test_an_answer_of_others_that_does_not_fit_is_the_result_with_a_note() -> None:
    value = {"high": "hot"}
    answer = ForeignResult(value=value, structured={"x": 1}, misfits=["place: what was expected"])
    result, record = await answered(answer)
    assert (record.outcome, record.code) == ("succeeded", "output_misfit")
    for misfit in ("; high: Input should be a number", "place: what was expected"):
        assert misfit in str(record.reason)
    assert result.foreign is not None
    note = result.foreign.note
    assert result.content == [{"type": "text", "text": '{"high": "hot"}'}, {"type": "text", "text": f"[{note}]"}]
    payload = call_data(result, result.data, "s1")
    expected = {"success": True, "data": value, "structured": {"x": 1}, "note": note}
    assert {name: payload[name] for name in expected} == expected


@pytest.mark.spec("M96")
async def test_a_note_has_a_longest_length() -> None:
    result, _ = await answered(ForeignResult(value={"high": 1}, misfits=["x" * 10_000] * 10))
    assert result.foreign is not None
    assert len(result.foreign.note or "") == MAX_NOTE_CHARACTERS + 1


@pytest.mark.spec("G26", "M97")
async def test_what_a_host_redacts_is_masked_in_all_that_others_answer() -> None:
    block = {"type": "text", "text": "it is hunter2"}
    structure: dict[str, Any] = {"high": 1, "word": "hunter2"}
    answer = ForeignResult(value=structure, blocks=[block], structured=structure, meta={"a": "hunter2"})
    result, _ = await answered(answer, "hunter2")
    assert result.success
    assert "hunter2" not in repr(result)
    assert result.content is not None
    assert result.content[0]["text"].startswith("it is ")


@pytest.mark.spec("G26", "G62")
async def test_an_error_that_others_answer_is_masked_wherever_a_caller_finds_it() -> None:
    answer = ForeignResult(value="", blocks=[], error=ToolError("it is hunter2", code="failed"))
    result, _ = await answered(answer, "hunter2")
    assert result.foreign is not None
    assert result.foreign.error is result.error
    assert "hunter2" not in repr(result)
