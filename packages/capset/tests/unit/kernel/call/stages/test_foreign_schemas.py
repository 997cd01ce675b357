"""A tool whose schemas came as JSON Schema is validated on its way in and on its way out (spec 3, K9)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from capset import Agent, Capability, Tool, tool
from capset.definitions.calls.contents import ForeignResult
from capset.definitions.governance.settings import Governance
from capset.errors import InvalidArguments, InvalidOutput, ToolError
from capset.fingerprint.hashes import tool_hash
from capset.kernel.call.stages.result import MAX_NOTE
from capset.schemas.json_schema import compile_json_schema, compile_own_schema
from capset.wire.calls import call_data
from tests.helpers.kernel.support import Desk, ask, desk, opened

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
    typed, name="weather", arguments=compile_own_schema("weather", TAKES), output=compile_own_schema("weather", GIVES)
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
        arguments = {"city": "Rome", "options": {"unit": "F"}}
        assert await opened.session.call(weather, **arguments) == {"high": 10}
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
    field_errors = {
        "city: required, but missing",
        "days: Input should be an integer",
        "dais: no such parameter (did you mean 'days'?)",
    }
    assert set(map(str, raised.value.fields)) == field_errors
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
        session_tool = opened.session.snapshot.tools["weather"].tool
        assert (session_tool.arguments.json_schema, session_tool.output.json_schema) == (TAKES, GIVES)
    other = {**TAKES, "description": "Where and when."}
    turned = {**TAKES, "required": ["city"], "properties": dict(reversed(TAKES["properties"].items()))}
    hashes = [
        tool_hash(replace(weather, arguments=compile_own_schema("it", schema))) for schema in (TAKES, turned, other)
    ]
    assert hashes[0] == hashes[1] == tool_hash(weather)
    assert hashes[2] != hashes[0]


def answering(result: ForeignResult) -> Tool[..., Any]:
    """Return a tool of a server of others that answers so."""

    @tool(effect="read")
    async def foreign(city: str) -> object:
        """Ask a server of others."""
        return result

    return replace(foreign, output=compile_json_schema("foreign", GIVES))


@pytest.mark.spec("M96")
async def test_an_answer_of_others_that_does_not_fit_is_the_result_with_a_note() -> None:
    value = {"high": "hot"}
    foreign = answering(ForeignResult(value=value, structured={"x": 1}, misfits=["place: what was expected"]))
    async with desk(foreign) as opened:
        assert await opened.session.call(foreign, city="Rome") == value
        result = await opened.session.try_message(opened.session.message("foreign", {"city": "Rome"}))
        for record in await opened.records():
            assert (record.outcome, record.code) == ("succeeded", "output_misfit")
            assert record.reason is not None
            assert "; high: Input should be a number" in record.reason
            assert "place: what was expected" in record.reason
    assert result.foreign is not None
    note = result.foreign.note
    assert result.content == [{"type": "text", "text": '{"high": "hot"}'}, {"type": "text", "text": f"[{note}]"}]
    payload = call_data(result, result.data, "s1")
    assert (payload["success"], payload["data"], payload["structured"], payload["note"]) == (
        True,
        value,
        {"x": 1},
        note,
    )


@pytest.mark.spec("M96")
async def test_a_note_has_a_longest_length() -> None:
    foreign = answering(ForeignResult(value={"high": 1}, misfits=["x" * 10_000] * 10))
    async with desk(foreign) as opened:
        result = await opened.session.try_message(opened.session.message("foreign", {"city": "Rome"}))
    assert result.foreign is not None
    assert len(result.foreign.note or "") == MAX_NOTE + 1


@pytest.mark.spec("G26", "M97")
async def test_what_a_host_redacts_is_masked_in_all_that_others_answer() -> None:
    block = {"type": "text", "text": "it is hunter2"}
    structure: dict[str, Any] = {"high": 1, "word": "hunter2"}
    foreign = answering(ForeignResult(value=structure, blocks=[block], structured=structure, meta={"a": "hunter2"}))
    agent, governance = Agent("tester", uses=[Capability("kit", tools=[foreign])]), Governance(redact=["hunter2"])
    async with opened(agent, governance=governance) as site:
        result = await site.session.try_message(site.session.message("foreign", {"city": "Rome"}))
    assert result.success
    assert "hunter2" not in repr(result)
    assert result.content is not None
    assert result.content[0]["text"].startswith("it is ")


@pytest.mark.spec("G26", "G62")
async def test_an_error_that_others_answer_is_masked_wherever_a_caller_finds_it() -> None:
    foreign = answering(ForeignResult(value="", blocks=[], error=ToolError("it is hunter2", code="failed")))
    agent, governance = Agent("tester", uses=[Capability("kit", tools=[foreign])]), Governance(redact=["hunter2"])
    async with opened(agent, governance=governance) as site:
        result = await site.session.try_message(site.session.message("foreign", {"city": "Rome"}))
    assert result.foreign is not None
    assert result.foreign.error is result.error
    assert "hunter2" not in repr(result)
