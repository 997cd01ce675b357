"""The shared core of the adapters: what a model is told, and what becomes of the calls that it makes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from capset import Agent, Message, tool
from capset.errors import ApprovalRequired, InvalidArguments
from capset.ext import Content, Image
from capset.fingerprint.hashes import tool_hash
from capset.kernel.call.media import Medium
from capset_connect.interop import import_tools
from capset_frameworks.session_tools import SessionTools
from tests.helpers.frameworks.kit import INSTRUCTIONS, MOOD, add, decide, notes, office, paid, waiting
from tests.helpers.kernel.support import desk, opened

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.spec("W1")
async def test_the_tools_in_play_are_offered_by_name_with_copies_of_their_schemas() -> None:
    async with office() as open_desk:
        tools = SessionTools(open_desk.session)
        offered = {offer.name: offer for offer in await tools.list_tools()}
        assert list(offered) == ["add", "count", "fail", "hurry", "look", "pay", "recite", "wait"]
        add_offer = offered["add"]
        assert (add_offer.description, add_offer.parameters) == ("Add two numbers.", add.arguments.json_schema)
        assert add_offer.metadata == {"capability": "kit", "effect": "read", "tool_hash": tool_hash(add)}
        add_offer.parameters["properties"].clear()
        (fresh,) = (offer for offer in await tools.list_tools() if offer.name == "add")
        assert fresh.parameters == add.arguments.json_schema
        text = await tools.system_text()
        assert INSTRUCTIONS in text
        assert MOOD in text


@pytest.mark.spec("W6")
async def test_a_call_has_the_ids_and_the_trace_that_it_was_given() -> None:
    events: list[Message] = []
    async with office() as open_desk:
        options: dict[str, Any] = {"id": "call-1", "run": "run-1", "trace": TRACE, "on_event": events.append}
        answer = await SessionTools(open_desk.session).call("count", '{"texts": ["a b"]}', **options)
        (record,) = await open_desk.records()
        assert (answer.text, answer.data, answer.error, answer.has_full_data) == ("2", 2, None, True)
        assert answer.metadata == {"untrusted": True, "record": record.id}
        assert (record.causation, record.correlation) == ("call-1", "run-1")
        assert [event.meta and event.meta.traceparent for event in events] == [TRACE]


@pytest.mark.spec("W6")
@pytest.mark.parametrize("id", [None, "", "x" * 201, "line\nbreak", "\x00"])
async def test_ids_that_no_record_can_have_are_replaced_by_new_ones(id: str | None) -> None:
    async with office() as open_desk:
        tools = SessionTools(open_desk.session)
        for _ in range(2):
            assert (await tools.call("add", {"a": 1}, id=id, run=id)).error is None
        records = await open_desk.records()
        ids = {record.correlation for record in records} | {record.causation for record in records}
        assert len(ids) == 4
        assert not ids & {id, None, ""}


@pytest.mark.spec("W6")
async def test_ids_of_the_longest_that_a_record_can_have_stay() -> None:
    async with office() as open_desk:
        await SessionTools(open_desk.session).call("add", {"a": 1}, id="c" * 200, run="r" * 200)
        (record,) = await open_desk.records()
        assert (record.causation, record.correlation) == ("c" * 200, "r" * 200)


@pytest.mark.spec("W2")
async def test_a_call_does_not_outlast_its_deadline() -> None:
    async with office() as open_desk:
        tools = SessionTools(open_desk.session)
        answer = await tools.call("wait", {}, deadline=time.time() + 0.2)
        assert "deadline_exceeded" in answer.text
        late = await tools.call("pay", {"sum": 1}, deadline=time.time() - 1)
        assert "deadline_exceeded" in late.text
        assert (waiting, paid) == (["begun"], [])
        assert {record.outcome for record in await open_desk.records()} == {"timed_out"}


@pytest.mark.spec("W2")
@pytest.mark.parametrize("arguments", ["", "[1]", "{", b"\xff", "null", '"a"'])
async def test_text_that_is_no_object_is_refused_as_arguments_on_record(arguments: str | bytes) -> None:
    async with office() as open_desk:
        answer = await SessionTools(open_desk.session).call("add", arguments)
        assert isinstance(answer.error, InvalidArguments)
        (record,) = await open_desk.records()
        assert answer.metadata == {"untrusted": True, "record": record.id, "code": "invalid_arguments"}
        assert str(answer).endswith(f"(invalid_arguments; correlation {record.correlation})")
        assert not answer.has_full_data


@pytest.mark.spec("W3")
@pytest.mark.parametrize("is_async", [False, True])
async def test_events_are_told_while_a_call_runs(is_async: bool) -> None:
    events: list[tuple[str, Any]] = []

    def note(event: Message) -> None:
        events.append((event.type, event.data["fraction"]))

    async def note_later(event: Message) -> None:
        note(event)

    async with office() as open_desk:
        on_event = note_later if is_async else note
        answer = await SessionTools(open_desk.session).call("count", {"texts": ["a b", "c"]}, on_event=on_event)
        assert (answer.data, events) == (3, [("progress", 0.5), ("progress", 1.0)])


@pytest.mark.spec("W3")
async def test_an_error_of_the_listener_is_logged_and_fails_no_call(caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: Message) -> None:
        raise LookupError(event.type)

    async with office() as open_desk:
        answer = await SessionTools(open_desk.session).call("count", {"texts": ["a", "b"]}, on_event=broken)
        assert answer.data == 2
        assert "a listener of the event 'progress' failed" in caplog.text


async def test_a_value_that_is_no_json_is_on_record_too() -> None:
    async with office() as open_desk:
        answer = await SessionTools(open_desk.session).call("add", {"a": object()})
        assert "Invalid arguments for 'add'" in answer.text
        assert [record.outcome for record in await open_desk.records()] == ["invalid"]


@pytest.mark.spec("W1")
async def test_a_long_result_is_a_text_and_its_whole_is_in_a_file() -> None:
    async with office() as open_desk:
        answer = await SessionTools(open_desk.session).call("recite", {})
        (record,) = await open_desk.records()
        assert (answer.data, answer.error, answer.has_full_data) == (None, None, False)
        assert answer.file == f"/results/{record.id}.txt"
        assert answer.metadata == {"untrusted": True, "record": record.id, "file": answer.file}


@pytest.mark.spec("W1", "M97")
@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n" + bytes(202), b"what no model takes"])
async def test_images_of_a_result_are_parts_beside_its_texts(data: bytes) -> None:
    @tool(effect="read")
    async def picture() -> list[str | Content]:
        """Give a picture."""
        return ["a dot", Image(data=data, media_type="image/png")]

    async with desk(picture) as open_desk:
        answer = await SessionTools(open_desk.session).call("picture", {})
    assert answer.text.startswith("a dot\n[image, image/png, ")
    assert (answer.data, answer.has_full_data, answer.error) == (None, False, None)
    expected_parts = ["a dot", Medium("image/png", data)] if data.startswith(b"\x89PNG") else []
    assert [*answer.parts] == expected_parts


@pytest.mark.spec("W5")
async def test_a_check_makes_no_call_and_returns_its_refusal_on_record() -> None:
    async with office() as open_desk:
        tools = SessionTools(open_desk.session)
        assert await tools.check("pay", {"sum": 7}, id="call-1", run="run-1") is None
        assert (paid, await open_desk.records()) == ([], [])
        wrong = await tools.check("pay", {"sum": "much"}, id="call-2", run="run-1")
        assert wrong is not None
        assert isinstance(wrong.error, InvalidArguments)
        refusal = await tools.check("pay", json.dumps({"sum": 500}), id="call-3", run="run-1")
        assert refusal is not None
        assert isinstance(refusal.error, ApprovalRequired)
        assert refusal.approval == refusal.metadata["approval"]
        records = await open_desk.records()
        assert [(record.causation, record.correlation, record.code) for record in records] == [
            ("call-2", "run-1", "invalid_arguments"),
            ("call-3", "run-1", "approval_required"),
        ]
        assert refusal.approval is not None
        await decide(open_desk, refusal.approval)
        assert await tools.check("pay", {"sum": 500}) is None
        assert (await tools.call("pay", {"sum": 500})).data == {"paid": 500}
        assert paid == [500]


@pytest.mark.spec("W2")
async def test_a_tool_that_is_not_in_play_is_refused_and_never_run() -> None:
    async with office() as open_desk:
        tools = SessionTools(open_desk.session)
        assert [(await tools.call(name, {"text": "x"})).error is None for name in ("note", "nothing")] == [False] * 2
        assert notes == []
        assert [record.outcome for record in await open_desk.records()] == ["denied", "not_found"]
        assert tools.session is open_desk.session


@pytest.mark.spec("W1", "K26")
async def test_tools_are_offered_as_providers_take_them_and_called_as_their_own_schema_has_it() -> None:
    either = [{"required": ["$top"]}, {"required": ["near"]}]
    properties: dict[str, Any] = {"$top": {"type": "integer"}, "near": {"type": "string"}}
    definitions = [
        {"name": "find", "parameters": {"type": "object", "properties": properties}},
        {"name": "pick", "parameters": {"type": "object", "properties": properties, "oneOf": either}},
    ]

    async def answer(name: str, arguments: dict[str, Any]) -> Any:
        return arguments

    imported = import_tools(definitions, name="others", handler=answer, effect="read")
    async with opened(Agent("helper", uses=[imported.capability])) as open_desk:
        tools = SessionTools(open_desk.session)
        offered = {offer.name: offer.parameters for offer in await tools.list_tools()}
        assert list(offered["find"]["properties"]) == ["top", "near"]
        assert list(offered["pick"]["properties"]) == ["arguments"]
        assert (await tools.call("find", {"top": 1, "near": "x"})).data == {"$top": 1, "near": "x"}
        assert (await tools.call("pick", '{"arguments": {"$top": 1}}')).data == {"$top": 1}
        assert (await tools.call("pick", {"near": "x"})).data == {"near": "x"}
        refusal = await tools.check("pick", {"arguments": properties})
        assert refusal is not None
        assert isinstance(refusal.error, InvalidArguments)
