"""``capset demo``: the main job on real files, whatever the files are."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset import Capability, Registry, ToolError, tool
from capset.extras import install_command
from tests.helpers.cli.permissions import heed_permissions
from tests.helpers.cli.support import Command, Done, Run
from tests.helpers.server.running import running
from tests.helpers.tools.sandbox.support import without_namespaces
from tests.waiting import wait_until

TIMEOUT = 240


def demo(capset: Command, *folders: str, **options: Any) -> Done:
    """Run the demo to its end, which is a good one."""
    done = capset("demo", *folders, timeout=TIMEOUT, **options)
    assert done.code == 0, done.err
    return done


def records_of(capset: Command, folder: str = "capset-demo") -> list[dict[str, object]]:
    """Return the records of a run's first half, once its chain is verified."""
    database = f"{folder}/capset.db"
    assert capset("audit", "verify", "--db", database).code == 0
    records = capset("audit", "query", "--limit", "1000", "--db", database, "--json").json["items"]
    return [record for record in records if record["org"] is None and not is_of_the_turn(record)]


def is_of_the_turn(record: dict[str, object]) -> bool:
    """Return whether a model asked for the call."""
    return str(record["causation"]).startswith("call-")


@pytest.mark.nightly
def test_by_itself_it_reads_real_files_and_proves_what_it_did(capset: Command) -> None:
    done = demo(capset)
    for phrase in ("consistent: ", "every hash holds", "exported: capset-demo/report.md", "Permission denied: visitor"):
        assert phrase in done.out
    records = records_of(capset)
    codes = [record["code"] for record in records if record["code"]]
    refusals = ["address_refused", "invalid_arguments", "permission_denied"]
    assert sorted(map(str, codes)) == refusals, "an address of the cloud's, one 422, one 403"
    assert len(records) >= 25, "two dozen calls, and three that are refused"
    assert {str(record["tool"]) for record in records} >= {
        *("list_directory", "stat_file", "grep_files", "read_file", "write_file", "add", "divide", "write_todos"),
        *("web_fetch", "research_fetch", "research_note", "research_search", "research_report", "execute_code"),
    }
    for record in records:
        assert str(record["tool"]) in done.out
        assert str(record["hash"])[:8] in done.out
    header = next(line.split() for line in done.out.splitlines() if line.startswith("SEQ"))
    assert header == ["SEQ", "PRINCIPAL", "TOOL", "DECISION", "OUTCOME", "ms", "RUNTIME", "HASH"]
    report = (capset.folder / "capset-demo" / "report.md").read_text(encoding="utf-8")
    assert report.startswith("# What is in these files")
    assert "The word *hash* stands in" in report
    research = (capset.folder / "capset-demo" / "research.md").read_text(encoding="utf-8")
    assert research.startswith("# What was read and checked\n\n- The report adds up the largest files. [1]")
    assert "Added up again" in research
    (capset.folder / "texts").mkdir()
    assert demo(capset, "texts").out.startswith("librarian with"), "once more, beside the first"
    assert (capset.folder / "capset-demo-2" / "report.md").is_file()
    assert records_of(capset) == records, "and the first stays as it was"


def test_a_call_that_fails_is_told_and_what_there_is_is_concluded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    @tool(effect="read")
    async def divide(a: float, b: float) -> dict[str, float]:
        """Fail."""
        raise ToolError(f"[b]no[/] division of {a} by {b} today")

    @tool(effect="read")
    async def add(a: float, b: float) -> dict[str, float]:
        """Add."""
        return {"result": a + b}

    others = [capability for name, capability in Registry.installed().capabilities.items() if name != "test_math"]
    registry = Registry.of([*others, Capability("test_math", tools=[add, divide])])
    monkeypatch.setattr(Registry, "installed", lambda: registry)
    Path("empty").mkdir()
    done = run("demo", "empty")
    assert done.code == 1
    assert done.err == "not as expected: test_math.divide failed: [b]no[/] division of 0.0 by 1.0 today\n"
    assert "consistent: 3 records, every hash holds" in done.out
    assert "exported" not in done.out, "there is no report yet"
    divided = run("audit", "query", "--tool", "divide", "--db", "capset-demo/capset.db", "--json").json
    assert [record["outcome"] for record in divided["items"]] == ["failed"]


