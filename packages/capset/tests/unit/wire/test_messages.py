"""Messages on the wire, and what their events say of progress."""

from __future__ import annotations

import pytest

from capset import Message, Meta, Progress
from capset.wire.calls import MessageShape, message_data, progress_of

NO_FRACTIONS = ({"fraction": 1.1}, {"fraction": -0.1}, {"fraction": float("nan")}, {"fraction": True})
NO_PROGRESS = (*NO_FRACTIONS, {"fraction": "0.5"}, {"message": "half"}, "half", [0.5], None)


@pytest.mark.spec("K1")
def test_a_message_has_what_surrounds_it_and_nothing_that_is_not_there() -> None:
    bare, stamped = Message("event", "told", [1]), Message("event", "told", None, Meta("i", "t", "c"))
    complete = Message("query", "ask", {}, Meta("i", "t", "c", "b", 1.5, "00-1"))
    meta = {"id": "i", "timestamp": "t", "correlation": "c"}
    assert message_data(bare) == {"kind": "event", "type": "told", "data": [1]}
    assert message_data(stamped)["meta"] == meta
    assert message_data(complete)["meta"] == {**meta, "causation": "b", "deadline": 1.5, "traceparent": "00-1"}
    for data in map(message_data, (bare, stamped, complete)):
        present = {key: value for key, value in data.items() if value is not None}
        assert MessageShape.model_validate(data).plain() == present


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"fraction": 0.5, "message": "half"}, Progress(0.5, "half")),
        ({"fraction": 1}, Progress(1.0)),
        ({"fraction": 0, "message": None, "more": 1}, Progress(0.0)),
        ({"fraction": 0.5, "message": 5}, Progress(0.5)),
        *((data, None) for data in NO_PROGRESS),
    ],
)
def test_an_event_that_is_named_progress_counts_if_it_has_a_fraction(data: object, expected: Progress | None) -> None:
    assert progress_of(Message("event", "progress", data)) == expected
    assert progress_of(MessageShape(kind="event", type="progress", data=data)) == expected
    assert progress_of(Message("event", "other", data)) is progress_of(Message("reply", "progress", data)) is None
