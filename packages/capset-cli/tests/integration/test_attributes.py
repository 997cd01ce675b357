"""Attributes on the command line: of keys, of who acts here, and of tokens (spec 5, P32)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from capset.errors import DefinitionError
from capset.wire.diffs import ReplayShape
from capset_cli.common.settings import load_settings
from tests.helpers.cli.foundry import message
from tests.helpers.cli.serving import key_for, serving, session_of
from tests.helpers.cli.support import CAPSET, Command, Run, clean_environment, install
from tests.helpers.server.auth.issuing import AUDIENCE, ISSUER, key, key_set, token

pytestmark = pytest.mark.spec("P33")
TIERS = '''
from capset import Agent, Capability, deny, policy, tool

@policy
def pro(request):
    return request.principal.attributes.get("tier") == "pro" or deny("this needs the tier pro")

@tool(effect="read", policies=[pro])
async def export() -> str:
    """Export."""
    return "exported"

tiers = Capability("tiers", tools=[export])
clerk = Agent("clerk", uses=[tiers])
'''
PRO = ("--attribute", "tier=pro")
CALL = ("call", "export", "--agent", "clerk", "--json")
REFUSED = "Permission denied: this needs the tier pro"


@pytest.fixture
def shop(tmp_path: Path) -> Command:
    """Give the command where an agent is installed whose tool needs a tier."""
    packages = tmp_path / "packages"
    packages.mkdir()
    install(packages, "offices", TIERS, capabilities={"tiers": "offices:tiers"}, agents={"clerk": "offices:clerk"})
    return Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=str(packages)))


GIVEN = {
    "tier=pro": "pro",
    "level=3": 3,
    "share=1.0": 1.0,
    "beta=true": True,
    "manager=null": None,
    'zip="0123"': "0123",
    "note=a=b": "a=b",
    "code=0123": "0123",
    "api_key=hush": "[redacted]",
}
MEANT = {assignment.partition("=")[0]: value for assignment, value in GIVEN.items()}


def options(assignments: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for assignment in assignments for word in ("--attribute", assignment))


def test_a_key_has_the_attributes_that_it_is_given_and_shows_no_secret(run: Run) -> None:
    created = run("key", "create", "laptop", "--principal", "ada", *options(GIVEN), "--json")
    assert created.json["attributes"] == MEANT
    (entry,) = run("key", "list", "--json").json["items"]
    assert entry["attributes"] == MEANT
    assert [type(value) for value in entry["attributes"].values()] == [
        type(MEANT[name]) for name in entry["attributes"]
    ]
    listing = "".join(run("key", "list").out.split())
    for part in ("ATTRIBUTES", "tier=pro", "level=3", "beta=true", "manager=null", "api_key=[redacted]"):
        assert part in listing, listing
    assert "hush" not in f"{created.out}{listing}"
    bare = run("key", "create", "bare", "--principal", "ada", "--json").json
    assert bare["attributes"] == {}


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        (("tier=pro", "tier=free"), "--attribute tier is given twice"),
        (("tier",), "--attribute must be KEY=VALUE, such as tier=pro; got 'tier'"),
        (("=pro",), "--attribute must be KEY=VALUE"),
        (('plan={"tier": "pro"}',), "plan must be text, a number, true, false or null; got dict (attributes are flat)"),
        (("plan=[1]",), "got list (attributes are flat)"),
        (("plan=1e999",), "plan must be a finite number"),
        (("plan=12345678901234567890",), "plan is beyond ±2^53"),
        (("a b=1",), "a name must match"),
        (("plan=\udcff",), "plan holds a lone surrogate"),
        ((f"plan={'x' * 1_001}",), "plan has 1,001 characters, and may have 1,000"),
        (tuple(f"a{number}={number}" for number in range(33)), "attributes are at most 32; got 33"),
        (tuple(f"a{number}={'x' * 900}" for number in range(5)), "bytes as JSON, and may have 4,096"),
    ],
)
def test_what_no_principal_can_have_makes_no_key(
    run: Run, tmp_path: Path, assignments: tuple[str, ...], expected: str
) -> None:
    done = run("key", "create", "laptop", "--principal", "ada", *options(assignments))
    assert done.code == 2
    assert expected in done.said
    assert done.err.strip().count("error:") == 1
    for line in (("call", "noop.noop"), ("compose", "none.yaml"), ("kernel", "--agent", "x"), ("serve", "--insecure")):
        assert run(*line, *options(assignments)).code == 2
    assert list(tmp_path.iterdir()) == []


def test_neither_a_file_nor_a_variable_gives_attributes_to_keys(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "capset.toml").write_text('[attributes]\ntier = "pro"\n')
    monkeypatch.setenv("CAPSET_ATTRIBUTES", '{"level": 9}')
    assert run("key", "create", "laptop", "--principal", "ada", "--json").json["attributes"] == {}


def test_the_nearer_source_is_taken_whole(tmp_path: Path) -> None:
    (tmp_path / "capset.toml").write_text('[attributes]\ntier = "free"\nlevel = 3\n')
    environ = {"CAPSET_ATTRIBUTES": '{"tier": "team", "beta": true}'}

    def load_attributes(attribute: list[str] | None, **variables: str) -> dict[str, Any]:
        return dict(load_settings(attribute=attribute, environ=variables, folder=tmp_path).principal.attributes)

    assert load_attributes(None) == {"tier": "free", "level": 3}
    assert load_attributes(None, **environ) == {"tier": "team", "beta": True}
    assert load_attributes(["tier=pro"], **environ) == {"tier": "pro"}
    assert load_attributes(None, CAPSET_ATTRIBUTES="{}") == load_attributes(None, CAPSET_ATTRIBUTES="") == {}


@pytest.mark.parametrize(
    "variable", ["tier=pro", "[1]", "{", '{"tier": {"of": "pro"}}', '{"level": NaN}', "null", "3", "null x"]
)
def test_a_variable_that_is_no_flat_object_is_refused(variable: str, tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"CAPSET_ATTRIBUTES must be a JSON object|attributes"):
        load_settings(environ={"CAPSET_ATTRIBUTES": variable}, folder=tmp_path)


@pytest.mark.parametrize("text", ['attributes = "pro"', "[attributes]\ntier = [1]", "[attributes]\nsince = 2026-01-01"])
def test_a_file_with_others_than_there_can_be_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "capset.toml").write_text(text)
    with pytest.raises(DefinitionError, match="attributes"):
        load_settings(environ={}, folder=tmp_path)


@pytest.mark.spec("F34", "G20")
def test_a_call_here_goes_by_them(shop: Command) -> None:
    refused = shop(*CALL)
    assert (refused.code, refused.json["error"]["message"]) == (3, REFUSED)
    assert shop(*CALL, *PRO).json["data"] == "exported"
    assert shop(*CALL, "--attribute", 'tier="pro"').json["data"] == "exported"
    assert shop(*CALL, "--attribute", "tier=free").code == 3
    pro_shop = Command(shop.folder, {**shop.environ, "CAPSET_ATTRIBUTES": '{"tier": "pro"}'})
    assert pro_shop(*CALL).json["data"] == "exported"
    assert pro_shop(*CALL, "--attribute", "level=3").code == 3, "which takes the place of all"
    (shop.folder / "capset.toml").write_text('[attributes]\ntier = "pro"\n')
    assert shop(*CALL).json["data"] == "exported"
    digests = [record["attributes_digest"] for record in shop("audit", "query", "--json").json["items"]]
    assert len(set(digests)) == 4, "none, pro, free, and a level"
    assert digests.count(None) == 1
    assert b"free" not in (shop.folder / "capset.db").read_bytes()


@pytest.mark.realtime
@pytest.mark.spec("F34")
def test_so_do_messages_and_compositions_and_previews(shop: Command) -> None:
    ask = message("export", {}, kind="query", id="a")
    for more, kind in (((), "error"), (PRO, "reply")):
        done = shop("kernel", "--agent", "clerk", *more, stdin=f"{ask}\n")
        assert json.loads(done.out)["kind"] == kind
        (tool,) = shop("compose", "clerk", *more, "--json").json["tools"]
        assert tool["in_play"] is bool(more)
        preview = shop("agents", "preview", "clerk", *more, "--json").json
        assert preview["valid"] is True
        (tool,) = preview["snapshot"]["tools"]
        assert tool["in_play"] is bool(more)


@pytest.mark.nightly
@pytest.mark.spec("F34")
def test_so_does_mcp_over_standard_streams(shop: Command) -> None:
    async def called(*more: str) -> bool | None:
        server = StdioServerParameters(
            command=str(CAPSET), args=["mcp", "--agent", "clerk", *more], env=dict(shop.environ), cwd=shop.folder
        )
        async with Client(server) as client:
            return (await client.call_tool("export", {}, meta={"attributes": {"tier": "pro"}})).is_error  # type: ignore[typeddict-unknown-key]

    assert asyncio.run(called(*PRO)) is not True
    assert asyncio.run(called()) is True


@pytest.mark.spec("F33", "F34")
def test_a_replay_is_of_the_attributes_of_then_unless_they_are_given(shop: Command) -> None:
    attribute_options = ("--attribute", "tier=pro", "--attribute", "api_key=hush", "--principal", "ada")
    assert shop("fingerprint", "clerk", *attribute_options, "--envelope", "secret.json").code == 0
    assert "hush" not in (shop.folder / "secret.json").read_text()
    replay = shop("replay", "secret.json", "--json").json
    assert replay["notes"] == ["attributes of the principal that were not stored are left out: attributes.api_key"]
    assert shop("fingerprint", "clerk", *PRO, "--principal", "ada", "--envelope", "then.json").code == 0
    same = shop("replay", "then.json", "--exit-code", "--json")
    assert (same.code, same.json["attributes"], same.json["differs"]) == (0, {"tier": "pro"}, False)
    assert ReplayShape.model_validate(same.json).plain() == same.json
    other = shop("replay", "then.json", "--attribute", "tier=free", "--exit-code", "--json")
    assert (other.code, other.json["attributes"], other.json["principal"]) == (3, {"tier": "free"}, "ada")
    assert other.json["flipped"] == ["pro"]
    assert other.json["hydrate"]["reason"] == "the principal has other attributes than the envelope's"
    assert "principal differs in: attributes.tier" in other.json["diff"]["notes"]
    less = shop("replay", "then.json", "--grant", "a:b", "--json").json
    assert (less["attributes"], less["permissions"]) == ({"tier": "pro"}, ["a:b"])
    assert shop("replay", "then.json", "--principal", "bob", "--json").json["attributes"] == {}
    masked = shop("replay", "then.json", "--attribute", "tier=pro", "--attribute", "token=hush", "--json")
    assert masked.json["attributes"] == {"tier": "pro", "token": "[redacted]"}


@pytest.mark.realtime
@pytest.mark.spec("F34", "P16")
def test_a_server_goes_by_the_keys_or_without_keys_by_its_own(shop: Command) -> None:
    scopes = ("--scope", "call")
    keys = [key_for(shop, *scopes, *PRO), key_for(shop, *scopes, "--attribute", "tier=free")]
    with serving(shop) as server:
        for api_key, status in zip(keys, (200, 403), strict=True):
            with server.client(api_key) as client:
                path = f"/v1/sessions/{session_of(client, 'clerk')}/calls"
                assert client.post(path, json={"tool": "export"}).status_code == status
        server.end()
    for more, status in ((PRO, 200), ((), 403)):
        with serving(shop, "--insecure", *more) as server, server.client() as client:
            path = f"/v1/sessions/{session_of(client, 'clerk')}/calls"
            assert client.post(path, json={"tool": "export"}).status_code == status


def test_attributes_for_nobody_are_refused(run: Run) -> None:
    done = run("serve", "--port", "0", *PRO)
    assert (done.code, "--principal, --grant and --attribute are for --insecure" in done.said) == (2, True)
    done = run("call", "export", "--session", "x", *PRO, "--url", "http://127.0.0.1:1")
    assert (done.code, "--attribute is for work on this machine" in done.said) == (2, True)


@pytest.mark.realtime
@pytest.mark.spec("F34")
@pytest.mark.parametrize("by", ["options", "variables"])
def test_tokens_bring_what_is_declared(shop: Command, by: str) -> None:
    jwks = shop.folder / "issuer.json"
    jwks.write_bytes(key_set(key("one")))
    jwt_options = ("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-jwks", str(jwks))
    if by == "options":
        jwt_options += ("--jwt-attribute", "tier=plan.tier", "--jwt-attribute", "level=level")
    else:
        shop = Command(shop.folder, {**shop.environ, "CAPSET_JWT_ATTRIBUTES": "tier=plan.tier level=level"})
    with serving(shop, *jwt_options) as server:
        cases: list[tuple[dict[str, Any], int]] = [
            ({"plan": {"tier": "pro"}, "level": 3}, 200),
            ({"plan": {"tier": "free"}, "tier": "pro"}, 403),
            ({}, 403),
        ]
        for claims, status in cases:
            with server.client(token(**claims)) as client:
                path = f"/v1/sessions/{session_of(client, 'clerk')}/calls"
                assert client.post(path, json={"tool": "export"}).status_code == status
        with server.client(token(plan={"tier": "pro"}, level=[3])) as client:
            assert client.get("/v1/sessions").status_code == 401
        assert "a token was refused: its claims do not fit: attributes: level must be text" in server.end()


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        (("tier",), "--jwt-attribute must be NAME=CLAIM, such as tier=plan.tier; got 'tier'"),
        (("tier=",), "the attribute 'tier' needs the name of a claim"),
        (("=tier",), "the name of an attribute must match"),
        (("tier=a", "tier=b"), "--jwt-attribute tier is given twice"),
    ],
)
def test_a_declaration_that_is_none_is_refused(
    run: Run, tmp_path: Path, assignments: tuple[str, ...], expected: str
) -> None:
    words = [word for assignment in assignments for word in ("--jwt-attribute", assignment)]
    jwt_options = ("--jwt-issuer", ISSUER, "--jwt-audience", "a", "--jwt-jwks", "x")
    done = run("serve", "--port", "0", *jwt_options, *words)
    assert (done.code, expected in done.said) == (2, True), done.said
    done = run("serve", "--port", "0", "--jwt-attribute", "tier=tier")
    assert (done.code, "missing: --jwt-issuer" in done.said) == (2, True)
    assert not (tmp_path / "capset.db").exists()
