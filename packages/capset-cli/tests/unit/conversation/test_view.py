"""The view of a turn: texts that a model did not finish are taken back where that can be done (spec 6, R3, R11)."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from capset.wire.turns import EventShape
from capset_cli.conversation.view import TurnView


class Terminal(io.StringIO):
    """A file that says that it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def event(type: str, **data: Any) -> EventShape:
    """Return an event."""
    return EventShape(seq=1, turn="t", type=type, at="2026-01-01T00:00:00Z", data=data)


BROKEN = (
    event("text.delta", step=1, part=0, text="Here "),
    event("text.discarded", step=1),
    event("text.delta", step=1, part=0, text="Here I "),
    event("text.delta", step=1, part=0, text="am."),
    event("usage", step=1),
    event("turn.ended", output="Here I am."),
)


@pytest.mark.spec("R3", "R11")
def test_elsewhere_than_on_a_terminal_only_what_stands_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    view = TurnView()
    for turn_event in BROKEN:
        view.show(turn_event)
    printed = capsys.readouterr()
    assert printed.out == "Here I am.\n"
    assert "broke off" in printed.err


@pytest.mark.spec("R3", "R11")
def test_a_terminal_shows_text_as_it_comes_and_says_what_does_not_stand() -> None:
    file = Terminal()
    view = TurnView(console=Console(file=file, width=80, color_system=None, legacy_windows=False))
    view.show(BROKEN[0])
    assert file.getvalue() == "Here "
    for turn_event in BROKEN[1:]:
        view.show(turn_event)
    assert file.getvalue() == "Here \nthe model's answer broke off; asking again\nHere I am.\n"
