"""``--json``: one object on stdout, with exactly the documented keys, whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset.definitions.calls.records import COLUMNS
from tests.helpers.cli.support import ADD, FILES, Command, Run

RECORD = set(COLUMNS)
TOOL = {
    *("name", "description", "effect", "permissions", "policies", "schema", "output", "hash"),
    *("instructions", "examples", "idempotent", "approval", "limits"),
}


def test_a_call(run: Run) -> None:
    ids = {"record", "session", "runtime_hash", "prompt_hash"}
    assert set(run(*ADD, "--json").json) == {"success", "data", *ids}
    refused = run("call", "test_math.add", "--json")
    assert set(refused.json) == {"success", "error", "refused", *ids}
    assert refused.json["refused"] is True
    assert set(refused.json["error"]) == {"code", "status", "message", "retryable", "fields", "correlation"}
    assert set(refused.json["error"]["fields"][0]) == {"path", "expected"}
    misspelt = run("call", "test_math.add", "--args", '{"aa": 1, "b": 2}', "--json").json["error"]["fields"]
    assert {"path": "aa", "expected": "no such parameter", "did_you_mean": "a"} in misspelt


def test_a_command_that_came_to_no_call(run: Run) -> None:
    for line in ("call nobody.x", "describe nobody", "compose nobody.yaml", "audit verify", "audit query"):
        done = run(*line.split(), "--json")
        assert done.code == 2
        assert set(done.json) == {"success", "error"}
        assert done.json["success"] is False
        assert {"code", "status", "message", "retryable"} <= set(done.json["error"])
        assert done.err == ""


def test_the_list(run: Run) -> None:
    listing = run("list", "--json").json
    assert set(listing) == {"items", "total"}
    assert listing["total"] == len(listing["items"]) >= 5
    keys = {"id", "name", "description", "status", "icon", "category"}
    assert all(set(item) <= keys and {"id", "name", "description", "status"} <= set(item) for item in listing["items"])
    assert [item["id"] for item in listing["items"]] == sorted(item["id"] for item in listing["items"])
    testing = run("list", "--category", "Testing", "--json").json
    assert {item["id"] for item in testing["items"]} >= {"noop", "test_math", "test_weather"}
    assert {item["category"] for item in testing["items"]} == {"Testing"}


def test_a_description(run: Run) -> None:
    detail = run("describe", "test_math", "--json").json
    assert set(detail) == {
        *("id", "name", "description", "status", "icon", "category", "instructions", "tools"),
        *("risk", "aliases", "data", "expose", "secrets", "presets", "uses", "toolkits", "limits", "readiness"),
    }
    assert [tool["name"] for tool in detail["tools"]] == ["add", "subtract", "multiply", "divide"]
    assert all(set(tool) == TOOL for tool in detail["tools"])
    tool = run("describe", "test_math.add", "--json").json
    assert tool == detail["tools"][0]
    assert set(tool["schema"]["properties"]) == {"a", "b"}
    reading = run("describe", "session_file_system.read_file", "--json").json
    assert reading["schema"]["properties"]["limit"]["default"] is None, "null is a value here, and the hash covers it"


def test_a_composition(run: Run) -> None:
    Path("a.yaml").write_text("name: a\ncapabilities: [session_file_system]\n", encoding="utf-8")
    composed = run("compose", "a.yaml", "--json", *FILES[:2], "--principal", "ann").json
    assert set(composed) == {
        *("agent", "principal", "system_prompt", "instructions", "system_text", "capabilities", "tools", "notices"),
        *("static_hash", "runtime_hash", "prompt_hash", "profile", "uses", "dynamic", "explained"),
        *("decisions", "toolkits", "agent_name"),
    }
    assert (composed["agent"], composed["principal"]) == ("a", "ann")
    for tool in composed["tools"]:
        assert set(tool) == {
            *("name", "capability", "effect", "permissions", "hash", "in_play", "reason"),
            *("toolkits", "policies", "is_dynamic"),
        }
        assert tool["in_play"] == (tool["permissions"] == ["session_files:read"])
        assert tool["in_play"] or tool["reason"] == "ann lacks the permission session_files:write"


@pytest.mark.spec("G20")
def test_a_page_of_records(run: Run) -> None:
    for _ in range(3):
        run(*ADD)
    page = run("audit", "query", "--json", "--limit", "2").json
    assert set(page) == {"items", "next"}
    assert [item["seq"] for item in page["items"]] == [3, 2]
    assert page["next"] == 2
    for item in page["items"]:
        assert set(item) == RECORD, "what is absent in a record is null, so that every record has every key"
        assert item["arguments"] == {"a": 2, "b": 3}
        assert item["policies"] == []
    rest = run("audit", "query", "--json", "--limit", "2", "--before", str(page["next"])).json
    assert [item["seq"] for item in rest["items"]] == [1]
    assert "next" not in rest
    assert set(run("audit", "verify", "--json").json) == {"ok", "checked", "vouched"}


def test_null_is_data(workshop: Command) -> None:
    done = workshop("call", "workshop.nothing", "--json")
    assert done.code == 0
    assert ("data" in done.json, done.json["data"], "error" in done.json) == (True, None, False)


def test_the_log_does_not_mix_with_it(workshop: Command) -> None:
    done = workshop("call", "workshop.crash", "--json")
    assert done.json["error"]["code"] == "internal_error"
