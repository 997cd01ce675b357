"""Callers by JSON Web Tokens: what is taken of a token, and that nothing else is one (spec 5, P14)."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwk import OctKey

from capset import Kernel, Principal
from capset.definitions.governance.settings import Roles
from capset.errors import DefinitionError, Unauthenticated
from capset.ext import Governance
from capset_server.auth.callers import Caller
from capset_server.auth.tokens import MAX_TOKEN, Issuer, Tokens
from capset_testing import FakeClock
from tests.helpers.server.auth.issuing import (
    AUDIENCE,
    ISSUER,
    READ,
    Issuing,
    claims,
    issuing,
    key,
    key_set,
    signed,
    token,
    write,
)
from tests.helpers.server.support import call, make_session, problem


@pytest.fixture(scope="module")
async def door() -> AsyncGenerator[Issuing]:
    """Give a site whose issuer has a key of each kind, and one for something else."""
    keys = key("one"), key("two", "RSA"), key("three", "OKP"), key("four", "P-384"), key("five", "P-521")
    async with issuing(*keys) as issuer:
        yield issuer


@pytest.mark.spec("P14")
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")  # of EdDSA, which issuers still write
@pytest.mark.parametrize(
    ("algorithm", "name", "kind"),
    [
        *((f"{family}{bits}", "two", "RSA") for family in ("RS", "PS") for bits in (256, 384, 512)),
        *(("ES256", "one", "EC"), ("ES384", "four", "P-384"), ("ES512", "five", "P-521")),
        *(("Ed25519", "three", "OKP"), ("EdDSA", "three", "OKP")),
    ],
)
async def test_every_algorithm_of_a_key_pair_is_accepted(door: Issuing, algorithm: str, name: str, kind: str) -> None:
    assert await door.status(token(key(name, kind), {"alg": algorithm})) == 200


@pytest.mark.spec("P14", "G8")
async def test_what_a_token_says_is_who_acts() -> None:
    governance = Governance(roles=Roles({"opener": ["vault:open"]}))
    async with issuing(governance=governance) as issuer:
        more: dict[str, Any] = {"roles": ["opener", "cook"], "permissions": ["notes:read", "not one"]}
        access_token = token(scope="openid profile", scp=READ.split(), **more)
        async with issuer.site.client(None, headers={"Authorization": f"Bearer {access_token}"}) as client:
            problem(await client.post("/v1/agents", json={"name": "x"}), 403, "permission_denied")
            created = await client.post("/v1/sessions", json={"agent_id": "foreman"})
            assert (await call(client, created.json()["id"], "unlock")).json()["data"] == "open"
        record = await issuer.site.record()
        assert (record.principal, record.principal_kind, record.org) == ("grace", "user", "acme")
        caller = await issuer.site.service.callers.identify(f"Bearer {access_token}")
        grace = Principal("grace", permissions={"vault:open", "notes:read"}, org="acme")
        assert caller == Caller(grace, frozenset(READ.split()), f"jwt:{ISSUER}")


@pytest.mark.spec("V16")
async def test_a_token_with_an_actor_is_that_of_the_actor(door: Issuing) -> None:
    act = {"sub": "helper", "act": {"sub": "planner"}}
    access_token = token(act=act, permissions=["notes:read"], scope="capset:call")
    principal = (await door.site.service.callers.identify(f"Bearer {access_token}")).principal
    assert (principal.qualified_id, principal.on_behalf_of) == ("agent:helper", "agent:planner for user:grace")
    assert (principal.permissions, principal.org) == ({"notes:read"}, "acme")


@pytest.mark.spec("P14", "T20")
async def test_an_organisation_sees_its_own(door: Issuing) -> None:
    async with door.site.client() as ada:
        session = await make_session(ada)
        agent = (await ada.get(f"/v1/sessions/{session}")).json()["agent_id"]
    for org, status in (("acme", 200), ("evil", 404)):
        assert await door.status(token(org=org), f"/v1/agents/{agent}") == status
        assert await door.status(token(org=org), f"/v1/sessions/{session}") == 404, "which is ada's alone"
    assert await door.status(token(sub="ada"), f"/v1/sessions/{session}") == 200


@pytest.mark.spec("P14")
async def test_a_token_without_an_organisation_needs_one_that_the_server_names(door: Issuing) -> None:
    assert await door.statuses([token(org=None), token(org=None, tenant="acme")]) == {401}
    async with issuing(more={"org": "acme", "org_claim": "tenant"}) as issuer:
        for bearer, org in ((token(org="evil"), "acme"), (token(tenant="umbrella"), "umbrella")):
            caller = await issuer.site.service.callers.identify(f"Bearer {bearer}")
            assert caller.principal.org == org


@pytest.mark.spec("P14")
async def test_a_header_may_be_of_any_length_up_to_that_of_certificates(door: Issuing) -> None:
    access_tokens = [token(header={"note": "a" * length}) for length in range(12)]
    lengths = {len(access_token.partition(".")[0]) % 4 for access_token in access_tokens}
    assert lengths == {0, 2, 3}, "of base64 in groups of four, without what would fill the last one"
    assert await door.statuses(access_tokens) == {200}
    bare = len(token(header={"x5c": [""]}).partition(".")[0])
    longest, longer = (token(header={"x5c": ["a" * ((length - bare) * 3 // 4 + 1)]}) for length in (4_096, 4_100))
    assert (len(longest.partition(".")[0]), len(longer.partition(".")[0])) == (4_096, 4_100)
    assert await door.status(longest) == 200
    assert await door.status(longer) == 401


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _nested(actors: int) -> dict[str, Any]:
    """Return a claim of so many parties that act for one another."""
    return {"sub": f"bot-{actors}", **({"act": _nested(actors - 1)} if actors > 1 else {})}


def forged() -> dict[str, str]:
    """Return tokens that are none, by what is wrong with them."""
    now, good, mallory = int(time.time()), token(), key("mallory")
    head, body, signature = good.split(".")
    public = OctKey.import_key(key_set(key("one")))
    none, hs = encoded(b'{"alg":"none"}'), {"alg": "HS256", "kid": "one"}
    claim_values: dict[str, list[Any]] = {
        "iss": ["https://login.example.com", None, [ISSUER]],
        "aud": ["https://other.example.com", ["a", "b"], None, AUDIENCE[:-1]],
        "exp": [now - 31, None, "tomorrow", True],
        "nbf": [now + 60],
        "iat": [now + 60],
        "sub": [None, " ", 7, "a" * 201, "a\0b"],
        "org": ["", ["acme"]],
        "act": ["bot", {}, {"sub": ""}, {"sub": "x for user:ada"}, {"sub": "a", "act": {"sub": 7}}, _nested(5)],
        "cnf": [{"jkt": "x"}],
        "scope": [{"capset:admin": True}],
        "permissions": [[1]],
        "roles": [5],
        "agent": [{"id": "x"}],
    }
    return {
        "another body": f"{head}.{encoded(json.dumps(claims(sub='root')).encode())}.{signature}",
        "no signature": f"{head}.{body}.",
        "half a signature": f"{head}.{body}.{signature[:43]}",
        "algorithm none": f"{none}.{body}.",
        "none, with a signature": f"{none}.{body}.{signature}",
        "None in other letters": write(hs, claims(), public).replace("HS256", "nOnE"),
        "the public key as a secret": write(hs, claims(), public),
        "a key of somebody else's with a known name": token(key("one", "RSA"), {"kid": "two"}),
        "another kind of key under its name": token(key("three", "OKP"), {"kid": "one"}),
        "its own key in the header": token(mallory, {"jwk": mallory.as_dict(private=False)}),
        "its own address of keys": token(mallory, {"kid": "one", "jku": "https://evil.example/jwks"}),
        "no name of a key, and signed by none": token(mallory, {"kid": None}),
        "no name of a key, and another kind of key": token(key("mallory", "OKP"), {"kid": None}),
        "no name of a key, and the public key as a secret": write({"alg": "HS256"}, claims(), public),
        "an empty name of a key": token(header={"kid": ""}),
        "an end that never comes": signed(json.dumps(claims(exp=1e999)).encode()),
        "told of a logout": token(header={"typ": "logout+jwt"}),
        "what must be understood": signed(json.dumps(claims()).encode(), crit=["b64"], b64=True),
        "no claims": signed(b"[]"),
        "no JSON": signed(b"{"),
        "deep claims": signed(b"[" * 3_000),
        "a header that is a list": f"{encoded(b'[]')}.{body}.{signature}",
        "a deep header": f"{encoded(b'[' * 2_000)}.{body}.{signature}",
        "no base64": f"é.{body}.{signature}",
        "dots": "..",
        "too long": token(note="a" * MAX_TOKEN),
    } | {f"{name} {value}": token(**{name: value}) for name, values in claim_values.items() for value in values}


@pytest.mark.spec("P14", "T23")
async def test_whatever_else_is_refused_in_the_same_words(door: Issuing) -> None:
    async with door.site.client(None) as client:
        nothing = problem(await client.get("/v1/agents"), 401, "unauthenticated")
        for name, access_token in forged().items():
            headers = {b"Authorization": f"Bearer {access_token}".encode()}
            response = await client.get("/v1/agents", headers=headers)
            assert problem(response, 401, "unauthenticated")["detail"] == nothing["detail"], name
            assert response.headers["www-authenticate"] == "Bearer", name


@pytest.mark.spec("P14")
async def test_a_little_difference_of_clocks_and_a_kind_of_token_are_no_matter(door: Issuing) -> None:
    now = int(time.time())
    assert await door.statuses([token(exp=now - 5), token(nbf=now + 20), token(iat=now + 20), token(typ=None)]) == {200}
    kinds = [token(header={"typ": kind}) for kind in ("at+jwt", "JWT", "application/at+jwt")]
    assert await door.statuses([*kinds, token(aud=[AUDIENCE, "another"])]) == {200}


@pytest.mark.spec("P14", "T23")
async def test_a_token_ends_while_it_is_in_use() -> None:
    clock = FakeClock(time.time_ns())
    async with issuing(clock=clock) as issuer:
        access_token = token(exp=int(time.time()) + 60)
        assert await issuer.status(access_token) == 200
        clock.advance(100)  # and it was looked at a moment ago
        assert await issuer.status(access_token) == 401


@pytest.mark.spec("P14")
async def test_keys_go_on_beside_tokens_and_tokens_are_nothing_without_an_issuer(door: Issuing) -> None:
    assert await door.status(door.site.keys["ada"]) == 200
    assert await door.status("capset_" + "A" * 43) == 401
    without = type(door.site.service.callers)(door.site.kernel, None)
    with pytest.raises(Unauthenticated):
        await without.identify(f"Bearer {token()}")


@pytest.mark.spec("T23")
async def test_forged_tokens_drive_out_no_good_ones(door: Issuing) -> None:
    """What is refused is not kept: else a flood of it would cost every good token a look at its signature."""
    tokens = door.site.service.callers._tokens
    assert isinstance(tokens, Tokens)
    before = len(tokens._known._entries)
    await door.statuses([token(key("mallory"), {"kid": "one"}, n=number) for number in range(20)])
    assert len(tokens._known._entries) == before


@pytest.mark.spec("P14")
async def test_the_log_says_why_and_not_what(door: Issuing, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "capset.tokens"):
        access_token = token(aud="https://hidden.example.com")
        assert await door.status(access_token) == 401
    assert "aud" in caplog.text
    assert "hidden" not in caplog.text
    assert access_token.rpartition(".")[2] not in caplog.text


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    """Give what knows the tokens of an issuer with the usual key."""
    file = tmp_path_factory.mktemp("issuer") / "jwks.json"
    file.write_bytes(key_set(key("one")))
    return Tokens(Kernel(), Issuer(ISSUER, AUDIENCE, str(file)))


values = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.lists(st.text(max_size=4), max_size=2)
names = st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x5c", "x5t", "cty", "zip"])
headers = st.dictionaries(names, values, min_size=1).map(lambda header: {"alg": "ES256", "kid": "one", **header})


@pytest.mark.spec("T23")
@settings(max_examples=60, deadline=None)
@given(headers, st.binary(max_size=40), st.text("abcXYZ_-=", max_size=100))
def test_no_header_is_more_than_refused(tokens: Tokens, header: dict[str, Any], payload: bytes, signature: str) -> None:
    with pytest.raises(Unauthenticated):
        asyncio.run(tokens.identify(f"{encoded(json.dumps(header).encode())}.{encoded(payload)}.{signature}"))


@pytest.mark.spec("P14")
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"algorithms": ("HS256",)}, "HS256"),
        ({"algorithms": ("none",)}, "none"),
        ({"algorithms": ()}, "signed by one of"),
        ({"issuer": " "}, "issuer must not be empty"),
        ({"org": ""}, "organisation"),
        ({"org_claim": ""}, "org_claim must not be empty"),
    ],
)
def test_an_issuer_is_named_in_full(more: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        replace(Issuer(ISSUER, AUDIENCE, "https://login.example.com/jwks"), **more)
