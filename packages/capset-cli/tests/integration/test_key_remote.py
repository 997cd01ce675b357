"""``capset key`` and ``capset audit verify`` with ``--url``: a server does it, by the rights of a key (P48, P53)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli.support import Command, Run
from tests.helpers.server.running import EVERYTHING, running


@pytest.mark.realtime
@pytest.mark.spec("P48", "P49", "P53")
def test_keys_are_managed_and_the_record_is_checked_on_a_server(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        admin = server.key("boss", org="acme", scopes=EVERYTHING, grant=["notes:read"])
        with_key = {**server.capset.environ, "CAPSET_KEY": admin}
        capset = Command(tmp_path, with_key)
        remote = ("--url", server.url)
        arguments = ("key", "create", "ci", "--principal", "ci", "--scope", "read", "--attribute", "tier=pro", *remote)
        done = capset(*arguments, "--limit", "5/1h", "--expires", "1d", "--json")
        assert done.code == 0, done.err
        created = done.json
        assert (created["org"], created["scopes"], created["attributes"]) == ("acme", ["capset:read"], {"tier": "pro"})
        assert created["allowance"]["limits"] == ["5/1h"]
        listing = capset("key", "list", *remote)
        assert "tier=pro" in listing.out
        assert created["key"] not in listing.out
        local_keys = capset("key", "list", "--json").json["items"]
        assert {key["id"] for key in capset("key", "list", *remote, "--json").json["items"]} <= {
            key["id"] for key in local_keys
        }
        refused = capset(*arguments, "--grant", "vault:open")
        assert (refused.code, "permissions" in refused.err) == (3, True), refused.err
        assert capset("key", "revoke", created["id"], *remote).out.strip() == f"revoked {created['id']}"
        both = capset("key", "list", *remote, "--db", "other.db")
        assert both.code == 2
        alone = Command(tmp_path, {**with_key, "CAPSET_URL": "http://127.0.0.1:1"})("key", "list")
        assert alone.code == 0, "a variable alone sends no key anywhere"
        checked = capset("audit", "verify", *remote)
        assert (checked.code, "every hash holds" in checked.out) == (0, True), checked.err
        verification = capset("audit", "verify", *remote, "--json").json
        assert (verification["ok"], verification["vouched"]) == (True, False)
        wrong = capset("audit", "verify", "records.ndjson", *remote)
        assert wrong.code == 2


@pytest.mark.spec("P49")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ci", "--principal", "a" * 201), "principal: "),
        (("", "--principal", "ci"), "name: "),
        (("ci", "--principal", "ci", "--org", ""), "org: "),
        (("ci", "--principal", "ci", "--expires", "99d", "--agent", ""), "agent: "),
    ],
    ids=["principal", "name", "org", "agent"],
)
def test_what_no_server_takes_is_bad_input(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run("key", "create", *arguments, "--url", "http://127.0.0.1:1")
    assert (done.code, "should not" in done.err) == (2, False), done.err
    assert message in done.err
