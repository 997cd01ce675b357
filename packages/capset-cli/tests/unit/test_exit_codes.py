"""0 done, 1 the tool or the environment failed, 2 bad usage or input, 3 refused, not verified, or different."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli.support import ADD, Run


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "--version",
        "list",
        "list --json",
        "describe noop",
        "describe test_math.add --json",
        'call test_math.add --args {"a":1,"b":2}',
        "call current_time.get_current_time",
        "compose agent.yaml",
        "compose agent.yaml --json",
        "audit query",
        "audit verify",
        "audit query --outcome denied --principal nobody --session none --correlation none --tool none",
    ],
)
def test_what_is_done_ends_with_0(line: str, run: Run) -> None:
    Path("agent.yaml").write_text("name: tester\ncapabilities: [noop]\n", encoding="utf-8")
    assert run(*ADD).code == 0, "there is a database to look at"
    done = run(*line.split())
    assert done.code == 0, done.err
    assert done.out or done.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "Usage"),
        ("audit", "Usage"),
        ("lsit", "Did you mean 'list'?"),
        ("mcp aprove --agent tools.yaml books", "Did you mean 'approve'?"),
        ("gateway imprt client.json", "Did you mean 'import'?"),
        ("gateway tools.yaml", "tools.yaml: cannot be read"),
        ("list extra", "unexpected extra argument"),
        ("list --jsno", "No such option: --jsno"),
        ("describe", "Missing argument"),
        ("describe test_mth", "unknown capability 'test_mth'; did you mean 'test_math'?"),
        ("describe test_math.ad", "unknown tool 'test_math.ad'; did you mean 'test_math.add'?"),
        (
            "describe xyzzy",
            "available: current_time, database, email, files, http, memory, memory:user, noop, research, sandbox, "
            "session_file_system, stateless_todo_list, …",
        ),
        ("call", "Missing argument"),
        ("call add", "CAPABILITY.TOOL; got 'add'"),
        ("call test_mth.add", "did you mean 'test_math'?"),
        ("call .add", "unknown capability ''"),
        ("call test_math.add --agent nobody", "unknown agent 'nobody'"),
        ("call test_math.add --agent nobody.yaml", "nobody.yaml: cannot be read: No such file or directory"),
        ("call add --session none", "there is no database at capset.db"),
        ("call add --session none --agent nobody", "give --agent or --session, not both"),
        ("call test_math.add --timeout 0", "--timeout must be a positive number"),
        ("call test_math.add --timeout -1", "--timeout must be a positive number"),
        ("call test_math.add --timeout nan", "--timeout must be a positive number"),
        ("call test_math.add --timeout soon", "Invalid value for '--timeout'"),
        ("call test_math.add --grant everything", "a permission must match"),
        ("compose", "Missing argument"),
        ("compose nobody.yaml", "nobody.yaml: cannot be read"),
        ("audit query", "there is no database at capset.db"),
        ("audit verify", "there is no database at capset.db"),
        ("audit query --outcome suceeded", "unknown outcome 'suceeded'; did you mean 'succeeded'?"),
        ("audit query --limit 0", "Invalid value for '--limit'"),
        ("audit query --limit 1001", "Invalid value for '--limit'"),
        ("audit query --before 0", "Invalid value for '--before'"),
        ("audit query --before 99999999999999999999", "Invalid value for '--before'"),
        ("demo nowhere", "not a folder: nowhere"),
    ],
)
def test_bad_usage_and_bad_input_end_with_2(line: str, message: str, run: Run) -> None:
    done = run(*line.split())
    assert done.code == 2
    assert message in " ".join(f"{done.out} {done.err}".replace("│", " ").split())
    assert not Path("capset.db").exists(), "what is refused so early leaves nothing behind"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("call test_math.ad", 404),
        ("call test_math.", 404),
        ('call session_file_system.read_file --args {"path":"/x"}', 403),
        ("call test_math.add", 422),
    ],
)
def test_a_refused_call_ends_with_3_and_is_on_record(line: str, status: int, run: Run) -> None:
    done = run(*line.split(), "--json")
    assert done.code == 3
    assert done.json["error"]["status"] == status
    (record,) = run("audit", "query", "--json").json["items"]
    assert record["id"] == done.json["record"]
    assert record["code"] == done.json["error"]["code"]


def test_a_tool_that_fails_ends_with_1_and_is_on_record(run: Run) -> None:
    done = run("call", "test_math.divide", "--args", '{"a": 1, "b": 0}', "--json")
    assert done.code == 1
    assert done.json["error"] | {"correlation": ""} == {
        "code": "division_by_zero",
        "status": 400,
        "message": "cannot divide by zero",
        "retryable": False,
        "correlation": "",
    }
    (record,) = run("audit", "query", "--outcome", "failed", "--json").json["items"]
    assert record["id"] == done.json["record"]