def odd_folder(folder: Path) -> Path:
    """Make a folder with everything that a folder should not hold."""
    folder.mkdir()
    (folder / "good.md").write_text("# Heading\na hash\n", encoding="utf-8")
    (folder / "ünï cødé 😀.txt").write_text("hash", encoding="utf-8")
    (folder / "new\nline [red]x :smile: \x1b[31m.txt").write_text("hash", encoding="utf-8")
    (folder / ("n" * 255)).write_text("hash", encoding="utf-8")
    (folder / "binary.dat").write_bytes(bytes(range(256)))
    (folder / "nul.txt").write_bytes(b"a\0b")
    (folder / "huge.txt").write_bytes(b"x" * 1_000_001)
    (folder / "empty.md").touch()
    (folder / os.fsdecode(b"latin-\xe9.txt")).touch()
    (folder / ".hidden").write_text("hash", encoding="utf-8")
    (folder / "link").symlink_to("/etc")
    (folder / "alias.md").symlink_to("good.md")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    (folder / "a[").mkdir()
    (folder / "a[" / "b].txt").write_text("hash", encoding="utf-8")
    (folder / "locked").mkdir()
    (folder / "locked" / "in.txt").write_text("hash", encoding="utf-8")
    (folder / "locked").chmod(0)
    (folder / "secret.txt").write_text("hash", encoding="utf-8")
    (folder / "secret.txt").chmod(0)
    deep = folder
    for _ in range(70):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "f.txt").write_text("hash", encoding="utf-8")
    return folder


@pytest.mark.nightly
def test_what_cannot_be_read_is_skipped_by_name(capset: Command) -> None:
    odd = odd_folder(capset.folder / "odd")
    try:
        done = demo(capset, "odd", preexec_fn=heed_permissions)
    finally:
        (odd / "locked").chmod(0o755)
    skipped = dict(line.removeprefix("skipped odd/").split(": ", 1) for line in done.err.splitlines())
    assert skipped == {
        "d/" * 70 + "f.txt": "a path must be at most 64 levels deep; got 72",
        "binary.dat": "not UTF-8 text",
        "nul.txt": "not text: it contains NUL",
        "huge.txt": "1,000,001 bytes are more than 1,000,000",
        "locked": "Permission denied",
        "secret.txt": "Permission denied",
        "latin-\\udce9.txt": "a path must be valid Unicode, without lone surrogates",
    }
    assert "6 files, " in done.out
    records_of(capset)


@pytest.mark.nightly
def test_many_files_that_are_skipped_for_one_reason_are_one_line(capset: Command) -> None:
    (capset.folder / "odd").mkdir()
    for number in range(5):
        (capset.folder / "odd" / f"{number}.bin").write_bytes(b"\xff")
    (capset.folder / "odd" / "note.txt").write_text("hash", encoding="utf-8")
    done = demo(capset, "odd")
    lines = [line for line in done.err.splitlines() if line.startswith("skipped")]
    assert lines == ["skipped 5 files, odd/0.bin and others: not UTF-8 text"]


@pytest.mark.nightly
def test_on_a_terminal_the_names_of_files_are_no_markup(capset: Command) -> None:
    (capset.folder / "odd" / "a[").mkdir(parents=True)
    (capset.folder / "odd" / "a[" / "b].txt").write_text("hash", encoding="utf-8")
    ours, theirs = pty.openpty()
    with capset.start("demo", "odd", stderr=theirs) as process:
        os.close(theirs)
        out, _ = process.communicate(timeout=TIMEOUT)
    os.close(ours)
    assert process.returncode == 0
    assert "1 file, 4 bytes" in out


@pytest.mark.realtime
@pytest.mark.nightly
def test_folders_of_nearly_endless_depth(capset: Command) -> None:
    folder = os.open(capset.folder, os.O_RDONLY)
    for name in ("abyss", *["d"] * 1_500):
        os.mkdir(name, dir_fd=folder)
        inner = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    try:
        assert "0 files, 0 bytes" in demo(capset, "abyss").out
    finally:
        subprocess.run(["rm", "-rf", capset.folder / "abyss"], check=True)  # too deep for shutil, and so for pytest


