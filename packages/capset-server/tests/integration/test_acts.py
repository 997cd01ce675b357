"""Administrative acts over REST: every path that changes something leaves a record of its own kind (G39, G40)."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset.definitions.governance.acts import ACTS
from capset_connect.vault.encryption import new_vault_key
from capset_server.app import make_api
from scripts.packages import ROOT
from tests.helpers.connect.mcp.urls import described, serving
from tests.helpers.connect.notifications.receiving import SECRET, receiver
from tests.helpers.net import support as net
from tests.helpers.server.running import EVERYTHING, Running, running
from tests.helpers.server.sse import events_of
from tests.waiting import until

Work = Callable[[httpx2.AsyncClient], Awaitable[httpx2.Response]]
ADD = {"tool": "add", "arguments": {"a": 1, "b": 2}}
AGENT = {"name": "adder", "capabilities": ["test_math", "session_file_system"]}

EXEMPT = {
    "preview_agent": "keeps nothing",
    "preview_agent_change": "keeps nothing",
    "check_config": "keeps nothing",
    "create_session": "grants nothing: each call in it is on record with its id",
    "call_tool": "its calls are records",
    "create_run": "the calls of a run are records, and its row and its events are kept",
    "cancel_run": "as create_run",
    "send_message": "the calls of the turn are records, and its events are kept",
    "fork_session": "grants nothing: each call in it is on record with its id",
    "cancel_turn": "an event of the turn says by whom",
    "resume_turn": "an event of the turn says that it goes on; its calls are records",
    "authorize_connection": "keeps only the way back, for ten minutes; completing it is an act",
    "record_link": "what it keeps is a record of its own, with the principal",
}
"""The operations that are neither reads nor acts, each with the reason."""


def mutating() -> set[str]:
    """Return the ids of the operations of the OpenAPI document that may change something."""
    paths = make_api().state.document["paths"]
    return {
        operation["operationId"]
        for methods in paths.values()
        for method, operation in methods.items()
        if method in ("post", "put", "patch", "delete")
    }


ACT_OF = {
    "create_agent": "agent.create",
    "change_agent": "agent.change",
    "rollback_agent": "agent.change",
    "archive_agent": "agent.archive",
    "change_session": "session.move",
    "rewind_session": "session.rewind",
    "delete_session": "session.delete",
    "write_file": "file.write",
    "delete_file": "file.delete",
    "approve": "approval.approve",
    "reject": "approval.reject",
    "decide_approvals": "approval.approve",
    "retry_delivery": "delivery.retry",
    "add_person": "person.add",
    "remove_person": "person.remove",
    "create_schedule": "schedule.create",
    "pause_schedule": "schedule.change",
    "resume_schedule": "schedule.change",
    "delete_schedule": "schedule.delete",
    "approve_agent_mcp_tools": "mcp.approve",
    "withdraw_agent_mcp_tools": "mcp.approve",
    "create_key": "key.create",
    "revoke_key": "key.revoke",
    "enter_key": "credential.connect",
    "complete_authorization": "credential.connect",
    "disconnect": "credential.disconnect",
    "revoke_credential": "credential.disconnect",
    "create_delegation": "delegation.create",
    "end_delegation": "delegation.end",
    "approve_source_tools": "mcp.approve",
    "withdraw_source_tools": "mcp.approve",
}


@pytest.mark.spec("G39")
def test_every_operation_that_changes_something_has_an_act_or_a_reason() -> None:
    operations = ACT_OF.keys() | EXEMPT.keys()
    missing, gone = sorted(mutating() - operations), sorted(operations - mutating())
    assert not missing, (
        f"{missing} may change something: put the act into ACT_OF of {__name__}, or the reason into EXEMPT"
    )
    assert not gone, f"{gone} in ACT_OF or EXEMPT of {__name__} are no operations that change something"
    assert not ACT_OF.keys() & EXEMPT.keys()
    assert set(ACT_OF.values()) <= set(ACTS)


def acts(server: Running) -> list[dict[str, Any]]:
    """Return the acts on the chain, oldest first, as an export shows them."""
    done = server.capset("audit", "export")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    return [row for row in rows if row.get("phase") == "act"]


async def asked(client: httpx2.AsyncClient, method: str, path: str, **more: Any) -> Any:
    response = await client.request(method, path, **more)
    assert response.is_success, response.text
    return response.json() if response.content else None


CONFIG = {
    "actions": [
        {
            "name": "careful",
            "title": "Careful",
            "parameters": {},
            "permissions": [],
            "approval": "ask",
            "handler": "./handlers.py:careful",
        }
    ],
    "mcp_servers": {"shelf": {"url": "https://shelf.example/mcp", "auth": "user"}},
}


async def failed(client: httpx2.AsyncClient) -> str:
    """Return the id of a delivery that has failed."""

    async def deliveries() -> list[dict[str, Any]]:
        return (await asked(client, "GET", "/v1/deliveries", params={"state": "failed"}))["items"]

    return (await until(deliveries, "a delivery that has failed"))[0]["id"]


@pytest.mark.realtime
@pytest.mark.spec("G39", "G40", "T36")
async def test_every_act_over_rest_is_on_the_chain(tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text("async def careful(params, context):\n    return 1\n")
    (tmp_path / "script.json").write_text(json.dumps({"steps": [{"text": "Hello."}]}))
    async with receiver(net.answer(410)) as gone:
        hook = {"type": "webhook", "url": gone.url, "internal": [gone.host], "secret": "${HOOK}"}
        (tmp_path / "capset.json").write_text(json.dumps({**CONFIG, "notifications": {"ops": hook}}))
        await every_act(tmp_path)


async def every_act(tmp_path: Path) -> None:
    options = ("capset.json", "--model", "script:script.json", "--agent-host", "*=127.0.0.1")
    with running(tmp_path, *options, HOOK=SECRET, CAPSET_VAULT_KEY=new_vault_key()) as server:
        key = server.key(scopes=EVERYTHING, grant=["session_files:read", "session_files:write"])
        other = server.key("bob", scopes=EVERYTHING)

        def client(of: str) -> httpx2.AsyncClient:
            return httpx2.AsyncClient(base_url=server.url, headers={"authorization": f"Bearer {of}"}, trust_env=False)

        async with serving(described("Shout.")) as book_server, client(key) as ada, client(other) as bob:
            agent = await asked(ada, "POST", "/v1/agents", json=AGENT)
            at = f"/v1/agents/{agent['id']}"
            await asked(ada, "PATCH", at, json={"description": "It adds."})
            await asked(ada, "POST", f"{at}/rollback", json={"version": 1})
            await asked(ada, "PATCH", at, json={"mcp_servers": {"books": {"url": book_server.url}}})
            books = f"{at}/mcp-servers/books"
            (shout,) = (await asked(ada, "GET", books))["tools"]
            await asked(ada, "POST", f"{books}/approve", json={"tools": {"shout": shout["hash"]}})
            await asked(ada, "POST", f"{books}/approve", json={"tools": {"shout": shout["hash"]}})
            await asked(ada, "POST", f"{books}/withdraw", json={"tools": ["shout"]})
            stale = await ada.post(f"{books}/approve", json={"tools": {"shout": "0" * 64}})
            assert stale.status_code == 409
            session = (await asked(ada, "POST", "/v1/sessions", json={"agent_id": agent["id"]}))["id"]
            await asked(ada, "PATCH", f"/v1/sessions/{session}", json={"agent_version": 1})
            await asked(ada, "PUT", f"/v1/sessions/{session}/files/a.txt", content=b"hello")
            await asked(ada, "DELETE", f"/v1/sessions/{session}/files/a.txt")
            careful = (await asked(ada, "POST", "/v1/sessions", json={"agent_id": "capset"}))["id"]
            for answer in ("approve", "reject"):
                pending = await ada.post(f"/v1/sessions/{careful}/calls", json={"tool": "careful", "arguments": {}})
                assert pending.status_code == 202, pending.text
                await asked(bob, "POST", f"/v1/approvals/{pending.json()['approval']}/{answer}", json={})
                await ada.post(f"/v1/sessions/{careful}/calls", json={"tool": "careful", "arguments": {}})
            person = {"team": "T1", "user": "U1", "principal": "bea"}
            entered = await asked(ada, "POST", "/v1/people", json=person)
            await asked(ada, "DELETE", f"/v1/people/{entered['id']}")
            await asked(ada, "POST", f"/v1/deliveries/{await failed(ada)}/retry")
            daily = {"cron": "0 9 * * *", "session_id": session, "content": "hello"}
            schedule = f"/v1/schedules/{(await asked(ada, 'POST', '/v1/schedules', json=daily))['id']}"
            for action in ("pause", "pause", "resume"):
                await asked(ada, "POST", f"{schedule}/{action}")
            await asked(ada, "DELETE", schedule)
            for _ in range(2):
                await asked(ada, "PUT", "/v1/connections/shelf/key", json={"key": "key-of-ada"})
            lent = await asked(ada, "POST", "/v1/connections/shelf/delegations", json={"delegate": "agent:helper"})
            await asked(ada, "DELETE", f"/v1/delegations/{lent['id']}")
            await asked(ada, "DELETE", "/v1/connections/shelf")
            response = await ada.post(
                f"/v1/sessions/{session}/messages", json={"content": "hello"}, headers={"Accept": "text/event-stream"}
            )
            assert "turn.ended" in response.text
            (turn,) = {event.data["turn"] for event in events_of(response.text)}
            await asked(ada, "POST", f"/v1/sessions/{session}/rewind", json={"turn": turn})
            await asked(ada, "DELETE", f"/v1/sessions/{session}")
            await asked(ada, "DELETE", at)
            made_key = await asked(ada, "POST", "/v1/keys", json={"name": "ci", "principal": "ci"})
            await asked(ada, "POST", f"/v1/keys/{made_key['id']}/revoke")
            refused = await ada.delete(f"/v1/sessions/{session}")
            assert refused.status_code == 404
            act_page = await asked(ada, "GET", "/v1/audit", params={"kind": "act", "limit": 200})
            by_name = await asked(ada, "GET", "/v1/audit", params={"act": "file.write"})
            calls = await asked(ada, "GET", "/v1/audit")
        rows = acts(server)
    names = [row["act"] for row in rows if row["source"].startswith("rest ")]
    assert names == [
        "agent.create",
        "agent.change",
        "agent.change",
        "agent.change",
        "mcp.approve",
        "mcp.approve",
        "session.move",
        "file.write",
        "file.delete",
        "approval.approve",
        "approval.reject",
        "person.add",
        "person.remove",
        "delivery.retry",
        "schedule.create",
        "schedule.change",
        "schedule.change",
        "schedule.delete",
        "credential.connect",
        "credential.connect",
        "delegation.create",
        "delegation.end",
        "credential.disconnect",
        "session.rewind",
        "session.delete",
        "agent.archive",
        "key.create",
        "key.revoke",
        "log.read",
        "log.read",
        "log.read",
    ], "one a change, none for what was refused, one a request that reads the log"
    assert set(ACT_OF.values()) <= set(names)
    act_records = act_page["items"][::-1]
    assert [record["act"] for record in act_records if record["source"].startswith("rest ")] == names[:-3]
    (write_record,) = by_name["items"]
    assert (write_record["principal"], write_record["session"], write_record["outcome"]) == (
        "ada",
        session,
        "succeeded",
    )
    about = write_record["arguments"]
    assert (about["path"], about["size"]) == ("/a.txt", 5)
    assert write_record["source"].startswith("rest 127.0.0.1 key ")
    assert {record["phase"] for record in calls["items"]} == {"outcome"}, "by default, calls"
    decided = [row for row in rows if row["act"].startswith("approval.")]
    assert [(row["principal"], row["tool"], row["session"]) for row in decided] == [("bob", "careful", careful)] * 2
    secrets = (key, other, made_key["key"], "key-of-ada")
    assert not any(secret in json.dumps(row) for secret in secrets for row in rows), "no secrets"


@pytest.mark.realtime
@pytest.mark.spec("G39")
async def test_an_act_whose_record_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        key = server.key(scopes=EVERYTHING)
        with closing(sqlite3.connect(tmp_path / "capset.db", isolation_level=None)) as database:
            database.execute(
                "CREATE TRIGGER full BEFORE INSERT ON records WHEN new.phase = 'act'"
                " BEGIN SELECT raise(ABORT, 'no room'); END"
            )
            headers = {"authorization": f"Bearer {key}"}
            async with httpx2.AsyncClient(base_url=server.url, headers=headers, trust_env=False) as client:
                refused = await client.post("/v1/agents", json=AGENT)
                read = await client.get("/v1/audit")
                agents = await asked(client, "GET", "/v1/agents")
            database.execute("DROP TRIGGER full")
    assert (refused.status_code, read.status_code) == (503, 503)
    assert "no room" not in refused.text
    assert [agent["name"] for agent in agents["items"] if agent["name"] == "adder"] == [], "it was not made either"


@pytest.mark.spec("G39")
def test_the_guide_describes_every_act() -> None:
    guide = (ROOT / "docs/guide/audit.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z_]+\.[a-z]+)` \| \w.*\. \|$", guide, re.MULTILINE) == list(ACTS)
