"""``capset key``: made once, shown once, kept hashed (spec 5, P14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli.support import Run


@pytest.mark.spec("P14")
def test_a_key_is_shown_once_and_kept_hashed(run: Run, tmp_path: Path) -> None:
    done = run("key", "create", "ci", "--principal", "bot", "--kind", "agent", "--org", "acme", "--grant", "a:b")
    assert done.code == 0
    key = done.out.strip()
    assert key.startswith("capset_")
    assert len(key) > 40
    assert "not shown again" in done.said
    assert key not in done.err
    for path in tmp_path.iterdir():
        assert key.removeprefix("capset_").encode() not in path.read_bytes()
    (entry,) = run("key", "list", "--json").json["items"]
    assert (entry["name"], entry["org"], entry["principal"], entry["principal_kind"]) == (
        "ci",
        "acme",
        "bot",
        "agent",
    )
    assert (entry["permissions"], entry["scopes"]) == (["a:b"], ["capset:read", "capset:call"])
    assert "key" not in entry
    assert "digest" not in entry
    assert entry["makers"] == []
    listing = run("key", "list").out
    assert key not in listing
    assert listing.split()[-1] == "valid"


@pytest.mark.spec("P14")
def test_two_keys_are_never_the_same(run: Run) -> None:
    keys = {run("key", "create", "k", "--principal", "a", "--json").json["key"] for _ in range(3)}
    assert len(keys) == 3
    assert len(run("key", "list", "--json").json["items"]) == 3


@pytest.mark.spec("P14")
def test_a_key_ends_when_it_was_told_to(run: Run) -> None:
    created = run("key", "create", "k", "--principal", "a", "--expires", "30d", "--json").json
    assert created["expires_at"][:4].isdigit()
    assert created["expires_at"] > created["created_at"]
    assert "until" in run("key", "list").out
    for wrong in ("30", "0d", "-1d", "1w", "999999d", "d"):
        done = run("key", "create", "k", "--principal", "a", f"--expires={wrong}")
        assert (done.code, "--expires" in done.said) == (2, True), wrong


@pytest.mark.spec("P14")
def test_a_key_is_revoked_for_good(run: Run) -> None:
    created = run("key", "create", "k", "--principal", "a", "--json").json
    assert run("key", "revoke", created["id"]).code == 0
    (entry,) = run("key", "list", "--json").json["items"]
    assert entry["revoked_at"] is not None
    assert "revoked" in run("key", "list").out
    assert run("key", "revoke", created["id"], "--json").json["revoked_at"] == entry["revoked_at"], (
        "the first time counts"
    )


@pytest.mark.spec("P14")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--principal", "a", "--scope", "capset:raed"), "capset:read"),
        (("--principal", "a", "--kind", "robot"), "user, agent, org"),
        (("--principal", "a", "--kind", "anonymous"), "user, agent, org; got 'anonymous'"),
        (("--principal", ""), "principal"),
        (("--principal", "a", "--org", ""), "org"),
        (("--principal", "a", "--grant", "everything"), "everything"),
    ],
)
def test_a_key_for_nobody_is_not_made(run: Run, options: tuple[str, ...], words: str) -> None:
    done = run("key", "create", "k", *options)
    assert done.code == 2
    assert words in done.said
    listing = run("key", "list", "--json")
    assert listing.code != 0 or listing.json["items"] == []


def test_a_key_that_there_is_not_is_told(run: Run) -> None:
    assert run("key", "create", "k", "--principal", "a").code == 0
    done = run("key", "revoke", "nowhere")
    assert (done.code, "there is no key 'nowhere'" in done.said) == (2, True)


def test_no_database_is_made_to_look_for_keys(run: Run, tmp_path: Path) -> None:
    for command in (("list",), ("revoke", "x")):
        assert run("key", *command).code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_key_has_the_permissions_that_it_is_granted_and_no_others(run: Run, tmp_path: Path) -> None:
    (tmp_path / "capset.toml").write_text('grant = ["vault:open"]\n')
    created = run("key", "create", "laptop", "--principal", "ada", "--grant", "notes:read", "--json").json
    assert created["permissions"] == ["notes:read"]
    assert run("key", "create", "bare", "--principal", "ada", "--json").json["permissions"] == []


def test_a_scope_may_be_written_as_it_is_listed(run: Run) -> None:
    created = run(
        "key", "create", "laptop", "--principal", "ada", "--scope", "read", "--scope", "capset:audit", "--json"
    )
    assert created.json["scopes"] == ["capset:read", "capset:audit"]
    kiosk = run("key", "create", "kiosk", "--principal", "ada", "--scope", "call:kit.echo", "--json")
    assert kiosk.json["scopes"] == ["capset:call:kit.echo"]
    old = run("key", "create", "kiosk", "--principal", "ada", "--scope", "call:echo")
    assert (old.code, "capset:call:CAPABILITY.TOOL" in old.err) == (2, True)
    wrong = run("key", "create", "laptop", "--principal", "ada", "--scope", "reed")
    assert wrong.code == 2
    assert "unknown scope 'capset:reed'; available: capset:read, capset:call, capset:write" in wrong.err


@pytest.mark.spec("P16")
def test_a_key_may_have_a_default_agent(run: Run) -> None:
    created = run("key", "create", "k", "--principal", "a", "--agent", "foreman", "--json").json
    assert created["agent"] == "foreman"
    (entry,) = run("key", "list", "--json").json["items"]
    assert entry["agent"] == "foreman"
    done = run("key", "create", "k", "--principal", "a", "--agent", " ")
    assert done.code == 2
    assert "an agent is named by its id" in done.said