def test_every_door_of_the_server_leaves_its_record(capset: Command) -> None:
    (capset.folder / "texts").mkdir()
    (capset.folder / "texts" / "a.txt").write_text("every agent every day\n")
    doors = demo(capset, "texts", "--json").json["doors"]
    assert [(door["door"], door["tool"]) for door in doors] == [
        ("rest", "add"),
        ("stream", "count_words"),
        ("mcp", "list_directory"),
    ]
    assert len({door["runtime_hash"] for door in doors}) == 1
    records = capset("audit", "query", "--principal", "client", "--db", "capset-demo/capset.db", "--json").json["items"]
    records = [record for record in records if record["agent"] == "surveyor"]
    assert [door["record"] for door in doors] == [record["id"] for record in reversed(records)]
    assert {record["org"] for record in records} == {"demo"}
    log = (capset.folder / "capset-demo" / "server.log").read_text(encoding="utf-8")
    assert all(door["record"] in log for door in doors[:2])
    assert "every day" not in log


@pytest.mark.spec("G18", "G36")
def test_somebody_else_approves_a_call_and_two_openings_share_a_limit(capset: Command) -> None:
    (capset.folder / "empty").mkdir()
    shape = demo(capset, "empty", "--json").json
    calls = shape["oversight"]
    assert [(call["tool"], call.get("code")) for call in calls] == [
        *(("publish", "approval_required"), ("publish", "approval_required"), ("publish", None)),
        *(("announce", None), ("announce", None), ("announce", "limit_exceeded")),
    ]
    assert calls[0]["approval"] == calls[1]["approval"], "an equal call meets the request that is open for it"
    database_options = ("--db", "capset-demo/capset.db", "--json")
    (request,) = capset("approvals", "list", "--org", "demo", *database_options).json["items"]
    assert (request["id"], request["status"], request["decided_by"]) == (calls[0]["approval"], "used", "user:editor")
    records = capset("audit", "query", "--principal", "client", *database_options).json["items"]
    records = {record["id"]: record for record in records if record["tool"] in ("publish", "announce")}
    assert [records[call["record"]]["outcome"] for call in calls] == [
        *("pending", "pending", "succeeded", "succeeded", "succeeded", "limited"),
    ]
    assert [records[call["record"]]["agent"] for call in calls[3:]] == ["editor", "announcer", "editor"]
    assert capset("audit", "verify", *database_options[:2]).code == 0


@pytest.mark.spec("R7")
def test_the_agent_runs_and_waits_for_an_approval(capset: Command) -> None:
    (capset.folder / "empty").mkdir()
    shape = demo(capset, "empty", "--json").json
    assert [(call["tool"], call.get("code")) for call in shape["turn"]] == [
        *(("write_todos", None), ("grep_files", None), ("shred", "permission_denied")),
        *(("write_file", None), ("file_report", None)),
    ]
    database_options = ("--db", "capset-demo/capset.db", "--json")
    items = capset("audit", "query", *database_options).json["items"]
    records = [record for record in items if is_of_the_turn(record) and record["agent"] == "librarian"]
    assert {record["principal"] for record in records} == {"analyst"}
    assert len({record["correlation"] for record in records}) == 1
    (request,) = [
        entry
        for entry in capset("approvals", "list", *database_options).json["items"]
        if entry["tool"] == "file_report"
    ]
    assert (request["status"], request["decided_by"]) == ("used", "user:editor")
    assert capset("audit", "verify", *database_options[:2]).code == 0


