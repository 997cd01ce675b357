"""Answers to calls, read member by member: whatever a server sends, what can be passed on is (spec 7, M96)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import CallToolResult, ContentBlock
from pydantic import TypeAdapter

from capset.definitions.calls.contents import ABSENT
from capset_connect.mcp.answers import answer_in, answer_of

pytestmark = pytest.mark.spec("M96")

BLOCKS = TypeAdapter(list[ContentBlock])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "video"])},
    optional={
        name: JSON | st.text(max_size=8)
        for name in ("text", "data", "mimeType", "uri", "name", "title", "size", "annotations", "_meta", "icons")
    }
    | {"resource": JSON | st.fixed_dictionaries({"uri": st.text(max_size=8)}, optional={"text": JSON, "blob": JSON})},
)
RESULT = st.fixed_dictionaries(
    {},
    optional={
        "content": JSON | st.lists(BLOCK | JSON, max_size=3),
        "structuredContent": JSON,
        "isError": JSON,
        "resultType": JSON,
        "_meta": JSON,
    },
)
TEXT = {"type": "text", "text": "done"}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


@given(RESULT)
def test_any_answer_is_read_and_its_content_is_what_clients_take(result: dict[str, Any]) -> None:
    answer = answer_in(result)
    BLOCKS.validate_python(answer.content, by_name=False)
    if answer.structured is not ABSENT:
        json.dumps(answer.structured, allow_nan=False)
    assert answer.content or answer.structured is not ABSENT or result.get("content") == []


def test_a_result_that_the_sdk_has_read_itself_is_read_too() -> None:
    assert answer_of(CallToolResult.model_validate({"content": [TEXT]})).content == [TEXT]


@pytest.mark.parametrize(
    "result",
    [
        {"content": [TEXT]},
        {"content": [TEXT], "structuredContent": {"b": 1, "a": [2]}, "isError": False, "_meta": {"x": 1}},
        {"content": [{**IMAGE, "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"a": 1}}]},
        {"content": [{"type": "resource_link", "uri": "a://b", "name": "b", "size": 3}], "resultType": "complete"},
        {"content": [{"type": "resource", "resource": {"uri": "a://b", "text": "t", "mimeType": "text/plain"}}]},
        {"content": [], "structuredContent": None},
    ],
)
def test_an_answer_that_fits_is_as_it_came(result: dict[str, Any]) -> None:
    answer = answer_in(result)
    assert (answer.content, answer.structured) == (result["content"], result.get("structuredContent", ABSENT))
    assert (answer.is_error, answer.meta, answer.misfits) == (False, result.get("_meta", {}), [])
    assert json.dumps(answer.content) == json.dumps(result["content"]), "in this order"


@pytest.mark.parametrize(
    ("result", "content", "misfit"),
    [
        ({"content": [TEXT], "isError": None}, [TEXT], "isError"),
        ({"content": [TEXT], "resultType": "task"}, [TEXT], "resultType"),
        ({"content": [{**TEXT, "annotations": {"priority": 5}}]}, [TEXT], "content.0.annotations.priority"),
        ({"content": [{**IMAGE, "_meta": [1]}, TEXT]}, [IMAGE, TEXT], "content.0._meta"),
        (
            {"content": [{"type": "image", "data": "AAAA"}]},
            [{**IMAGE, "mimeType": "application/octet-stream"}],
            "content.0.mimeType",
        ),
        (
            {"content": [{"type": "video", "uri": "a://b"}]},
            [{"type": "text", "text": '{"type": "video", "uri": "a://b"}'}],
            "content.0",
        ),
        ({"content": "done"}, [{"type": "text", "text": '{"content": "done"}'}], "content"),
        ({"structuredContent": {"n": 1}}, [], "content"),
        ({"content": [TEXT], "structuredContent": {"n": float("nan")}}, [TEXT], "structuredContent.n"),
    ],
)
def test_what_does_not_fit_is_listed_beside_what_does(
    result: dict[str, Any], content: list[dict[str, Any]], misfit: str
) -> None:
    answer = answer_in(result)
    assert answer.content == content
    assert not answer.is_error
    assert [place.split(": ")[0] for place in answer.misfits] == [misfit]
