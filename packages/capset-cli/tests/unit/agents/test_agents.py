"""``capset agents`` on a database here (spec 5, P4, P5, P7)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from capset import Kernel
from capset_connect.mcp.server import McpServer
from capset_connect.pins.offers import examined
from capset_connect.pins.tool_pins import pin_of
from tests.helpers.cli.support import Run

FILE = """
name: keeper
system_prompt: Keep.
capabilities: [test_math]
model: openai:gpt-9
static_context: {tier: pro}
tags: [one]
"""


@pytest.fixture
def made(run: Run, tmp_path: Path) -> dict[str, Any]:
    """Give an agent that was just made from a file."""
    (tmp_path / "keeper.yaml").write_text(FILE)
    done = run("agents", "create", "keeper.yaml", "--principal", "ada", "--json")
    assert done.code == 0, done.out
    return done.json


def change(run: Run, agent: str, **patch: Any) -> dict[str, Any]:
    done = run("agents", "change", agent, json.dumps(patch), "--json")
    assert done.code == 0, done.out
    return done.json


@pytest.mark.spec("P4", "P7")
def test_an_agent_is_made_shown_changed_and_archived(run: Run, made: dict[str, Any]) -> None:
    assert (made["version"], made["author"], made["model"]) == (1, "user:ada", "openai:gpt-9")
    assert (made["static_context"], made["tags"]) == ({"tier": "pro"}, ["one"])
    assert run("agents", "show", made["id"], "--json").json == made
    changed = change(run, made["id"], static_context={"tier": None, "depth": [1]}, tags=None)
    assert (changed["static_context"], changed["tags"], changed["version"]) == ({"depth": [1]}, [], 2)
    assert changed["author"] == "user:local"
    late = run("agents", "change", made["id"], "{}", "--if-version", "1", "--json")
    assert (late.code, late.json["error"]["code"]) == (2, "outdated")
    done = run("agents", "archive", made["id"])
    assert (done.code, done.out) == (0, f"keeper {made['id']} has version 3 (archived)\n")
    (entry,) = run("agents", "list", "--status", "archived", "--json").json["items"]
    assert (entry["id"], entry["version"]) == (made["id"], 3)
    assert run("agents", "list", "--status", "active", "--json").json["items"] == []
    assert "keeper" in run("agents", "list").out
    details = run("agents", "show", made["id"]).out
    assert "openai:gpt-9" in details
    assert '"depth"' in details


@pytest.mark.spec("P5", "P7")
def test_its_versions_are_listed_compared_and_brought_back(run: Run, made: dict[str, Any]) -> None:
    second = change(run, made["id"], capabilities=["noop"], description="Less.")
    page = run("agents", "versions", made["id"], "--limit", "1", "--json").json
    assert ([version["version"] for version in page["items"]], page["next"]) == ([2], "2")
    page = run("agents", "versions", made["id"], "--before", "2", "--json").json
    assert [(version["version"], version["author"]) for version in page["items"]] == [(1, "user:ada")]
    assert "user:ada" in run("agents", "versions", made["id"]).out
    assert run("agents", "show", made["id"], "--version", "1", "--json").json == made
    diff = run("agents", "diff", made["id"], "1", "2", "--exit-code", "--json")
    assert (diff.code, diff.json["before"], diff.json["after"]) == (3, 1, 2)
    assert [field["path"] for field in diff.json["fields"]] == [
        "capabilities[noop]",
        "capabilities[test_math]",
        "description",
    ]
    assert diff.json["composition"]["hashes"]["static"]["after"] == second["static_hash"]
    printed = run("agents", "diff", made["id"], "1").out
    assert "+ capabilities[noop] noop" in printed
    assert "- tool add" in printed
    assert run("agents", "diff", made["id"], "2", "2", "--exit-code").code == 0
    back = run("agents", "rollback", made["id"], "1", "--json").json
    assert (back["version"], back["static_hash"]) == (3, made["static_hash"])
    assert run("agents", "rollback", made["id"], "9").code == 2


@pytest.mark.spec("P7")
def test_a_preview_keeps_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(FILE)
    done = run("agents", "preview", "a.yaml", "--json")
    assert (done.code, done.json["valid"]) == (0, True)
    assert "Keep." in done.json["snapshot"]["system_text"]
    assert not (tmp_path / "capset.db").exists(), "a file needs no database"
    assert "add" in run("agents", "preview", "a.yaml").out
    (tmp_path / "b.yaml").write_text("name: b\ncapabilities: [test_maths, database]")
    wrong = run("agents", "preview", "b.yaml", "--json")
    assert (wrong.code, wrong.json["valid"], wrong.json["needs_admin"]) == (2, False, ["database"])
    assert "capabilities.0" in run("agents", "preview", "b.yaml").said
    assert run("agents", "preview", "a.yaml", "{}").code == 2
    assert run("agents", "preview", "missing.yaml").code == 2


@pytest.mark.spec("P7")
def test_a_change_is_previewed(run: Run, made: dict[str, Any]) -> None:
    as_it_is = run("agents", "preview", made["id"], "--json").json
    assert as_it_is["snapshot"]["static_hash"] == made["static_hash"]
    less = run("agents", "preview", made["id"], '{"capabilities": []}', "--json").json
    assert less["snapshot"]["tools"] == []
    assert run("agents", "show", made["id"], "--json").json == made


@pytest.mark.spec("P3", "P14")
def test_whose_agents_they_are_and_what_cannot_be(run: Run, made: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "risky.yaml").write_text("name: risky\ncapabilities: [database]")
    risky = run("agents", "create", "risky.yaml", "--org", "acme", "--json")
    assert risky.code == 0, "whoever has the database is its administrator"
    assert [agent["id"] for agent in run("agents", "list", "--org", "acme", "--json").json["items"]] == [
        risky.json["id"]
    ]
    gone = run("agents", "show", made["id"], "--org", "acme", "--json")
    assert (gone.code, gone.json["error"]["code"]) == (2, "not_found")
    for text in ("[]", "name: [", "name: a\nnme: b", "name: a\nstatic_context: {since: 2026-01-01}"):
        (tmp_path / "wrong.yaml").write_text(text)
        assert run("agents", "create", "wrong.yaml").code == 2, text
    assert run("agents", "change", made["id"], "[]").code == 2
    assert run("agents", "list", "--status", "asleep").code == 2
    assert run("agents", "list", "--db", "nowhere.db").code == 2


@pytest.mark.spec("M26", "P16")
def test_an_agent_of_a_file_has_servers_of_its_own_until_it_drops_them(run: Run, tmp_path: Path) -> None:
    async def approve(agent: str) -> None:
        async with Kernel(store="sqlite:///capset.db") as kernel:
            source = McpServer(name="shop", agent=agent, url="http://127.0.0.1:8123/mcp")
            offer = examined("sell", "shop_sell", {"name": "sell", "inputSchema": {"type": "object"}})
            await kernel.store.pins.change(source.pin_key, [pin_of(source, offer, "root", kernel.now())])

    declared = {"shop": {"url": "http://127.0.0.1:8123/mcp"}}
    definition = {"name": "seller", "capabilities": ["mcp:shop"], "mcp_servers": declared}
    (tmp_path / "seller.json").write_text(json.dumps(definition))
    seller = run("agents", "create", "seller.json", "--json").json
    assert seller["mcp_servers"] == declared
    asyncio.run(approve(seller["id"]))
    first = run("call", "shop_sell", "--agent", seller["id"], "--args", "{}", "--json").json
    assert "leads to an address that is not public" in first["error"]["message"], "the tool is there; its server is not"
    session = run("sessions", "create", seller["id"], "--json").json["id"]
    assert run("agents", "change", seller["id"], '{"mcp_servers": null, "capabilities": []}').code == 0
    second = run("call", "shop_sell", "--session", session, "--args", "{}", "--json").json
    assert "is no longer declared" in second["error"]["message"], "in sessions that were open before, too"
    (tmp_path / "sh.json").write_text(json.dumps({"name": "a", "mcp_servers": {"shop": {"command": ["sh"]}}}))
    refused = run("agents", "create", "sh.json")
    assert (refused.code, "command: only the operator" in refused.said) == (2, True)
