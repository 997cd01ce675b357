"""Messages on the wire, and what their events say of progress."""

from __future__ import annotations

import pytest

from capset import Message, Meta, Progress
from capset.wire.calls import MessageShape, message_data, progress_of


@pytest.mark.spec("K1")
def test_a_message_has_what_surrounds_it_and_nothing_that_is_not_there() -> None:
    bare = Message("event", "told", [1])
    assert message_data(bare) == {"kind": "event", "type": "told", "data": [1]}
    stamped = Message("event", "told", None, Meta("i", "t", "c"))
    assert message_data(stamped)["meta"] == {"id": "i", "timestamp": "t", "correlation": "c"}
    complete = Message("query", "ask", {}, Meta("i", "t", "c", "b", 1.5, "00-1"))
    data = message_data(complete)
    assert data["meta"]["deadline"] == 1.5
    assert data["meta"]["traceparent"] == "00-1"
    for message in (bare, stamped, complete):
        assert MessageShape.model_validate(message_data(message)).plain() == {
            key: value for key, value in message_data(message).items() if value is not None
        }


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"fraction": 0.5, "message": "half"}, Progress(0.5, "half")),
        ({"fraction": 1}, Progress(1.0)),
        ({"fraction": 0, "message": None, "more": 1}, Progress(0.0)),
        ({"fraction": 0.5, "message": 5}, Progress(0.5)),
        ({"fraction": 1.1}, None),
        ({"fraction": -0.1}, None),
        ({"fraction": float("nan")}, None),
        ({"fraction": True}, None),
        ({"fraction": "0.5"}, None),
        ({"message": "half"}, None),
        ("half", None),
        ([0.5], None),
        (None, None),
    ],
)
def test_an_event_that_is_named_progress_counts_if_it_has_a_fraction(data: object, expected: Progress | None) -> None:
    assert progress_of(Message("event", "progress", data)) == expected
    assert progress_of(MessageShape(kind="event", type="progress", data=data)) == expected
    assert progress_of(Message("event", "other", data)) is None
    assert progress_of(Message("reply", "progress", data)) is None
