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
        there = ("--url", server.url)
        asked = ("key", "create", "ci", "--principal", "ci", "--scope", "read", "--attribute", "tier=pro", *there)
        done = capset(*asked, "--limit", "5/1h", "--expires", "1d", "--json")
        assert done.code == 0, done.err
        made = done.json
        assert (made["org"], made["scopes"], made["attributes"]) == ("acme", ["capset:read"], {"tier": "pro"})
        assert made["allowance"]["limits"] == ["5/1h"]
        shown = capset("key", "list", *there)
        assert "tier=pro" in shown.out
        assert made["key"] not in shown.out
        here = capset("key", "list", "--json").json["items"]
        assert {one["id"] for one in capset("key", "list", *there, "--json").json["items"]} <= {
            one["id"] for one in here
        }
        refused = capset(*asked, "--grant", "vault:open")
        assert (refused.code, "permissions" in refused.err) == (3, True), refused.err
        assert capset("key", "revoke", made["id"], *there).out.strip() == f"revoked {made['id']}"
        both = capset("key", "list", *there, "--db", "other.db")
        assert both.code == 2
        alone = Command(tmp_path, {**with_key, "CAPSET_URL": "http://127.0.0.1:1"})("key", "list")
        assert alone.code == 0, "a variable alone sends no key anywhere"
        checked = capset("audit", "verify", *there)
        assert (checked.code, "every hash holds" in checked.out) == (0, True), checked.err
        found = capset("audit", "verify", *there, "--json").json
        assert (found["ok"], found["vouched"]) == (True, False)
        wrong = capset("audit", "verify", "records.ndjson", *there)
        assert wrong.code == 2


@pytest.mark.spec("P49")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("ci", "--principal", "a" * 201), "principal: "),
        (("", "--principal", "ci"), "name: "),
        (("ci", "--principal", "ci", "--org", ""), "org: "),
        (("ci", "--principal", "ci", "--expires", "99d", "--agent", ""), "agent: "),
    ],
    ids=["principal", "name", "org", "agent"],
)
def test_what_no_server_takes_is_bad_input(run: Run, given: tuple[str, ...], told: str) -> None:
    done = run("key", "create", *given, "--url", "http://127.0.0.1:1")
    assert (done.code, "should not" in done.err) == (2, False), done.err
    assert told in done.err