@pytest.mark.realtime
@pytest.mark.spec("N15")
def test_the_chat_that_it_leaves_goes_on_once_its_request_is_approved(capset: Command) -> None:
    (capset.folder / "empty").mkdir()
    last = demo(capset, "empty").out.splitlines()[-1]
    database = ("--db", "capset-demo/capset.db", "--json")
    (request,) = capset("approvals", "list", "--status", "pending", *database).json["items"]
    assert (request["tool"], request["principal"]) == ("refund_order", "user:clerk")
    serve, *options, _ = shlex.split(last.partition("capset ")[2])
    with running(capset.folder, *options, verb=serve) as server:
        approve = httpx2.post(f"{server.url}/v1/approvals/{request['id']}/approve", json={}, trust_env=False)
        assert approve.status_code == 200, approve.text

        def ended() -> bool:
            events = capset("sessions", "events", request["session"], *database, "--principal", "clerk").out
            return "Order 7 is refunded." in events

        wait_until(ended, "the chat to go on")


def test_as_json_it_is_one_object_that_says_what_was_done(capset: Command) -> None:
    (capset.folder / "texts").mkdir()
    (capset.folder / "texts" / "a.txt").write_text("a hash\n")
    shape = demo(capset, "texts", "--json").json
    assert (shape["folder"], shape["report"]) == ("capset-demo", "capset-demo/report.md")
    assert shape["research"] == "capset-demo/research.md"
    assert (shape["files"], shape["size_bytes"], shape["skipped"], shape["surprises"]) == (1, 7, [], [])
    assert shape["verification"]["ok"] is True
    assert shape["records"]["items"] == records_of(capset)


@pytest.mark.nightly
def test_an_empty_folder_is_worked_on_all_the_same(capset: Command) -> None:
    (capset.folder / "empty" / "inner").mkdir(parents=True)
    assert "0 files, 0 bytes" in demo(capset, "empty").out
    assert len(records_of(capset)) >= 10
    assert "0 files." in (capset.folder / "capset-demo" / "report.md").read_text(encoding="utf-8")


@pytest.mark.nightly
def test_several_folders_and_a_place_for_the_result(capset: Command) -> None:
    for name in ("one", "two"):
        (capset.folder / name).mkdir()
        (capset.folder / name / "a.txt").write_text("hash", encoding="utf-8")
    done = demo(capset, "one", "two", "--into", "here/and there")
    assert "2 files, 8 bytes" in done.out
    assert "exported: here/and there/capset-demo/report.md" in done.out
    report = (capset.folder / "here/and there/capset-demo/report.md").read_text(encoding="utf-8")
    assert "/one/a.txt" in report
    assert "/two/a.txt" in report


def test_folders_that_cannot_be_used_are_refused_before_anything_is_made(capset: Command) -> None:
    (capset.folder / "file.txt").touch()
    for folder in ("one/same", "two/same"):
        (capset.folder / folder).mkdir(parents=True)
    for folders, problem in (
        (["missing"], "not a folder: missing"),
        (["file.txt", "missing", "one"], "not a folder: file.txt, missing"),
        (["one/same", "two/same"], "two folders are named 'same'"),
        (["one", "--into", "file.txt"], "file.txt/capset-demo cannot be created: Not a directory"),
    ):
        done = capset("demo", *folders)
        assert (done.code, done.out) == (2, "")
        assert problem in done.said
    assert not (capset.folder / "capset-demo").exists()


@pytest.mark.realtime
def test_where_nothing_can_be_jailed_it_shows_that_bash_is_refused(run: Run, tmp_path: Path) -> None:
    Path("empty").mkdir()
    with without_namespaces(tmp_path):
        done = run("demo", "empty")
    assert done.code == 0, done.err
    refused = next(line for line in done.out.splitlines() if '"language": "bash"' in line)
    assert refused.startswith("✗ execute_code")
    codes = run("audit", "query", "--tool", "execute_code", "--db", "capset-demo/capset.db", "--json").json["items"]
    assert [record["code"] for record in codes if record["code"]] == ["sandbox_unavailable"]


def test_without_the_extras_of_a_part_it_does_the_others_and_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset_cli.demo.web.missing_modules", lambda *_: ["pydantic_monty"])
    Path("empty").mkdir()
    done = run("demo", "empty", "--json")
    assert done.code == 0
    assert "research" not in done.json
    assert f"skipped: this needs {install_command('web', 'sandbox')} (pydantic_monty)" in done.err
