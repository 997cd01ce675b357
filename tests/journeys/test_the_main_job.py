"""One call, its record and its proof: what the first minute with the command shows."""

from __future__ import annotations

import re
import sqlite3

import pytest

from tests.helpers.cli.support import ADD, Command

HASH = re.compile("[0-9a-f]{64}")
UUID7 = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.mark.spec("G19", "G22")
def test_a_call_its_refusal_their_records_and_a_changed_byte(capset: Command) -> None:
    done = capset(*ADD, "--json")
    assert (done.code, done.err) == (0, "")
    call = done.json
    assert call["success"] is True
    assert call["data"] == {"result": 5, "operation": "add", "a": 2, "b": 3}
    assert HASH.fullmatch(call["runtime_hash"])
    assert HASH.fullmatch(call["prompt_hash"])
    assert UUID7.fullmatch(call["record"])
    assert UUID7.fullmatch(call["session"])

    refused = capset("call", "test_math.add", "--args", '{"a": 2, "b": "x"}', "--json")
    assert (refused.code, refused.err) == (3, "")
    assert refused.json["success"] is False
    assert refused.json["error"]["status"] == 422
    assert [field["path"] for field in refused.json["error"]["fields"]] == ["b"]

    queried = capset("audit", "query", "--json")
    assert queried.code == 0
    newest, oldest = queried.json["items"]
    assert (newest["id"], newest["outcome"]) == (refused.json["record"], "invalid")
    assert (oldest["id"], oldest["outcome"]) == (call["record"], "succeeded")
    assert oldest["runtime_hash"] == newest["runtime_hash"] == call["runtime_hash"]
    assert oldest["arguments"] == {"a": 2, "b": 3}

    verified = capset("audit", "verify", "--json")
    assert (verified.code, verified.json) == (0, {"ok": True, "checked": 3, "vouched": False})

    with sqlite3.connect(capset.folder / "capset.db") as database:
        database.execute("UPDATE records SET arguments = replace(arguments, '3', '4') WHERE seq = 1")
    database.close()
    broken = capset("audit", "verify", "--json")
    assert broken.code == 3
    assert (broken.json["ok"], broken.json["checked"], broken.json["seq"]) == (False, 0, 1)
    report = capset("audit", "verify")
    assert report.code == 3
    assert "record 1 was changed" in report.err


def test_the_same_for_people(capset: Command) -> None:
    called = capset(*ADD)
    assert called.code == 0
    assert '"result": 5' in called.out
    record = re.search(r"^record (\S+)  session (\S+)$", called.err, re.MULTILINE)
    assert record, "the ids stand beside the result, not in it"
    refused = capset("call", "test_math.add", "--args", '{"b": "x", "c": 1}')
    assert (refused.code, refused.out) == (3, "")
    for problem in ("a: required, but missing", "b: Input should be a finite number", "c: no such parameter"):
        assert problem in refused.err
    table = capset("audit", "query", "--record", record[1])
    assert len(table.out.splitlines()) == 2, "a head, and the one record that was asked for"
    assert [name for name in ("SEQ", "add", "succeeded", "local") if name not in table.out] == []
    assert "consistent in itself: 3 records, every hash holds" in capset("audit", "verify").out


@pytest.mark.gate
@pytest.mark.realtime
def test_two_processes_write_one_chain(capset: Command) -> None:
    capset(*ADD)
    running = [capset.start(*ADD, "--json", "--principal", f"p{number}") for number in range(4)]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, ""), out
    verified = capset("audit", "verify", "--json")
    assert verified.json == {"ok": True, "checked": 5, "vouched": False}
    page = capset("audit", "query", "--json").json
    assert {item["principal"] for item in page["items"]} == {"local", "p0", "p1", "p2", "p3"}


@pytest.mark.realtime
def test_two_processes_make_one_database_together(capset: Command) -> None:
    running = [capset.start(*ADD) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    for process in running:
        process.communicate()
    assert capset("audit", "verify", "--json").json == {"ok": True, "checked": 3, "vouched": False}
