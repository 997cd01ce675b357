"""``capset audit export``: the chain in a file, signed, which verifies without the database (spec 4, G22, G64)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capset.definitions.calls.records import COLUMNS
from tests.helpers.cli.audit.changing import change
from tests.helpers.cli.support import ADD, FILES, Run

WRITE = ("call", "session_file_system.write_file", "--args", '{"path": "/a", "content": "text"}', *FILES)
BY_KEY = ("--key", "audit.key.pub")


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


def export(run: Run, path: str, *options: str) -> list[dict[str, Any]]:
    """Export the chain to a file, and return its lines."""
    done = run("audit", "export", "--to", path, "--key", "audit.key", *options)
    assert done.code == 0, done.err
    return lines(path)


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def write(path: str, rows: list[dict[str, Any]]) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.spec("G22", "G64")
def test_all_columns_are_written_in_chain_order_and_the_last_line_is_a_checkpoint_over_them(filled: Run) -> None:
    printed = filled("audit", "export", "--key", "audit.key")
    assert printed.said == "7 records, 2 checkpoints over them"
    exported = filled("audit", "export", "--to", "records.ndjson", "--key", "audit.key", "--json")
    assert exported.json == {"records": 8, "checkpoints": 3, "first": 1, "last": 8}
    rows = lines("records.ndjson")
    assert [json.loads(line) for line in printed.out.splitlines()][:7] == rows[:7]
    assert [tuple(row) for row in rows[:8]] == [COLUMNS] * 8
    acts = [(row["seq"], row["phase"], row["act"]) for row in rows[2:8]]
    assert acts[:3] == [(3, "intent", None), (4, "outcome", None), (5, "outcome", None)]
    assert acts[3:] == [(6, "act", "checkpoint_key.adopt"), (7, "act", "log.read"), (8, "act", "log.read")]
    assert [(row["number"], row["seq"]) for row in rows[8:]] == [(1, 2), (2, 7), (3, 8)]
    repeated = filled("audit", "export", "--to", "records.ndjson", "--key", "audit.key")
    assert (repeated.code, "the file 'records.ndjson' already exists" in repeated.said) == (2, True)


@pytest.mark.spec("G41", "G64")
def test_a_log_is_signed_with_its_own_key_or_not_exported(filled: Run) -> None:
    for options, message in (
        ((), "which signs this log, is not here"),
        (("--key", "other.key"), "the log is signed by the key"),
    ):
        filled("audit", "keygen", "other.key")
        refused = filled("audit", "export", "--to", "records.ndjson", *options)
        assert (refused.code, message in refused.said) == (2, True), refused.said
        assert not Path("records.ndjson").exists(), "what is not complete is removed"


@pytest.mark.spec("G21", "G22", "G64")
def test_what_was_exported_verifies_without_the_database(filled: Run) -> None:
    rows = export(filled, "records.ndjson")
    Path("capset.db").unlink()
    assert filled("audit", "verify", "records.ndjson", "--json").json == {"ok": True, "checked": 7, "vouched": False}
    alone = filled("audit", "verify", "records.ndjson").out.splitlines()
    assert alone[0].startswith("no key was given: nothing vouches for what follows, since the checkpoints came with")
    assert alone[1] == "consistent in itself: 7 records, every hash holds"
    signed = filled("audit", "verify", "records.ndjson", *BY_KEY, "--json").json
    assert (signed["ok"], signed["checked"], signed["covered"], signed["vouched"]) == (True, 7, 7, True)
    assert filled("audit", "verify", "records.ndjson", *BY_KEY).out == "verified: 7 records, every hash holds\n"
    for column in COLUMNS:
        for value in ("another", 7, None, True, 1.5, ["x"]):
            write("changed.ndjson", [*rows[:2], {**rows[2], column: value}, *rows[3:]])
            done = filled("audit", "verify", "changed.ndjson", "--json")
            same = rows[2][column] == value and type(rows[2][column]) is type(value)
            assert (done.code, done.json["ok"]) == ((0, True) if same else (3, False)), (column, value)
    for changed in (
        rows[:2] + rows[3:],
        [rows[1], rows[0], *rows[2:]],
        [*rows[:3], rows[2], *rows[3:]],
        [*rows[:-1], {**rows[-1], "seq": "7"}],
        [*rows[:-1], {**rows[-1], "hash": "0" * 64}],
    ):
        write("changed.ndjson", changed)
        assert filled("audit", "verify", "changed.ndjson").code == 3
    write("changed.ndjson", [*rows[:-1], {**rows[-1], "time": "2026-01-01T00:00:00.000000Z"}])
    assert filled("audit", "verify", "changed.ndjson", *BY_KEY).code == 3, "its signature"
    write("cut.ndjson", rows[:5])
    assert filled("audit", "verify", "cut.ndjson").code == 0
    assert filled("audit", "verify", "cut.ndjson", *BY_KEY).code == 3, "it does not end with a checkpoint"


@pytest.mark.spec("G22", "G64")
def test_an_earlier_export_vouches_for_its_part_of_a_later_one(filled: Run) -> None:
    earlier = export(filled, "earlier.ndjson")
    export(filled, "later.ndjson")
    by_earlier = ("--checkpoint", "earlier.ndjson")
    verification = filled("audit", "verify", "later.ndjson", *by_earlier)
    assert verification.out.splitlines()[1] == "verified: 8 records, every hash holds"
    assert "checkpoints that were kept cover records up to 7" in verification.said
    assert filled("audit", "verify", *by_earlier).code == 0, "the database, too"
    write("cut.ndjson", earlier[:6])
    assert filled("audit", "verify", "cut.ndjson", *by_earlier).code == 3


@pytest.mark.spec("G22", "G64")
def test_a_part_verifies_by_itself_and_by_the_checkpoint_before_it(filled: Run) -> None:
    rows = export(filled, "part", "--first", "3")
    verification = filled("audit", "verify", "part")
    assert (verification.code, verification.out.splitlines()[1]) == (
        0,
        "consistent in itself: 5 records, every hash holds",
    )
    assert "they begin with record 3; earlier records are not in the file" in verification.said
    assert filled("audit", "verify", "part", *BY_KEY, "--json").json["covered"] == 7
    rows[0]["previous"] = "f" * 64
    write("part", rows)
    assert filled("audit", "verify", "part", *BY_KEY).code == 3
    assert [row["seq"] for row in export(filled, "newest", "--first", "8") if "phase" in row] == [8]
    missing = filled("audit", "export", "--key", "audit.key", "--first", "99")
    assert (missing.code, "there is no record 99: the newest one is 9" in missing.said) == (2, True)


@pytest.mark.spec("G64")
def test_records_since_a_time_are_exported(filled: Run) -> None:
    times = [row["time"] for row in export(filled, "all") if "phase" in row]
    assert [row["seq"] for row in export(filled, "some", "--since", times[1]) if "phase" in row] == [*range(2, 9)]
    done = filled("audit", "export", "--key", "audit.key", "--since", "2999-01-01")
    assert (done.code, "there are no records since 2999" in done.said) == (2, True)


@pytest.mark.spec("G64")
def test_a_key_that_comes_from_the_log_itself_shows_integrity_and_not_origin(run: Run) -> None:
    run(*ADD)
    assert run("audit", "key").code == 2, "there is none yet"
    assert run("audit", "export", "--to", "records.ndjson").code == 0
    printed = run("audit", "key")
    key_id = run("audit", "key", "--json").json["id"]
    assert key_id in printed.said
    Path("log.pub").write_text(printed.out)
    verification = run("audit", "verify", "records.ndjson", "--key", "log.pub")
    first, second = verification.out.splitlines()
    assert first.startswith(f"integrity, not origin: the key {key_id} comes from the database of the log")
    assert first.endswith("confirmed this id over another channel, remove the first line of log.pub")
    assert (verification.code, second) == (0, "signed with that key: 3 records, every hash holds")
    as_json = ("audit", "verify", "records.ndjson", "--key", "log.pub", "--json")
    assert run(*as_json).json["vouched"] is False
    Path("kept.ndjson").write_text(Path("records.ndjson").read_text().splitlines()[-1] + "\n\n")
    assert run(*as_json, "--checkpoint", "kept.ndjson").json["vouched"] is False, (
        "what follows it is signed by that key"
    )
    Path("json.pub").write_text(run("audit", "key", "--json").json["public"])
    assert run("audit", "verify", "records.ndjson", "--key", "json.pub", "--json").json["vouched"] is False
    Path("confirmed.pub").write_text(printed.out.partition("\n")[2])
    assert run(*as_json, "--key", "confirmed.pub").json["vouched"] is True
    verification = run("audit", "verify", "records.ndjson", "--key", "confirmed.pub")
    assert verification.out == "verified: 3 records, every hash holds\n"
    Path("records.ndjson").write_text(Path("records.ndjson").read_text().replace("add", "sub"))
    assert run("audit", "verify", "records.ndjson", "--key", "log.pub").code == 3


@pytest.mark.spec("G22")
def test_a_log_that_was_changed_is_not_exported_as_if_it_were_not(filled: Run) -> None:
    change("UPDATE records SET tool = x'ff' WHERE seq = 3")
    done = filled("audit", "export", "--to", "a", "--key", "audit.key")
    assert (done.code, "record 3 was changed: its 'tool'" in done.said) == (1, True)
    change("DELETE FROM records WHERE seq = 3")
    done = filled("audit", "export", "--to", "a", "--key", "audit.key")
    assert (done.code, "record 3 is missing" in done.said) == (1, True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("export --json", "what was written to a file: name one with --to"),
        ("export --since noon", "--since must be a time"),
        ("export --url http://127.0.0.1:1 --key audit.key", "--key is for work on this machine"),
        ("verify nothing", "there is no file 'nothing'"),
        ("verify text", "line 1 is not a record or a checkpoint"),
        ("verify text --db capset.db", "leave out FILE, or --db"),
        ("verify binary", "is not UTF-8 text, at byte 0"),
    ],
)
def test_bad_input_ends_with_2(line: str, message: str, filled: Run) -> None:
    Path("text").write_text('{"a": 1}\n', encoding="utf-8")
    Path("binary").write_bytes(b"\xff\n")
    done = filled("audit", *line.split())
    assert (done.code, message in done.said + done.out) == (2, True), done.err
