"""``capset connect``, ``connections`` and ``vault`` on a local database, and on a server (spec 11, V2, V10, V31)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from capset_connect.vault.encryption import new_vault_key
from tests.helpers.cli.support import Command, Run
from tests.helpers.connect.mcp.opening import SCRIPT
from tests.helpers.connect.vault.accounts import accounts, follow_consent

AGENT = """\
name: desk
mcp_servers:
  keyed:
    command: {command}
    env: {{API_KEY: "${{USER_CREDENTIAL}}"}}
    auth: user
"""
AT_PROVIDER = """\
name: desk
providers:
  town: {{issuer: "{issuer}", client_id: capset, client_secret: "${{CLIENT_SECRET}}", internal: ["{host}"]}}
mcp_servers:
  calendar:
    url: https://calendar.example/mcp
    auth: {{provider: town, scopes: [read]}}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a configuration whose server needs a key of each user, and a vault."""
    monkeypatch.setenv("CAPSET_VAULT_KEY", new_vault_key())
    command = json.dumps([sys.executable, str(SCRIPT), "keyed", str(tmp_path)])
    (tmp_path / "desk.yaml").write_text(AGENT.format(command=command))
    return "desk.yaml"


@pytest.mark.realtime
@pytest.mark.spec("V3", "V22", "V31")
def test_a_key_is_connected_used_and_disconnected(run: Run, file: str, tmp_path: Path) -> None:
    assert "not connected" in run("connections", "list", "--agent", file).out
    needed = run("mcp", "approve", "keyed", "--agent", file)
    assert (needed.code, "capset connect keyed" in needed.said) == (2, True)
    done = run("connect", "keyed", "--agent", file, stdin="key-of-local\n")
    assert (done.code, done.out) == (0, "keyed is connected\n")
    assert run("mcp", "approve", "keyed", "--agent", file).code == 0
    assert run("call", "keyed_shout", "--agent", file, "--args", '{"text": "a"}').code == 0
    assert (tmp_path / "calls").read_text() == "key-of-local a\n"
    (record,) = run("audit", "query", "--tool", "keyed_shout", "--json").json["items"]
    assert re.fullmatch(r"[0-9a-f-]{36}@1 user:local", record["credential"])
    (connection,) = run("connections", "list", "--agent", file, "--json").json["items"]
    assert (connection["usable"], connection["used_at"] is not None) == (True, True)
    assert b"key-of-local" not in b"".join(path.read_bytes() for path in tmp_path.glob("capset.db*"))
    deferred = run("call", "keyed_shout", "--agent", file, "--args", '{"text": "a"}', "--principal", "bob", "--defer")
    assert (deferred.code, "capset connect keyed" in deferred.said) == (3, True)
    assert run("connections", "disconnect", "keyed", "--agent", file).out == "keyed is disconnected\n"
    assert run("connections", "disconnect", "keyed", "--agent", file).code != 0


@pytest.mark.spec("V24", "V31")
def test_delegations_are_made_listed_and_ended(run: Run, file: str) -> None:
    made = run("connections", "delegate", "keyed", "agent:helper", "--tool", "keyed_shout", "--agent", file)
    assert made.code == 0, made.err
    (row,) = run("connections", "delegations", "--agent", file, "--json").json["items"]
    assert (row["id"], row["delegate"], row["tools"]) == (made.out.strip(), "agent:helper", ["keyed_shout"])
    assert run("connections", "end", row["id"], "--agent", file).code == 0
    assert run("connections", "delegations", "--agent", file, "--json").json["items"] == []
    wrong = run("connections", "delegate", "keyed", "helper", "--agent", file)
    assert (wrong.code, "delegate" in wrong.said) == (2, True)


@pytest.mark.spec("V2")
def test_the_vaults_key_is_made_checked_and_rotated(run: Run, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run("connect", "keyed", "--agent", file, stdin="key-of-local\n")
    assert run("vault", "check").code == 0
    old, new = run("vault", "key").out.strip(), run("vault", "key").out.strip()
    assert old != new
    first = os.environ["CAPSET_VAULT_KEY"]
    monkeypatch.setenv("CAPSET_VAULT_KEY", new)
    missing = run("vault", "check")
    assert (missing.code, "is not here" in missing.said) == (1, True)
    monkeypatch.setenv("CAPSET_VAULT_KEY", f"{new},{first}")
    assert run("vault", "rotate").out == "wrapped 1 data key by the current key\n"
    monkeypatch.setenv("CAPSET_VAULT_KEY", new)
    assert run("vault", "check").code == 0
    monkeypatch.delenv("CAPSET_VAULT_KEY")
    assert "CAPSET_VAULT_KEY" in run("connections", "list", "--agent", file).said


@pytest.mark.realtime
@pytest.mark.spec("V10", "V31")
async def test_a_provider_redirects_to_an_address_on_this_machine(
    capset: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with accounts() as running:
        host = running.issuer.removeprefix("http://")
        (capset.folder / "desk.yaml").write_text(AT_PROVIDER.format(issuer=running.issuer, host=host))
        env = {**capset.environ, "CAPSET_VAULT_KEY": new_vault_key(), "CLIENT_SECRET": "client-secret-of-capset"}
        command = ("connect", "calendar", "--agent", "desk.yaml", "--no-browser")
        with capset.start(*command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
            assert process.stderr is not None
            line = ""
            while "grant access at" not in line:
                line = await asyncio.to_thread(process.stderr.readline)
                assert line, "the command has ended"
            page = line.partition(" at ")[2].strip()
            assert await status_of(page, "/favicon.ico") == 404
            status = await follow_consent(page)
            out, err = await asyncio.to_thread(process.communicate)
        assert (process.returncode, out, status) == (0, "calendar is connected\n", 200), err


async def status_of(page: str, path: str) -> int:
    """Return what another path beside the redirect URI of a page answers."""
    redirect_uri = parse_qs(urlsplit(page).query)["redirect_uri"][0]
    async with httpx2.AsyncClient(trust_env=False) as browser:
        return (await browser.get(redirect_uri.replace("/callback", path))).status_code
