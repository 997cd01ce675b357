"""The hashes of requests: equal for equal requests of two runs, and different for what a model reads differently."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from capset.fingerprint.canonical import canonical
from capset_agents.playback.request_hashes import RequestHashes, find_changes, hash_request

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=4)
MOMENTS = st.datetimes(timezones=st.just(UTC))


def shuffled(value: Any, chance: random.Random) -> Any:
    """Return JSON data with its keys in another order."""
    if isinstance(value, dict):
        keys = [*value]
        chance.shuffle(keys)
        return {key: shuffled(value[key], chance) for key in keys}
    return [shuffled(element, chance) for element in value] if isinstance(value, list) else value


def conversation(
    arguments: dict[str, Any] | str, result: Any, at: datetime, run: UUID, *, record: str = "r"
) -> list[ModelMessage]:
    """Return a conversation with a call, and texts that name the time, and the run twice."""
    return [
        ModelRequest(
            [UserPromptPart(f"It is {at.isoformat()} in {run}.", timestamp=at)], timestamp=at, run_id=str(run)
        ),
        ModelResponse([ToolCallPart("look", arguments, "call-1")], timestamp=at, conversation_id=str(run)),
        ModelRequest(
            [
                ToolReturnPart(
                    "look", {"of": str(run), "found": result}, "call-1", metadata={"record": record}, timestamp=at
                )
            ],
            timestamp=at,
            metadata={"at": at.isoformat()},
        ),
    ]


def hashes(messages: list[ModelMessage], settings: ModelSettings | None = None, **parameters: Any) -> RequestHashes:
    """Return the hashes of a request."""
    return hash_request(messages, settings, ModelRequestParameters(**parameters)).hashes


@pytest.mark.spec("R22")
@given(OBJECTS, JSON, OBJECTS, MOMENTS, MOMENTS, st.uuids(), st.uuids(), st.randoms(use_true_random=False))
def test_times_ids_of_runs_and_the_order_of_keys_do_not_count(
    arguments: dict[str, Any],
    result: Any,
    schema: dict[str, Any],
    at: datetime,
    later: datetime,
    run: UUID,
    other: UUID,
    chance: random.Random,
) -> None:
    """Nor does it whether arguments are text or data, or a history was stored and read in between."""
    first = hashes(
        conversation(arguments, result, at, run),
        ModelSettings(temperature=0.5, seed=1),
        function_tools=[ToolDefinition(name="look", parameters_json_schema=schema), ToolDefinition(name="put")],
        instruction_parts=[InstructionPart(f"Today is {at.date().isoformat()}.")],
    )
    arguments, result, schema = (shuffled(payload, chance) for payload in (arguments, result, schema))
    second = conversation(json.dumps(arguments), result, later, other, record="s")
    second = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(second))
    second_hashes = hashes(
        second,
        ModelSettings(seed=1, temperature=0.5),
        function_tools=[ToolDefinition(name="put"), ToolDefinition(name="look", parameters_json_schema=schema)],
        instruction_parts=[InstructionPart(f"Today is {later.date().isoformat()}.", dynamic=True)],
    )
    assert find_changes(first, second_hashes) == []
    assert second_hashes == first


NOW = datetime(2026, 11, 23, 14, 57, 35, tzinfo=UTC)
ONE, TWO = UUID(int=1), UUID(int=2)


@pytest.mark.spec("R22")
@given(OBJECTS, OBJECTS)
def test_other_arguments_and_results_count(arguments: dict[str, Any], other: dict[str, Any]) -> None:
    same = canonical(arguments) == canonical(other)
    plain = hashes(conversation(arguments, 1, NOW, ONE))
    assert (hashes(conversation(other, 1, NOW, ONE)) == plain) is same
    plain = hashes(conversation({}, arguments, NOW, ONE))
    assert (hashes(conversation({}, other, NOW, ONE)) == plain) is same


@pytest.mark.spec("R22")
@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("at 2026-11-23T14:57:35.312287Z", "at 2027-01-01T00:00:00Z", True),
        ("at 2026-11-23 14:57:35+01:00", "at 2026-11-24", True),
        ("\n2026-11-23", "\n2026-11-24", True),
        ("in 12026-11-23", "in 12026-11-24", False),
        ("at 14:57", "at 14:58", False),
        (f"{ONE} and {ONE}", f"{TWO} and {TWO}", True),
        (f"{ONE} and {ONE}", f"{ONE} and {TWO}", False),
        (f"({ONE}, {TWO})", f"({TWO}, {ONE})", True),
        (f"x{ONE}", f"x{str(TWO).upper()}", True),
        (f"{ONE}0", f"{TWO}0", False),
    ],
)
def test_dates_and_ids_in_texts(before: str, after: str, same: bool) -> None:
    """An id is what it is by where it occurs first; what only looks alike is text."""
    first, second = (hashes([ModelRequest.user_text_prompt(text)]) for text in (before, after))
    assert (first == second) is same


@pytest.mark.spec("R22")
def test_every_part_is_told_apart() -> None:
    messages = conversation({}, 1, NOW, ONE)
    plain = hashes(messages)
    first, last = messages[0], messages[-1]
    assert isinstance(first, ModelRequest)
    assert isinstance(last, ModelRequest)
    system = ModelRequest([SystemPromptPart("Be brief."), *first.parts])
    instructed = ModelRequest(last.parts, instructions="Be brief.")
    for changed in (
        hashes([system, *messages[1:]]),
        hashes([*messages[:-1], instructed]),
        hashes(messages, instruction_parts=[InstructionPart("Be brief.")]),
    ):
        assert find_changes(plain, changed) == ["the instructions changed"]
    long = hashes([*messages, ModelResponse([TextPart("x")])])
    assert find_changes(plain, long) == ["the conversation changed"]
    look = ToolDefinition(name="look", description="Look.")
    tools = hashes(messages, function_tools=[look])
    assert find_changes(plain, tools) == ["the tools changed (look is new)"]
    for other in (replace(look, description="See."), replace(look, parameters_json_schema={"type": "object"})):
        assert find_changes(tools, hashes(messages, output_tools=[other])) == ["the tools changed (look changed)"]
    assert hashes(messages, function_tools=[replace(look, metadata={"x": 1})]) == tools, "no model reads it"


def test_a_conversation_continues_another() -> None:
    messages = conversation({}, 1, NOW, ONE)
    hashed = hash_request(messages, None, ModelRequestParameters())
    for count in range(1, len(messages) + 1):
        beginning = hashes(messages[:count]).conversation
        assert hashed.continues(beginning) is (count < len(messages))
    assert not hashed.continues(hashes(conversation({}, 2, NOW, ONE)[:2] * 2).conversation)
