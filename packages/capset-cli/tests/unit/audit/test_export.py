"""``capset audit export``: the chain in a file, which verifies without the database (spec 4, G22)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capset.definitions.calls.records import COLUMNS
from tests.helpers.cli.audit.changing import change
from tests.helpers.cli.support import ADD, FILES, Run

WRITE = ("call", "session_file_system.write_file", "--args", '{"path": "/a", "content": "text"}', *FILES)


@pytest.fixture
def filled(run: Run) -> Run:
    """Give the command where there are five links, one of them an intent, and a checkpoint over the first two."""
    run("audit", "keygen", "audit.key")
    for arguments in (ADD, ADD):
        assert run(*arguments).code == 0
    assert run("audit", "checkpoint", "--key", "audit.key").code == 0
    assert run(*WRITE).code == 0
    assert run(*ADD).code == 0
    return run


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def write(path: str, rows: list[dict[str, Any]]) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.spec("G22")
def test_all_columns_are_written_in_chain_order(filled: Run) -> None:
    printed = filled("audit", "export")
    assert printed.said == "5 records, 1 checkpoint over them"
    exported = filled("audit", "export", "--to", "records.ndjson", "--checkpoints", "seals.ndjson", "--json")
    assert exported.json == {"records": 6, "checkpoints": 1, "first": 1, "last": 6}
    rows = lines("records.ndjson")
    assert [json.loads(line) for line in printed.out.splitlines()] == rows[:5]
    assert [tuple(row) for row in rows] == [COLUMNS] * 6
    expected = [(3, "intent"), (4, "outcome"), (5, "outcome"), (6, "act")]
    assert [(row["seq"], row["phase"]) for row in rows][2:] == expected
    assert rows[5]["act"] == "log.read", "the export before this one"
    repeated = filled("audit", "export", "--to", "records.ndjson")
    assert (repeated.code, "the file 'records.ndjson' already exists" in repeated.said) == (2, True)


@pytest.mark.spec("G21", "G22")
def test_what_was_exported_verifies_without_the_database(filled: Run) -> None:
    filled("audit", "export", "--to", "records.ndjson", "--checkpoints", "seals.ndjson")
    Path("capset.db").unlink()
    assert filled("audit", "verify", "records.ndjson", "--json").json == {"ok": True, "checked": 5, "vouched": False}
    by_key = ("--key", "audit.key.pub", "--checkpoint", "seals.ndjson")
    signed = filled("audit", "verify", "records.ndjson", *by_key, "--json").json
    assert (signed["ok"], signed["checked"], signed["covered"], signed["vouched"]) == (True, 5, 2, True)
    rows = lines("records.ndjson")
    for column in COLUMNS:
        for value in ("another", 7, None, True, 1.5, ["x"]):
            write("changed.ndjson", [*rows[:2], {**rows[2], column: value}, *rows[3:]])
            done = filled("audit", "verify", "changed.ndjson", "--json")
            same = rows[2][column] == value and type(rows[2][column]) is type(value)
            assert (done.code, done.json["ok"]) == ((0, True) if same else (3, False)), (column, value)
    for changed in (rows[:2] + rows[3:], [rows[1], rows[0], *rows[2:]], [*rows[:3], rows[2], *rows[3:]]):
        write("changed.ndjson", changed)
        assert filled("audit", "verify", "changed.ndjson").code == 3
    write("cut.ndjson", rows[:1])
    assert filled("audit", "verify", "cut.ndjson").code == 0
    assert filled("audit", "verify", "cut.ndjson", *by_key).code == 3


@pytest.mark.spec("G22")
def test_a_part_verifies_by_itself_and_by_the_checkpoint_before_it(filled: Run) -> None:
    for name, options in (("part", ("--first", "3")), ("two", ("--first", "2", "--last", "3"))):
        assert filled("audit", "export", "--to", name, "--checkpoints", f"{name}.seals", *options).code == 0
    verification = filled("audit", "verify", "part")
    assert (verification.code, verification.out.splitlines()[1]) == (
        0,
        "consistent in itself: 3 records, every hash holds",
    )
    assert "they begin with record 3; earlier records are not in the file" in verification.said
    assert filled("audit", "verify", "two", "--json").json == {
        "ok": True,
        "checked": 2,
        "since": 2,
        "vouched": False,
    }
    by_key = ("--key", "audit.key.pub", "--checkpoint", "part.seals")
    assert filled("audit", "verify", "part", *by_key, "--json").json["covered"] == 2
    rows = lines("part")
    rows[0]["previous"] = "f" * 64
    write("part", rows)
    assert filled("audit", "verify", "part", *by_key).code == 3


@pytest.mark.spec("G22")
def test_a_span_of_time_is_exported(filled: Run) -> None:
    times = [row["time"] for row in map(json.loads, filled("audit", "export").out.splitlines())]
    for options, expected in (
        (("--since", times[1], "--last", "5"), [2, 3, 4, 5]),
        (("--until", times[4]), [1, 2, 3, 4]),
        (("--since", times[1], "--until", times[4], "--first", "3"), [3, 4]),
        (("--since", "2999-01-01"), []),
        (("--first", "99"), []),
    ):
        done = filled("audit", "export", *options)
        assert (done.code, [json.loads(line)["seq"] for line in done.out.splitlines()]) == (0, expected)


@pytest.mark.spec("G22")
def test_a_log_that_was_changed_is_not_exported_as_if_it_were_not(filled: Run) -> None:
    change("UPDATE records SET tool = x'ff' WHERE seq = 2")
    done = filled("audit", "export", "--to", "a")
    assert (done.code, "record 2 was changed: its 'tool'" in done.said) == (1, True)
    change("DELETE FROM records WHERE seq = 2")
    done = filled("audit", "export", "--to", "b")
    assert (done.code, "record 2 is missing" in done.said) == (1, True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("export --json", "what was written to a file: name one with --to"),
        ("export --since noon", "--since must be a time"),
        ("verify nothing", "there is no file 'nothing'"),
        ("verify text", "line 1 is not a record"),
        ("verify text --db capset.db", "leave out FILE, or --db"),
        ("verify text --key audit.key.pub", "name it with --checkpoint"),
        ("verify binary", "is not UTF-8 text, at byte 0"),
    ],
)
def test_bad_input_ends_with_2(line: str, message: str, filled: Run) -> None:
    Path("text").write_text('{"a": 1}\n', encoding="utf-8")
    Path("binary").write_bytes(b"\xff\n")
    done = filled("audit", *line.split())
    assert (done.code, message in done.said + done.out) == (2, True), done.err
