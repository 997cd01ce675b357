"""An agent that acts for its user: nothing that a run leaves behind has the user's key (spec 11, V3)."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import httpx2
import pytest

from capset_connect.vault.encryption import new_vault_key
from capset_server.client import Client
from tests.collector import Collector, collecting
from tests.helpers.cli.gateway import call, connected
from tests.helpers.cli.support import Command, clean_environment
from tests.helpers.server.console.app import sign_in
from tests.helpers.server.running import Running, running

KEY = "sk-the-key-of-ada-5fd1c5"
SERVER = """\
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server, key = MCPServer("notes"), os.environ["NOTES_KEY"]
print(f"started with {key}", file=sys.stderr, flush=True)


@server.tool()
def tell(text: str) -> dict[str, str]:
    Path(os.environ["NOTED"]).write_text(f"{key} {text}")
    print(f"called with {key}", file=sys.stderr, flush=True)
    return {"key": key, "note": f"noted with {key}: {text}"}


@server.tool(structured_output=False)
def fail() -> str:
    raise ToolError(f"the service refused {key}")


@server.tool(structured_output=False)
def end() -> str:
    print(f"ends with {key}", file=sys.stderr, flush=True)
    os._exit(3)


server.run("stdio")
"""
"""Repeats its key in everything that a server can say."""
FILE = """\
name: desk
model: script:script.yaml
mcp_servers:
  notes:
    command: {command}
    env: {{NOTES_KEY: "${{USER_CREDENTIAL}}", NOTED: {noted}}}
    auth: user
    rules: {{"*": {{effect: read}}}}
"""
SCRIPT = """\
steps:
  - text: What is the key? I shall ask the server.
    calls: [{tool: notes_tell, arguments: {text: hello}}]
  - calls: [{tool: notes_fail, arguments: {}}]
  - calls: [{tool: notes_end, arguments: {}}]
  - text: It does not say.
"""


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("V3", "V20", "T99")
async def test_nothing_that_a_run_leaves_has_the_key_of_the_user(tmp_path: Path) -> None:
    folder, noted = tmp_path / "site", tmp_path / "noted"
    folder.mkdir()
    (folder / "notes.py").write_text(SERVER)
    (folder / "script.yaml").write_text(SCRIPT)
    command = json.dumps([sys.executable, "notes.py"])
    (folder / "desk.yaml").write_text(FILE.format(command=command, noted=json.dumps(str(noted))))
    with collecting() as collector:
        environ = {"CAPSET_VAULT_KEY": new_vault_key(), "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        capset = Command(folder, clean_environment(folder, **environ))
        said = approve_as_local(capset)
        with running(folder, "desk.yaml", **environ) as server:
            said += await use(server)
            said += [capset(*words).out for words in commands()]
    assert noted.read_text() == f"{KEY} by hand", "the server got the key"
    said += [collector.text, *(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())]
    assert [text for text in said if KEY in text or environ["CAPSET_VAULT_KEY"] in text] == []
    assert_all_is_here(collector, said)


def approve_as_local(capset: Command) -> list[str]:
    """Approve the tools of the server, with a key of the local principal."""
    done = capset("connect", "notes", "--agent", "desk.yaml", stdin=f"{KEY}\n")
    assert done.code == 0, done.err
    approved = capset("mcp", "approve", "notes", "--agent", "desk.yaml")
    assert approved.code == 0, approved.err
    return [done.out, done.err, approved.out, approved.err]


async def use(server: Running) -> list[str]:
    """Connect, have an agent and an MCP client use the tools, and return all that the server has answered."""
    key, said = server.key(), list[str]()
    async with Client(server.url, key=key, plain_http=True) as ada:
        session = await ada.sessions.create("desk")
        turn = await ada.sessions.send(session.id, "What is my key?")
        async with ada.sessions.events(session.id) as events:
            async for event in events:
                said.append(event.model_dump_json())
                if "approval.requested" in said[-1]:  # the turn waits, and continues by itself
                    connection = await ada.connections.enter_key("notes", KEY)
                    said.append(connection.model_dump_json())
                if re.search(r"turn\.(ended|failed)", said[-1]):
                    break
        for page in (
            await ada.sessions.messages(session.id),
            await ada.sessions.state(session.id),
            await ada.sessions.snapshot(session.id),
            await ada.connections.list(),
        ):
            said.append(page.model_dump_json())
        paths = ["/", "/connections", "/connections/notes", f"/sessions/{session.id}", "/audit", f"/runs/{turn.turn}"]
    async with httpx2.AsyncClient(base_url=server.url, follow_redirects=True) as browser:
        await sign_in(browser, key)
        said += [(await browser.get(path)).text for path in paths]
    async with connected(server, key) as client:
        said += [str(await call(client, name, **arguments)) for name, arguments in by_hand()]
        said.append((await client.list_tools()).model_dump_json())
    return said


def by_hand() -> list[tuple[str, dict[str, str]]]:
    return [("notes_fail", {}), ("notes_tell", {"text": "by hand"}), ("notes_end", {})]


def commands() -> list[list[str]]:
    """Return commands that show what is stored."""
    return [
        ["audit", "query", "--json"],
        ["audit", "export", "--to", "export.jsonl"],
        ["sessions", "list", "--json"],
        ["runs", "list", "--json"],
        ["connections", "credentials", "--json"],
    ]


def assert_all_is_here(collector: Collector, said: list[str]) -> None:
    """Assert that the search was not in vain: what the run did is in what it searched."""
    text = "".join(said)
    assert "execute_tool notes_tell" in collector.names
    assert re.search(r"noted with \S+: hello", text), "with something in place of the key"
    assert "It does not say." in text
