"""What people read: everything that matters is there, and other people's texts are shown as they are."""

from __future__ import annotations

import json
import logging
import sqlite3

import pytest
from rich.console import Console
from rich.text import Text

from capset_cli.common.output import cell, escaped
from capset_cli.common.process import OneLineFormatter
from capset_cli.common.texts import visible
from tests.helpers.cli.support import ADD, FILES, Command, Run
from tests.helpers.cli.terminal import on_a_terminal

TRICKY = ["[red]x[/]", "[/]", "[/b] \\[x]", ":smile: :x:", "a\\b", "\\[red]", "[link=http://x]y[/link]", "100%", "{x}"]


@pytest.mark.parametrize("text", TRICKY)
def test_markup_in_data_is_no_markup(text: str) -> None:
    console = Console(emoji=False, highlight=False, width=200)
    with console.capture() as captured:
        console.print(f"[bold]before[/] {escaped(text)} [dim]after[/]")
    assert Text.from_ansi(captured.get()).plain.rstrip("\n") == f"before {text} after"


def test_control_characters_are_spelled_out() -> None:
    assert visible("a\x1b[31m\r\x00\x7f\x9b b\n\tc") == "a\\x1b[31m\\x0d\\x00\\x7f\\x9b b\n\tc"
    assert visible("“ünï” 😀") == "“ünï” 😀"
    assert visible("a\u202eb\u2028c\u200d\u00ad\U000e0001\u00a0d") == "a\\u202eb\\u2028c\\u200d\\xad\\U000e0001\u00a0d"
    assert cell("two\nlines") == "two\\nlines"


def test_the_log_shows_one_line_without_control_characters() -> None:
    record = logging.LogRecord("x", logging.ERROR, "", 0, "tool %r\nfailed\x1b[31m \u202e", ("t",), None)
    assert OneLineFormatter().format(record) == "error: tool 't'\\nfailed\\x1b[31m \\u202e"


@pytest.mark.parametrize("text", ["\x1b[31mred", "[/b][/b][/b]", "\u202egnp"])
def test_a_hash_that_was_tampered_with_is_shown_as_it_is(text: str, run: Run) -> None:
    run(*ADD)
    tamper(f"UPDATE records SET hash = '{text}', runtime_hash = '{text}'")
    assert cell(text[:8]).replace("\\[", "[") in run("audit", "query").out
    assert "\x1b" not in run("audit", "query").out


@pytest.mark.parametrize("column", ["arguments", "policies"])
@pytest.mark.parametrize("value", ["{", "", "[" * 100_000])
def test_a_record_that_is_no_json_any_more_is_said_to_be_changed(column: str, value: str, run: Run) -> None:
    run(*ADD)
    tamper(f"UPDATE records SET {column} = '{value}'")
    done = run("audit", "query", "--json")
    assert done.code == 1
    assert done.json["error"]["message"] == f"record 1 was changed: its {column} are not JSON"
    assert run("audit", "query").code == 0, "the table shows neither"


def tamper(statement: str) -> None:
    with sqlite3.connect("capset.db") as database:
        database.execute(statement)
    database.close()


@pytest.mark.realtime
def test_eighty_columns_show_what_matters_uncut(workshop: Command) -> None:
    workshop("call", "current_time.get_current_time")
    workshop("call", "session_file_system.list_directory", "--args", '{"path": "/"}', "--principal", "somebody@example")
    workshop(*ADD, "--principal", "p" * 100)
    lines = on_a_terminal(workshop, "list")
    assert all(len(line.rstrip()) <= 80 for line in lines)
    names = {line.split()[0] for line in lines if line[:1].strip()}
    assert names >= {"current_time", "session_file_system", "stateless_todo_list", "workshop"}
    queried = on_a_terminal(workshop, "audit", "query")
    assert all(len(line.rstrip()) <= 80 for line in queried)
    rows = [line.split() for line in queried if line[:1].strip()]
    assert [row[0] for row in rows] == ["SEQ", "3", "2", "1"]
    for row, tool, outcome in zip(
        rows[1:], ("add", "list_directory", "get_current_time"), ("succeeded", "denied", "succeeded"), strict=True
    ):
        assert {tool, outcome} <= set(row)
    workshop("call", f"test_math.{'q' * 60}")
    folded = on_a_terminal(workshop, "audit", "query")
    assert [line.split()[0] for line in folded if line[:1].strip()] == ["SEQ", "5", "3", "2", "1"]
    assert "".join(folded).count("q") == 60, "a name of any length is all there, in more lines"


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
    lines = run("audit", "query").out.splitlines()
    assert len(lines) == 2
    assert "[red]mallory[/]" in lines[1]
    assert "test_math.x\\n9  2020-01-01  root  add  succeeded\\x1b[2K" in lines[1]


def test_the_list_shows_what_there_is(workshop: Command) -> None:
    text = workshop("list").out
    lines = {line.split()[0]: line for line in text.splitlines()}
    assert [
        name for name in ("read_file", "delete_file", "stat_file") if name not in lines["session_file_system"]
    ] == []
    assert lines["ID"].split() == ["ID", "STATUS", "CATEGORY", "TOOLS"]
    assert "[i]Tests[/i]" in lines["workshop"]


def test_a_description_shows_what_a_tool_needs(run: Run, workshop: Command) -> None:
    text = run("describe", "session_file_system").out
    assert "delete_file destructive, needs session_files:write" in text
    assert "read_file read, needs session_files:read" in text
    tool = run("describe", "session_file_system.read_file").out
    assert '"limit"' in tool
    assert "Absolute path, such as /docs/readme.txt." in tool
    assert "[b]Tools[/b] :x:" in workshop("describe", "workshop").out


def test_a_composition_shows_why_a_tool_is_not_in_play(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("agent") / "a.yaml"
    path.write_text("name: a\nsystem_prompt: '[red]x[/] :x:'\ncapabilities: [session_file_system]\n", encoding="utf-8")
    tree = run("compose", str(path), *FILES[:2])
    assert tree.code == 0
    assert "○ write_file write, needs session_files:write — local lacks the permission session_files:write" in tree.out
    assert "● read_file read" in tree.out
    assert "[red]x[/] :x:" in tree.out
    hashes = run("compose", str(path), *FILES[:2], "--json").json
    for name in ("static_hash", "runtime_hash", "prompt_hash"):
        assert hashes[name] in tree.out


def test_a_refusal_and_its_reason_are_in_the_trail(run: Run) -> None:
    refused = run("call", "session_file_system.read_file", "--args", '{"path": "/x"}')
    assert refused.err.startswith("error: Permission denied: local lacks the permission session_files:read\n")
    trail = run("audit", "query").out
    assert "denied" in trail
    assert "local lacks the permission session_files:read" in trail


def test_more_records_are_announced(run: Run) -> None:
    for _ in range(2):
        run(*ADD)
    done = run("audit", "query", "--limit", "1")
    assert done.err == "more: --before 2\n"
