"""What ``capset call`` says while a tool runs: a bar on a terminal, lines where there is none."""

from __future__ import annotations

import pytest

from tests.helpers.cli.support import Command
from tests.helpers.cli.terminal import MOVES, at_terminal

pytestmark = pytest.mark.realtime

STEPS = ("call", "workshop.steps", "--args", '{"count": 4}')
POUR = ("call", "foundry.pour", "--args", '{"count": 2}')


def test_a_terminal_has_one_bar_that_goes_away(workshop: Command) -> None:
    code, out, screen = at_terminal(workshop, *STEPS)
    assert (code, out) == (0, "4\n")
    text = MOVES.sub("", screen)
    assert "━" in text
    assert "0% [red]step 0[/]" in text
    assert "75% [red]step 3[/]" in text
    assert "\x1b[2K" in screen, "the bar is taken away"
    assert "record " in screen.split("\x1b[2K")[-1]


def test_a_terminal_that_cannot_move_has_lines(workshop: Command) -> None:
    code, out, screen = at_terminal(workshop, *STEPS, term="dumb")
    assert (code, out) == (0, "4\n")
    assert screen.splitlines()[:2] == ["  0% [red]step 0[/]", " 25% [red]step 1[/]"]


def test_programs_see_nothing_of_it(workshop: Command) -> None:
    code, out, screen = at_terminal(workshop, *STEPS, "--json")
    assert (code, screen) == (0, "")
    assert out.startswith('{"success": true, "data": 4')


def test_other_events_are_lines_on_a_terminal_and_elsewhere(foundry: Command) -> None:
    code, out, screen = at_terminal(foundry, *POUR)
    assert (code, out) == (0, "2\n")
    events = ['Foundry.Ladle "0x"', 'Foundry.Ladle "1x"']
    assert MOVES.sub("", screen).splitlines()[:2] == events
    done = foundry(*POUR)
    assert (done.out, done.err.splitlines()[:2]) == ("2\n", events)
    assert foundry(*POUR, "--json").err == ""


def test_a_bar_is_gone_when_the_call_fails_on_its_way(foundry: Command) -> None:
    code, out, screen = at_terminal(foundry, "call", "foundry.tick", "--args", "{}", "--timeout", "1")
    assert (code, out) == (1, "")
    text = MOVES.sub("", screen)
    assert "50% halfway" in text
    assert "error: Deadline exceeded" in MOVES.sub("", screen.split("\x1b[2K")[-1])
