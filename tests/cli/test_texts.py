"""What people read: everything that matters is there, and other people's texts are shown as they are."""

from __future__ import annotations

import json

import pytest
from rich.console import Console
from rich.text import Text

from capset.cli.output import cell, verbatim, visible
from tests.cli.support import ADD, FILES, Command, Run

TRICKY = ["[red]x[/]", "[/]", "[/b] \\[x]", ":smile: :x:", "a\\b", "\\[red]", "[link=http://x]y[/link]", "100%", "{x}"]


@pytest.mark.parametrize("text", TRICKY)
def test_markup_in_data_is_no_markup(text: str) -> None:
    console = Console(emoji=False, highlight=False, width=200)
    with console.capture() as shown:
        console.print(f"[bold]before[/] {verbatim(text)} [dim]after[/]")
    assert Text.from_ansi(shown.get()).plain.rstrip("\n") == f"before {text} after"


def test_control_characters_are_spelled_out() -> None:
    assert visible("a\x1b[31m\r\x00\x7f\x9b b\n\tc") == "a\\x1b[31m\\x0d\\x00\\x7f\\x9b b\n\tc"
    assert visible("“ünï” 😀") == "“ünï” 😀"
    assert cell("two\nlines") == "two\\nlines"


def test_a_result_that_is_text_is_printed_as_it_is(workshop: Command) -> None:
    text = "[red]x[/] :smile:\n\tend \\ “ü” 😀"
    done = workshop("call", "workshop.echo", "--args", json.dumps({"text": text}))
    assert done.out == f"{text}\n"
    dangerous = workshop("call", "workshop.echo", "--args", '{"text": "\\u001b]0;title\\u0007"}')
    assert dangerous.out == "\\x1b]0;title\\x07\n"


def test_an_error_is_printed_as_it_is(workshop: Command) -> None:
    done = workshop("call", "workshop.refuse", "--args", '{"text": "[/] :x: \\u001b[2J"}')
    assert done.code == 1
    assert done.err.startswith("error: [/] :x: \\x1b[2J\n")
    shape = workshop("call", "workshop.refuse", "--args", '{"text": "[/] :x:"}', "--json").json["error"]
    assert (shape["message"], shape["code"], shape["status"]) == ("[/] :x:", "refused_politely", 409)


def test_a_record_cannot_forge_another_line(run: Run) -> None:
    run("call", "test_math.x\n9  2020-01-01  root  add  succeeded\x1b[2K", "--principal", "[red]mallory[/]")
    shown = run("audit", "query").out.splitlines()
    assert len(shown) == 2
    assert "[red]mallory[/]" in shown[1]
    assert "test_math.x\\n9  2020-01-01  root  add  succeeded\\x1b[2K" in shown[1]


def test_the_list_shows_what_there_is(workshop: Command) -> None:
    shown = workshop("list").out
    lines = {line.split()[0]: line for line in shown.splitlines()}
    assert [
        name for name in ("read_file", "delete_file", "stat_file") if name not in lines["session_file_system"]
    ] == []
    assert "[red]Workshop[/] :smile:" in lines["workshop"]
    assert "[i]Tests[/i]" in lines["workshop"]


def test_a_description_shows_what_a_tool_needs(run: Run, workshop: Command) -> None:
    shown = run("describe", "session_file_system").out
    assert "delete_file destructive, needs session_files:write" in shown
    assert "read_file read, needs session_files:read" in shown
    tool = run("describe", "session_file_system.read_file").out
    assert '"limit"' in tool
    assert "Absolute path, such as /docs/readme.txt." in tool
    assert "[b]Tools[/b] :x:" in workshop("describe", "workshop").out


def test_a_composition_shows_why_a_tool_is_not_in_play(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("agent") / "a.yaml"
    path.write_text("name: a\nsystem_prompt: '[red]x[/] :x:'\ncapabilities: [session_file_system]\n", encoding="utf-8")
    shown = run("compose", str(path), *FILES[:2])
    assert shown.code == 0
    assert "○ write_file write — local lacks the permission session_files:write" in shown.out
    assert "● read_file read" in shown.out
    assert "[red]x[/] :x:" in shown.out
    hashes = run("compose", str(path), *FILES[:2], "--json").json
    for name in ("static_hash", "runtime_hash", "prompt_hash"):
        assert hashes[name] in shown.out


def test_a_refusal_and_its_reason_are_in_the_trail(run: Run) -> None:
    refused = run("call", "session_file_system.read_file", "--args", '{"path": "/x"}')
    assert refused.err.startswith("error: Permission denied: local lacks the permission session_files:read\n")
    shown = run("audit", "query").out
    assert "denied" in shown
    assert "local lacks the permission session_files:read" in shown


def test_more_records_are_announced(run: Run) -> None:
    for _ in range(2):
        run(*ADD)
    done = run("audit", "query", "--limit", "1")
    assert done.err == "more: --before 2\n"
