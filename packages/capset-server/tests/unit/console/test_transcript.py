"""A transcript made of events: what each event changes, and what is taken back."""

from __future__ import annotations

from typing import Any

import pytest

from capset_server.console.transcripts.conversation import Changes, Transcript, prompt_text
from capset_server.console.transcripts.events import SessionEvent, preview
from capset_server.console.transcripts.timeline import timeline_of


class Talk:
    """A conversation, and its events so far."""

    def __init__(self) -> None:
        self.conversation = Transcript()
        self.events: list[SessionEvent] = []

    def add(self, type: str, *, second: float = 0, **data: Any) -> Changes:
        """Add an event, some seconds after the first."""
        at = f"2026-01-01T00:00:{second:09.6f}Z"
        event = SessionEvent(len(self.events) + 1, "t", type, at, data)
        self.events.append(event)
        return self.conversation.add(event)

    def said(self) -> list[str]:
        """Return the texts of the turn."""
        return [entry.text for entry in self.conversation.turns["t"].entries]


@pytest.mark.spec("N12")
def test_texts_grow_until_something_else_comes() -> None:
    talk = Talk()
    assert talk.add("turn.started", agent_version=2).is_new_turn
    (entry,) = talk.add("text.delta", step=1, part=0, text="a").added
    assert talk.add("text.delta", step=1, part=0, text="b").appended == (entry, "b")
    assert (entry.text, entry.is_open) == ("ab", True)
    changes = talk.add("text.delta", step=1, part=1, text="c")
    assert (changes.changed, len(changes.added), entry.is_open) == ([entry], 1, False)
    talk.add("turn.ended", output=preview("ab"))
    assert talk.said() == ["ab", "c"]
    assert talk.conversation.turns["t"].state == "ended"


@pytest.mark.spec("N12")
def test_an_answer_that_broke_off_is_taken_back_and_no_other() -> None:
    talk = Talk()
    talk.add("turn.started")
    talk.add("text.delta", step=1, part=0, text="kept")
    talk.add("tool.called", call="c", tool="pay", arguments=preview({}))
    talk.add("turn.suspended", approvals=[], calls={})
    talk.add("turn.resumed", approvals=[], takeovers=0, changed=False)
    talk.add("reasoning.delta", step=1, part=0, text="gone")
    talk.add("text.delta", step=1, part=1, text="gone too")
    changes = talk.add("text.discarded", step=1)
    assert [entry.text for entry in changes.removed] == ["gone too", "gone"]
    assert changes.changed == [], "nothing that was removed is drawn again"
    talk.add("text.delta", step=1, part=0, text="new")
    assert talk.said() == ["kept", "", "The answer was interrupted: the model is asked again.", "new"]


@pytest.mark.spec("N12")
@pytest.mark.parametrize("executed_first", [True, False])
def test_durations_belong_to_the_calls_of_their_records(executed_first: bool) -> None:
    talk = Talk()
    for call in ("a", "b"):
        talk.add("tool.called", call=call, tool="echo", arguments=preview({}))
    for call, record in (("b", "r2"), ("a", "r1")):
        steps = [
            lambda record=record: talk.add("tool.executed", tool="echo", record=record, duration_us=int(record[1])),
            lambda call=call, record=record: talk.add(
                "tool.result", call=call, tool="echo", success=True, record=record, code=None, data=preview(1)
            ),
        ]
        for step in steps if executed_first else reversed(steps):
            step()
    turn = talk.conversation.turns["t"]
    assert [turn.durations[entry.data["record"]] for entry in turn.entries] == [1, 2]


@pytest.mark.spec("N12")
def test_code_between_fences_is_a_block_of_its_own() -> None:
    talk = Talk()
    (entry,) = talk.add("text.delta", step=1, part=0, text="a\n```python\n<b>\n\n```\nc ``` d\n```\nopen").added
    assert entry.blocks == [(False, "a"), (True, "<b>"), (False, "c ``` d"), (True, "open")]


@pytest.mark.spec("N12")
def test_events_that_are_not_kept_and_those_of_tomorrow_break_nothing() -> None:
    talk = Talk()
    gap = SessionEvent(7, "", "gap", "", {"after": 0, "last": 7})
    assert talk.conversation.add(gap).turn is None
    talk.add("tool.result", call="x", tool="echo", success=False, record=None, code="gone", text="no")
    talk.add("tomorrow.happened", anything=1)
    assert talk.conversation.gap == (1, 7)
    assert [entry.kind for entry in talk.conversation.turns["t"].entries] == ["call"]


@pytest.mark.spec("N12")
def test_a_prompt_is_read_from_a_message() -> None:
    def message(content: Any) -> dict[str, Any]:
        return {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": content}]}

    assert prompt_text(message("hi")) == "hi"
    assert prompt_text(message(["see", {"kind": "binary", "media_type": "image/png"}])) == "see\n[image/png]"
    assert prompt_text({"kind": "response", "parts": [{"part_kind": "text", "content": "no"}]}) is None
    assert prompt_text({}) is None


@pytest.mark.spec("N12")
def test_a_time_line_has_steps_calls_and_waits() -> None:
    talk = Talk()
    talk.add("turn.started")
    talk.add("text.delta", step=1, part=0, text="a", second=1)
    talk.add("tool.called", call="c", tool="pay", arguments=preview({}), second=2)
    talk.add("usage", step=1, input_tokens=5, output_tokens=6, second=2)
    talk.add("turn.suspended", approvals=[], calls={}, second=3)
    talk.add("turn.resumed", approvals=[], takeovers=0, changed=False, second=13)
    talk.add("tool.executed", tool="pay", record="r", duration_us=500_000, second=14)
    talk.add("tool.result", call="c", tool="pay", success=False, record="r", code="broke", text="no", second=14)
    talk.add("usage", step=1, input_tokens=5, output_tokens=6, second=15)
    talk.add("turn.ended", output=preview(None), second=15)
    line = timeline_of(talk.events)
    assert [(bar.title, bar.begin, bar.seconds) for bar in line.bars] == [
        ("model, step 1", 0, 2),
        ("waits for an approval", 3, 10),
        ("pay", 13.5, 0.5),
        ("model, step 2", 14, 1),
    ]
    assert (line.seconds, line.bars[2].note, line.bars[0].note) == (15, "broke", "5 tokens in, 6 out")


def test_a_preview_is_cut_off() -> None:
    assert preview("x" * 10).is_cut is False
    cut = preview(["x" * 5_000])
    assert (cut.is_cut, cut.size, len(cut.text) < 2_100) == (True, 5_004, True)
