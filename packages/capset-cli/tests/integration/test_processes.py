"""The command among other processes: pipes that close, streams that fail, signals."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.helpers.cli.processes import closed
from tests.helpers.cli.support import ADD, Command, intents_in
from tests.waiting import wait_until

WAIT = ("call", "workshop.wait", "--args", '{"seconds": 60}')


def unread(capset: Command, *arguments: str) -> tuple[int, str]:
    """Return the exit code and stderr of a command that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    with capset.start(*arguments, stdout=writing) as process:
        os.close(writing)
        _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.realtime
def test_what_nobody_reads_is_1_and_nothing_is_said(capset: Command) -> None:
    for arguments in (("list",), ("list", "--json"), ("describe", "session_file_system")):
        assert unread(capset, *arguments) == (1, ""), arguments


@pytest.mark.realtime
def test_what_has_come_to_its_end_keeps_its_meaning_when_nobody_reads_it(capset: Command) -> None:
    refused = ("call", "test_math.add", "--json")
    assert unread(capset, *ADD)[0] == unread(capset, *ADD, "--json")[0] == 0
    assert unread(capset, *refused) == (3, "")
    assert unread(capset, "audit", "verify") == unread(capset, "audit", "verify", "--json") == (0, "")
    with sqlite3.connect(capset.folder / "capset.db") as database:
        database.execute("UPDATE records SET arguments = '{}' WHERE seq = 1")
    database.close()
    assert unread(capset, "audit", "verify", "--json") == (3, "")


@pytest.mark.realtime
def test_what_was_bad_input_stays_so_when_nobody_reads_it(capset: Command) -> None:
    code, err = unread(capset, "describe", "nobody", "--json")
    assert code == 2
    assert err.startswith("error: unknown capability 'nobody'")


@pytest.mark.realtime
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_an_output_without_room_is_one_line_and_1(flags: tuple[str, ...], capset: Command) -> None:
    with Path("/dev/full").open("w") as full, capset.start("list", *flags, stdout=full) as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, "error: No space left on device\n")


@pytest.mark.nightly
def test_streams_that_are_closed_are_nobody(capset: Command) -> None:
    assert capset("list", **closed(1)) == capset("list", "--json", **closed(1))
    assert capset("list", **closed(1)).code == 0
    assert capset("describe", "nobody", **closed(2)).code == 2


@pytest.mark.nightly
def test_a_stream_of_few_characters_takes_every_text(capset: Command) -> None:
    (capset.folder / "a.yaml").write_text("name: a\nsystem_prompt: “Ünïcode” 😀\n", encoding="utf-8")
    narrow = {"PYTHONIOENCODING": "ascii"}
    text = capset("compose", "a.yaml", env=narrow)
    assert text.code == 0
    assert "\\u201c\\xdcn\\xefcode\\u201d \\U0001f600" in text.out
    program = capset("compose", "a.yaml", "--json", env=narrow)
    assert program.json["system_prompt"] == "“Ünïcode” 😀"


def started(workshop: Command) -> subprocess.Popen[str]:
    """Start a call that waits, and return once its intent is on record."""
    process, leases = workshop.start(*WAIT), workshop.folder / "capset.db-writers"

    def has_begun() -> bool:
        assert process.poll() is None, process.communicate()
        # A writer takes a lease for its first intent. Until then its database is left alone, which it may be making.
        return leases.is_dir() and any(leases.iterdir()) and bool(intents_in(workshop.folder))

    wait_until(has_begun, "the intent of the call to be on record")
    return process


@pytest.mark.realtime
@pytest.mark.spec("G19", "K15")
def test_ctrl_c_cancels_the_call_and_says_so_on_record(workshop: Command) -> None:
    with started(workshop) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    (record,) = workshop("audit", "query", "--json").json["items"]
    assert (record["outcome"], record["tool"]) == ("cancelled", "wait")
    assert workshop("audit", "verify", "--json").json == {"ok": True, "checked": 3, "vouched": False}


@pytest.mark.realtime
@pytest.mark.spec("G19", "G23")
def test_a_killed_call_is_interrupted_on_record(workshop: Command) -> None:
    with started(workshop) as process:
        process.kill()
        process.communicate(timeout=30)
    (record,) = workshop("audit", "query", "--json").json["items"]
    assert (record["outcome"], record["tool"]) == ("interrupted", "wait")
    assert workshop("audit", "verify", "--json").json == {"ok": True, "checked": 3, "vouched": False}
