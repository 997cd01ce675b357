"""What a host's patterns match is masked wherever it could be read (spec 4, G23, G26)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Capability, DefinitionError, Kernel, Message, Policy, Progress, Reply, ToolError, tool
from capset import ask as asks
from capset.definitions.governance.settings import Governance
from capset.definitions.tools.definition import AnyTool
from capset.errors import Field
from capset.kernel.governance.redaction import MASK, fully_redacted, redactor_of
from tests.helpers.kernel.governance.approving import till
from tests.helpers.kernel.support import Desk, ask, opened

KEY = "sk-0123456789"
PATTERNS = (r"sk-[0-9]{10}", r"(?i)hunter\d")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('{"password": "x", "note": ["a sk-0123456789"]}', '{"password": "[redacted]", "note": ["a [redacted]"]}'),
        (' [{"api_key": 1}]', '[{"api_key": "[redacted]"}]'),
        ('{"password": "x", of a cut text', '{"password": "x", of a cut text'),
        ("[" * 300, MASK),
        ("[" * 2_000_000, "[2,000,000 characters]"),
    ],
    ids=["object", "list", "no JSON", "deep", "long"],
)
def test_readers_see_no_secrets_in_json_within_a_text(text: str, masked: str) -> None:
    redact = redactor_of(PATTERNS)
    assert fully_redacted(text, redact, longest=None) == masked
    assert fully_redacted({"data": [text]}, redact, longest=None) == {"data": [masked]}


@tool
async def echo(data: str | dict[str, Any]) -> str | dict[str, Any]:
    """Give back what was given."""
    return data


@tool(effect="read")
async def steps(text: str) -> AsyncIterator[Progress | Reply[str]]:
    """Say it on the way, and at the end."""
    yield Progress(0.5, text)
    yield Reply(text)


@tool(effect="read")
async def wail(text: str) -> str:
    """Fail on purpose."""
    raise ToolError(text, hint=text, fields=[Field(text, text, text)])


@asynccontextmanager
async def redacting(store: str = "memory://", *more: AnyTool) -> AsyncGenerator[Desk]:
    agent = Agent("tester", uses=[Capability("kit", tools=[echo, steps, wail, *more])])
    async with opened(agent, store=store, governance=Governance(redact=PATTERNS)) as desk:
        yield desk


@pytest.mark.spec("G23", "G26", "T16")
async def test_records_and_results_have_the_mask_at_every_depth_and_in_keys_too(store: str) -> None:
    data = {"a": ["x", {"deep": f"the key is {KEY}, is it"}], KEY: 1, "n": 5, "none": None, "b": True}
    masked = {"a": ["x", {"deep": f"the key is {MASK}, is it"}], MASK: 1, "n": 5, "none": None, "b": True}
    async with redacting(store) as desk:
        (reply,) = await ask(desk.session, "echo", {"data": data})
        assert reply.data == masked
        record = await desk.record()
        assert json.loads(record.arguments) == {"data": masked}
        assert KEY not in repr(record)
        assert (await desk.kernel.audit.verify()).ok


@pytest.mark.spec("G20", "G23", "G26")
async def test_no_member_takes_the_place_of_another_whose_name_has_the_same_mask() -> None:
    data = {KEY: "a", "sk-9876543210": "b", "https://u:1@h/": "c", "https://u:2@h/": "d"}
    async with redacting() as desk:
        (reply,) = await ask(desk.session, "echo", {"data": data})
        assert list(reply.data.values()) == list("abcd")
        assert sorted(json.loads((await desk.record()).arguments)["data"].values()) == list("abcd")


@pytest.mark.spec("G23")
async def test_a_record_has_no_half_of_a_secret_where_a_text_is_cut_and_its_digest_tells_masked_ones_apart() -> None:
    async with redacting() as desk:
        for key in (KEY, "sk-9876543210"):
            await desk.session.call(echo, "x" * 1_995 + key)
        first, second = await desk.records()
        assert "sk-" not in first.arguments
        assert first.arguments == second.arguments
        assert first.arguments_digest != second.arguments_digest


@pytest.mark.spec("G26")
async def test_events_have_the_mask() -> None:
    async with redacting() as desk:
        progress, reply = await ask(desk.session, "steps", {"text": f"Hunter2 {KEY}"})
        assert progress.data == {"fraction": 0.5, "message": f"{MASK} {MASK}"}
        assert reply.data == f"{MASK} {MASK}"


@pytest.mark.spec("G24", "G26")
async def test_errors_have_the_mask_in_all_that_they_say() -> None:
    async with redacting() as desk:
        (failed,) = await ask(desk.session, "wail", {"text": KEY})
        (invalid,) = await ask(desk.session, "wail", {"text": "x", KEY: 1})
        (unknown,) = await ask(desk.session, f"tool {KEY}", {KEY: KEY})
        assert failed.data["message"] == MASK
        assert failed.data["fields"] == [{"path": MASK, "expected": MASK, "did_you_mean": MASK}]
        assert invalid.data["fields"][0]["path"] == MASK
        assert unknown.data["message"].startswith(f"unknown tool 'tool {MASK}'")
        result = await desk.session.try_call(wail, KEY)
        assert result.error is not None
        assert KEY not in repr((failed.data, invalid.data, unknown.data, result.error, vars(result.error)))
        records = await desk.records()
        assert {record.outcome for record in records} == {"failed", "invalid", "not_found"}
        assert KEY not in repr(records)


@pytest.mark.spec("G26")
async def test_an_error_that_a_handler_keeps_is_not_changed() -> None:
    error = ToolError(KEY)

    @tool(effect="read")
    async def fail() -> str:
        """Raise the same error each time."""
        raise error

    async with redacting("memory://", fail) as desk:
        results = [await desk.session.try_call(fail) for _ in range(2)]
        assert {(result.error and result.error.message) for result in results} == {MASK}
        assert len({(result.error and result.error.correlation) for result in results}) == 2
        assert (error.message, error.correlation) == (KEY, None)


@pytest.mark.spec("G26")
async def test_lone_surrogates_stop_no_mask() -> None:
    redact = redactor_of(PATTERNS)
    assert redact is not None
    assert redact({"\ud800": f"\udfff{KEY}\0é🦉"}) == {"?": f"?{MASK}\0é🦉"}
    async with redacting() as desk:
        await desk.session.try_message(Message("command", "echo", {"data": f"\ud800{KEY}"}))
        assert KEY not in repr(await desk.records())


NO_EXPRESSION, EMPTY = "is not a valid RE2 regular expression", "matches the empty text"


@pytest.mark.spec("G23")
@pytest.mark.parametrize(
    ("pattern", "words"),
    [("(", NO_EXPRESSION), (r"(?=x)", NO_EXPRESSION), (r"(a)\1", NO_EXPRESSION), ("x*", EMPTY), ("", EMPTY)],
)
def test_a_bad_pattern_is_refused_before_anything_is_opened(pattern: str, words: str) -> None:
    with pytest.raises(DefinitionError, match=words) as raised:
        Kernel("memory://", governance=Governance(redact=["fine", pattern]))
    assert repr(pattern) in raised.value.message


@pytest.mark.parametrize("redact", ["sk-.*", [5], [None]])
def test_patterns_are_a_list_of_texts(redact: Any) -> None:
    with pytest.raises(DefinitionError, match="redact"):
        Governance(redact=redact)


def test_without_patterns_nothing_is_looked_at() -> None:
    assert redactor_of(()) is None


@pytest.mark.spec("G23")
def test_a_pattern_that_is_slow_elsewhere_is_not_slow_here() -> None:
    redact = redactor_of([r"(a+)+$", r"(x|x)*y"])
    assert redact is not None
    redact("a" * 100_000 + "b" + "x" * 100_000)  # backtracking would take longer than the world has been there


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)


@given(JSON, st.text(max_size=10), st.text(max_size=10))
def test_whatever_stands_around_it_it_is_masked_and_the_rest_is_kept(data: Any, before: str, after: str) -> None:
    redact = redactor_of(PATTERNS)
    assert redact is not None
    assert KEY not in json.dumps(redact([data, {before: before + KEY + after}, {before + KEY: data}]))
    plain = redactor_of(["never there at all"])
    assert plain is not None
    assert plain(data) == data


@pytest.mark.spec("G26")
async def test_the_reason_of_a_request_for_an_approval_has_the_mask() -> None:
    sends = Policy("sends", lambda request: asks(f"sends to {request.arguments['to']}") if request.arguments else True)
    async with till(kernel={"governance": Governance(redact=PATTERNS)}, policies=[sends]) as harness:
        await harness.asked(await harness.session(), to=KEY)
        (row,) = await harness.requests()
        assert row.reason == f"sends to {MASK}; every call of 'pay' has to be approved"
