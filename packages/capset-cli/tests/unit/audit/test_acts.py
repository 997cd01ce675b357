"""Administrative acts on the command line: every command that changes a database leaves a record (G39, G40)."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from capset.definitions.governance.acts import ACTS
from capset_cli.app import app
from tests.helpers.cli.support import ADD, Run

ACT_OF = {
    "key create": "key.create",
    "key revoke": "key.revoke",
    "agents create": "agent.create",
    "agents change": "agent.change",
    "agents rollback": "agent.change",
    "agents archive": "agent.archive",
    "agents approve": "mcp.approve",
    "agents withdraw": "mcp.approve",
    "sessions move": "session.move",
    "sessions delete": "session.delete",
    "sessions rewind": "session.rewind",
    "approvals approve": "approval.approve",
    "approvals reject": "approval.reject",
    "runs show": "run.read",
    "runs tail": "run.read",
    "audit query": "log.read",
    "audit tail": "log.read",
    "audit export": "log.read",
    "audit prune": "log.prune",
    "audit succeed": "checkpoint_key.succeed",
    "db restore": "database.restore",
    "serve": "checkpoint_key.adopt",
    "gateway serve": "checkpoint_key.adopt",
    "gateway import": "mcp.approve",
    "mcp approve": "mcp.approve",
    "mcp withdraw": "mcp.approve",
    "mcp lock": "mcp.approve",
    "people add": "person.add",
    "people remove": "person.remove",
    "deliveries retry": "delivery.retry",
    "connect": "credential.connect",
    "connections disconnect": "credential.disconnect",
    "connections revoke": "credential.disconnect",
    "connections delegate": "delegation.create",
    "connections end": "delegation.end",
}
READS = "reads, and changes nothing"
CALLS = "what it calls is on record"
EXEMPT = {
    **dict.fromkeys(
        ("list", "describe", "check", "compose", "fingerprint", "diff", "schema", "export", "db check"), READS
    ),
    **dict.fromkeys(
        ("key list", "agents list", "agents show", "agents versions", "agents diff", "agents tools"), READS
    ),
    **dict.fromkeys(("agents preview", "sessions list", "sessions show", "sessions state", "sessions events"), READS),
    **dict.fromkeys(("approvals list", "approvals show", "audit checkpoints", "audit verify", "audit pin"), READS),
    "audit key": READS,
    **dict.fromkeys(("people list", "deliveries list", "runs list"), READS),
    **dict.fromkeys(("call", "bench", "kernel", "mcp serve", "replay", "demo", "run", "chat", "worker"), CALLS),
    **dict.fromkeys(("sessions create", "sessions fork"), "grants nothing: each call in it is on record with its id"),
    **dict.fromkeys(("mcp list", "mcp diff"), READS),
    **dict.fromkeys(("connections list", "connections credentials", "connections delegations", "vault check"), READS),
    "vault key": "writes a new key, and opens no database",
    "vault rotate": "wraps the same data keys, each of which names the key that wraps it",
    "import": "writes new files, and opens no database",
    "init": "writes new files, and opens no database",
    "doctor": READS,
    "audit keygen": "writes files, and opens no database",
    "audit checkpoint": "a checkpoint is a signed statement by itself",
    "db upgrade": "changes the shape of the tables, and names its revision in them",
    "db backup": "copies the file, as those who can read it may without this",
}
"""The commands that leave no act, each with the reason."""


def commands(group: object, *names: str) -> Iterator[str]:
    inner: dict[str, object] = getattr(group, "commands", {})
    for name, command in inner.items():
        yield from commands(command, *names, name)
    if not inner:
        yield " ".join(names)


@pytest.mark.spec("G39")
def test_every_command_has_an_act_or_a_reason() -> None:
    existing, covered = set(commands(typer.main.get_command(app))), ACT_OF.keys() | EXEMPT.keys()
    missing, gone = sorted(existing - covered), sorted(covered - existing)
    assert not missing, f"{missing}: put the act into ACT_OF of {__name__}, or the reason why there is none into EXEMPT"
    assert not gone, f"{gone} in ACT_OF or EXEMPT of {__name__} are no commands"
    assert not ACT_OF.keys() & EXEMPT.keys()
    over_rest_or_by_signal = {"file.write", "file.delete", "config.reload", "conversation.read", "approval.show"}
    over_rest_or_by_signal |= {"schedule.create", "schedule.change", "schedule.delete"}
    by_code = {"api.approve"}
    by_time = {"approval.escalate"}
    elsewhere = over_rest_or_by_signal | by_code | by_time
    untried = sorted(set(ACTS) - set(ACT_OF.values()) - elsewhere)
    assert not untried, f"{untried}: in {__name__}, say which command leaves that act, or else where it comes from"
    assert set(ACT_OF.values()) | elsewhere <= set(ACTS)


def acts(run: Run) -> list[dict[str, Any]]:
    """Return the acts on the chain, oldest first, without those of the export itself."""
    rows = [json.loads(line) for line in run("audit", "export").out.splitlines()]
    exported_acts = [row for row in rows if row.get("phase") == "act"]
    assert [row["act"] for row in exported_acts[-2:]] == ["checkpoint_key.adopt", "log.read"]
    return exported_acts[:-2]


def done(run: Run, *words: str) -> Any:
    completed = run(*words, "--json")
    assert completed.code == 0, completed.err
    return completed.json


@pytest.mark.spec("G39", "G40")
def test_every_command_that_changes_something_is_on_the_chain(run: Run) -> None:
    key = done(run, "key", "create", "ci", "--principal", "bot", "--org", "acme")
    done(run, "key", "revoke", key["id"])
    done(run, "key", "revoke", key["id"])
    assert run("key", "revoke", "nothing").code == 2
    Path("agent.json").write_text('{"name": "adder", "capabilities": ["test_math"]}')
    agent = done(run, "agents", "create", "agent.json", "--principal", "eve", "--org", "acme")["id"]
    of_acme = ("--principal", "eve", "--org", "acme")
    done(run, "agents", "change", agent, '{"description": "Adds."}', *of_acme)
    done(run, "agents", "change", agent, '{"description": "Adds."}', *of_acme)
    done(run, "agents", "rollback", agent, "1", *of_acme)
    session = done(run, "sessions", "create", agent, *of_acme)["id"]
    done(run, "sessions", "move", session, "--to", "1", *of_acme)
    done(run, "sessions", "delete", session, *of_acme)
    done(run, "agents", "archive", agent, *of_acme)
    rows = acts(run)
    assert [row["act"] for row in rows] == [
        "key.create",
        "key.revoke",
        "agent.create",
        "agent.change",
        "agent.change",
        "session.move",
        "session.delete",
        "agent.archive",
    ], "one for each change, and none for what changed nothing"
    assert {row["source"] for row in rows} == {f"cli {getpass.getuser()}"}
    assert [row["principal"] for row in rows] == ["local"] * 2 + ["eve"] * 6
    assert {row["org"] for row in rows} == {"acme"}
    assert {row["agent"] for row in rows[2:]} == {"adder"}
    about = [json.loads(row["arguments"]) for row in rows]
    assert (about[0]["id"], about[0]["principal"], about[0]["scopes"]) == (
        key["id"],
        "user:bot",
        ["capset:read", "capset:call"],
    )
    assert (about[3]["version"], about[3]["changed"]) == (2, ["description"])
    assert key["key"] not in json.dumps(rows), "no secrets"
    assert run("audit", "verify").code == 0


@pytest.mark.spec("G40")
def test_reading_the_log_is_on_record_once_a_command(run: Run) -> None:
    for _ in range(3):
        assert run(*ADD).code == 0
    for words in (("query", "--tool", "add"), ("tail",), ("export",)):
        assert run("audit", *words).code == 0
    assert run("audit", "query", "--act", "log.raed").code == 2
    records = done(run, "audit", "query", "--act", "log.read")["items"]
    assert [record["arguments"]["by"] for record in records] == ["chain", "tail", "query"], "newest first"
    assert records[2]["arguments"]["tool"] == "add"
    both = done(run, "audit", "query", "--kind", "all", "--limit", "5")
    assert [record["phase"] for record in both["items"]] == ["act"] * 5, "the first export sets the key of the log"
    more = done(run, "audit", "query", "--kind", "all", "--before", str(both["next"]))
    assert [record["phase"] for record in more["items"]] == ["outcome"] * 3
    assert {record["phase"] for record in done(run, "audit", "query")["items"]} == {"outcome"}, "calls, by default"
    output = run("audit", "query", "--act", "log.read", "--limit", "1").out
    assert "log.read" in output
    assert f"cli {getpass.getuser()}" in " ".join(output.split())
