"""Newline-delimited JSON: every line a message, however the bytes are cut and whatever stands in them (spec 3, K3)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Json, Message, Meta
from capset.wire.calls import MessageShape
from capset.wire.ndjson import LINE_ERROR_TYPE, MAX_LINE_BYTES, Reader, Verbatim, line_of

GOOD = b'{"kind":"query","type":"echo","data":{"text":"hello"},"meta":{"id":"good"}}'
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
TEXT = st.text(min_size=1, max_size=40)
METAS = st.builds(Meta, TEXT, TEXT, TEXT, st.none() | TEXT, st.none() | FINITE, st.none() | TEXT)


META_MISFITS = (
    *(("span", "s"), ("correlation", 5), ("causation", "x" * 1001), ("traceparent", [])),
    *(("deadline", "soon"), ("deadline", True)),
)


def read(text: bytes, limit: int = MAX_LINE_BYTES, size: int | None = None) -> list[Message]:
    """Return the messages of a text that comes in pieces of a size."""
    reader, step = Reader(limit), size or max(len(text), 1)
    messages = [message for start in range(0, len(text), step) for message in reader.feed(text[start : start + step])]
    return [*messages, *reader.end()]


def alone(text: bytes, limit: int = MAX_LINE_BYTES) -> Message:
    (message,) = read(text + b"\n", limit)
    return message


def meta_of(message: Message) -> Meta:
    assert message.meta is not None
    return message.meta


def refused(text: bytes, status: int, code: str) -> Message:
    """Return the error message that a line becomes, which is whole, and after which the next line is read."""
    error, good = read(text + b"\n" + GOOD + b"\n")
    assert (error.kind, error.data["status"], error.data["code"]) == ("error", status, code), error
    assert (error.data["correlation"], meta_of(good).id) == (meta_of(error).correlation, "good")
    MessageShape.model_validate_json(line_of(error))
    return error


@pytest.mark.spec("K3")
def test_a_line_is_a_message_and_its_data_are_the_very_bytes() -> None:
    message = alone(b' {"type" : "Memory.Get", "data":{ "a": 1.0, "b": [1e5,\t"\\u00e9"] } ,"kind":"query"} ')
    assert message == Message("query", "Memory.Get", Json(b'{ "a": 1.0, "b": [1e5,\t"\\u00e9"] }'))
    assert alone(b'{"kind":"command","type":"wipe"}') == Message("command", "wipe")
    assert alone(b'{"kind":"command","type":"wipe","data":null}') == Message("command", "wipe")
    assert alone(b'{"kind":"command","type":"_9-x","data":5}') == Message("command", "_9-x", Json(b"5"))


@pytest.mark.spec("K3", "K11")
def test_what_a_sender_says_around_a_message_is_kept_and_the_rest_is_filled_in() -> None:
    meta = {"id": "7", "timestamp": "now", "correlation": "c", "causation": "b", "deadline": 12, "traceparent": "00-1"}
    message = alone(json.dumps({"kind": "query", "type": "echo", "meta": meta}).encode())
    assert message.meta == Meta("7", "now", "c", "b", 12.0, "00-1")
    begun = meta_of(alone(b'{"kind":"query","type":"echo","meta":{"id":"7"}}'))
    assert (begun.id, begun.correlation, begun.timestamp[-1]) == ("7", "7", "Z")
    other = meta_of(alone(b'{"kind":"query","type":"echo","meta":{"correlation":"c"}}'))
    assert (other.correlation, len(other.id)) == ("c", 36)


@pytest.mark.spec("K12")
def test_kinds_that_are_not_for_tools_are_written_as_they_came() -> None:
    line = b'{"meta": {"id": "1"},  "kind":"event", "data": [1e5, 1.00], "type":"told"}'
    message = alone(line + b"\r")
    assert isinstance(message, Verbatim)
    assert (message.kind, message.type, message.data) == ("event", "told", [1e5, 1.0])
    assert line_of(message) == line + b"\n"


@pytest.mark.spec("K3")
@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"nonsense", "expected"),
        (b'{"kind":"query"', "EOF"),
        (GOOD + b" x", "trailing"),
        (GOOD.replace(b"hello", b"\xff"), "column"),
        (b"\xef\xbb\xbf" + GOOD, "column 1"),
        (GOOD.replace(b'"hello"', b"NaN"), "column"),
        (GOOD.replace(b'"hello"', b"-Infinity"), "column"),
        (GOOD.replace(b"hello", b"\\ud800"), "column"),
        (GOOD.replace(b'"hello"', b"1" * 5000), "out of range"),
        (GOOD.replace(b'"hello"', b"[" * 300 + b"]" * 300), "recursion limit"),
        (GOOD.replace(b'"kind":', b'"kind":"query","kind":'), "the key 'kind' occurs twice"),
        (GOOD.replace(b'"hello"', b'{"a":{"b":1,"b":1}}'), "the key 'b' occurs twice"),
        (b'[{"a":1,"a":2}]', "the key 'a' occurs twice"),
    ],
)
def test_a_broken_line_is_400(line: bytes, why: str) -> None:
    error = refused(line, 400, "broken_message")
    assert (error.type, meta_of(error).causation) == (LINE_ERROR_TYPE, None)
    assert error.data["message"].startswith("Line 1 is not strict JSON in UTF-8: ")
    assert why in error.data["message"]


@pytest.mark.spec("K1", "K3")
@pytest.mark.parametrize(
    ("change", "path"),
    [
        *(({"kind": kind}, "kind") for kind in ("wish", None)),
        *(({"type": wrong}, "type") for wrong in ("a b", ".a", "a..b", "a\n", "x" * 201, 5)),
        ({"date": {}}, "date"),
        ({"x" * 5000: {}}, "x" * 100),
        *(({"meta": {"id": "i", name: value}}, f"meta.{name}") for name, value in META_MISFITS),
    ],
)
def test_an_envelope_that_does_not_fit_is_422_and_says_whose_it_was(change: dict[str, Any], path: str) -> None:
    sent = {"kind": "query", "type": "echo", "data": {}, "meta": {"id": "i"}} | change
    error = refused(json.dumps(sent).encode(), 422, "invalid_message")
    assert [field["path"] for field in error.data["fields"]] == [path]
    assert (meta_of(error).causation, meta_of(error).correlation) == ("i", "i")
    assert error.type == (LINE_ERROR_TYPE if path == "type" else "echo")
    assert "_Envelope" not in line_of(error).decode()
    assert len(line_of(error)) < 2000


@pytest.mark.spec("K3")
def test_an_envelope_without_a_readable_id_has_no_causation() -> None:
    for line in (b"[]", b"5", b'"x"', b"null", b'{"kind":"query","type":"a","meta":5}', b'{"meta":{"id":5}}'):
        meta = meta_of(refused(line, 422, "invalid_message"))
        assert (meta.causation, meta.correlation) == (None, meta.id)
    infinite = refused(b'{"kind":"query","type":"a","meta":{"deadline":1e999}}', 422, "invalid_message")
    assert [field["path"] for field in infinite.data["fields"]] == ["meta.deadline"]
    near = refused(b'{"kind":"query","typ":"a","meta":{"id":"i","correlation":"c"}}', 422, "invalid_message")
    assert "did you mean 'type'?" in near.data["message"]
    assert (meta_of(near).causation, meta_of(near).correlation) == ("i", "c")


@pytest.mark.spec("K3")
@pytest.mark.parametrize("size", [1, 7, 1000, None])
def test_a_line_that_is_too_long_is_413_once_and_nothing_of_it_is_kept(size: int | None) -> None:
    text = GOOD + b"\n" + b'"' + b"x" * 5000 + b'"\n\n' + GOOD
    first, long, last = read(text, len(GOOD), size)
    assert (long.data["status"], long.data["code"], long.type) == (413, "message_too_large", LINE_ERROR_TYPE)
    assert long.data["message"].startswith(f"Line 2 has more than {len(GOOD)} bytes")
    assert first == last.__class__(last.kind, last.type, last.data, first.meta)
    reader = Reader(100)
    assert len(reader.feed(b"x" * 101)) == 1
    assert [reader.feed(b"x" * 1000) for _ in range(100)] == [[]] * 100
    assert len(reader._line) == 0
    assert [message.kind for message in reader.feed(b"x\n" + GOOD + b"\n")] == ["query"]
    assert reader.end() == []


@pytest.mark.spec("K3")
def test_the_limit_of_a_line_is_a_mebibyte_by_default() -> None:
    start, end = b'{"kind":"query","type":"echo","data":{"text":"', b'"}}'
    longest = start + b"x" * (1024 * 1024 - len(start) - len(end)) + end
    assert alone(longest).kind == "query"
    assert alone(longest.replace(b"x", b"xx", 1)).data["status"] == 413
    with pytest.raises(ValueError, match="1 or more; got 0"):
        Reader(0)


@pytest.mark.spec("K3")
def test_blank_lines_are_skipped_and_counted() -> None:
    messages = read(b"\n \t\r\n\r\n" + GOOD + b"\r\n\nnonsense")
    assert [message.kind for message in messages] == ["query", "error"]
    assert messages[1].data["message"].startswith("Line 6 ")
    assert read(b"") == read(b"\n\n") == read(b" ") == []


@pytest.mark.spec("K3")
@given(before=st.binary(max_size=200), size=st.integers(1, 40), limit=st.integers(len(GOOD), 300))
def test_any_bytes_cut_anywhere_are_read_and_so_are_the_lines_after(before: bytes, size: int, limit: int) -> None:
    text = before + b"\n" + GOOD + b"\n"
    messages = read(text, limit, size)
    assert (messages[-1].kind, meta_of(messages[-1]).id) == ("query", "good")
    assert [(message.kind, message.type) for message in messages] == [
        (message.kind, message.type) for message in read(text, limit)
    ]
    assert all(line_of(message).count(b"\n") == 1 for message in messages)


@pytest.mark.spec("K1", "K3")
@given(data=JSON, meta=METAS, kind=st.sampled_from(["command", "query", "event", "reply", "error"]))
def test_what_is_written_is_read_again(data: Any, meta: Meta, kind: Any) -> None:
    message = Message(kind, "Memory.Get", data, meta)
    line = line_of(message)
    assert (line[-1:], line.count(b"\n")) == (b"\n", 1)
    parsed = alone(line[:-1])
    assert (parsed.kind, parsed.type, parsed.meta) == (kind, "Memory.Get", meta)
    assert (json.loads(parsed.data.text) if isinstance(parsed.data, Json) else parsed.data) == data
    assert line_of(parsed) == line


@pytest.mark.spec("K3")
def test_what_is_no_json_is_not_written() -> None:
    for data in (float("nan"), {"a": float("inf")}, Json(b"NaN"), Json(b"nonsense")):
        with pytest.raises(ValueError, match=r"JSON|expected"):
            line_of(Message("event", "told", data))
    with pytest.raises(TypeError):
        line_of(Message("event", "told", object()))
    assert line_of(Message("event", "told", Json(b'{"a":\n1}'))) == b'{"kind":"event","type":"told","data":{"a":1}}\n'
    assert line_of(Message("error", "told", {"message": "\ud800"})).endswith(b'{"message":"?"}}\n')
