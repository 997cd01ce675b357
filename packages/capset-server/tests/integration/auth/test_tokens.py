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
from capset.kernel.ttl_cache import TtlCache
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
@pytest.mark.parametrize("name", [("one", "EC"), ("two", "RSA"), ("three", "OKP")])
async def test_a_token_of_the_issuer_opens(door: Issuing, name: tuple[str, str]) -> None:
    assert await door.status(token(key(*name))) == 200


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
        access_token = token(
            roles=["opener", "cook"], permissions=["notes:read", "not one"], scope="openid profile", scp=READ.split()
        )
        async with issuer.site.client(None, headers={"Authorization": f"Bearer {access_token}"}) as client:
            problem(await client.post("/v1/agents", json={"name": "x"}), 403, "permission_denied")
            created = await client.post("/v1/sessions", json={"agent_id": "foreman"})
            assert (await call(client, created.json()["id"], "unlock")).json()["data"] == "open"
        record = await issuer.site.record()
        assert (record.principal, record.principal_kind, record.org) == ("grace", "user", "acme")
        caller = await issuer.site.service.callers.identify(f"Bearer {access_token}")
        assert caller == Caller(
            Principal("grace", permissions={"vault:open", "notes:read"}, org="acme"),
            frozenset(READ.split()),
            f"jwt:{ISSUER}",
        )


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
    assert await door.status(token(org=None)) == 401
    assert await door.status(token(org=None, tenant="acme")) == 401
    async with issuing(more={"org": "acme", "org_claim": "tenant"}) as issuer:
        caller = await issuer.site.service.callers.identify(f"Bearer {token(org='evil')}")
        assert caller.principal.org == "acme", "since the claim is another"
        caller = await issuer.site.service.callers.identify(f"Bearer {token(tenant='umbrella')}")
        assert caller.principal.org == "umbrella"


@pytest.mark.spec("P14")
async def test_a_header_may_be_of_any_length(door: Issuing) -> None:
    """Base64 is written in groups of four, and a token leaves out what would fill the last one."""
    access_tokens = [token(header={"note": "a" * length}) for length in range(12)]
    assert {len(access_token.partition(".")[0]) % 4 for access_token in access_tokens} == {0, 2, 3}, (
        "one left over is no base64"
    )
    assert await door.statuses(access_tokens) == {200}


@pytest.mark.spec("P14")
async def test_a_header_has_room_for_certificates_and_no_more(door: Issuing) -> None:
    bare = len(token(header={"x5c": [""]}).partition(".")[0])
    longest, longer = (token(header={"x5c": ["a" * ((length - bare) * 3 // 4 + 1)]}) for length in (4_096, 4_100))
    assert (len(longest.partition(".")[0]), len(longer.partition(".")[0])) == (4_096, 4_100)
    assert await door.status(longest) == 200
    assert await door.status(longer) == 401


def forged() -> dict[str, str]:
    """Return tokens that are none, by what is wrong with them."""
    now, good = int(time.time()), token()
    head, body, signature = good.split(".")
    public = key_set(key("one"))
    other = base64.urlsafe_b64encode(json.dumps(claims(sub="root")).encode()).decode().rstrip("=")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    hs = {"alg": "HS256", "kid": "one"}
    return {
        "another body": f"{head}.{other}.{signature}",
        "no signature": f"{head}.{body}.",
        "half a signature": f"{head}.{body}.{signature[:43]}",
        "algorithm none": f"{none}.{body}.",
        "none, with a signature": f"{none}.{body}.{signature}",
        "None in other letters": write(hs, claims(), OctKey.import_key(public)).replace("HS256", "nOnE"),
        "the public key as a secret": write(hs, claims(), OctKey.import_key(public)),
        "a key of somebody else's with a known name": token(key("one", "RSA"), {"kid": "two"}),
        "another kind of key under its name": token(key("three", "OKP"), {"kid": "one"}),
        "its own key in the header": token(key("mallory"), {"jwk": key("mallory").as_dict(private=False)}),
        "its own address of keys": token(key("mallory"), {"kid": "one", "jku": "https://evil.example/jwks"}),
        "no name of a key, and signed by none": token(key("mallory"), {"kid": None}),
        "no name of a key, and another kind of key": token(key("mallory", "OKP"), {"kid": None}),
        "no name of a key, and the public key as a secret": write(
            {"alg": "HS256"}, claims(), OctKey.import_key(public)
        ),
        "an empty name of a key": token(header={"kid": ""}),
        "another issuer": token(iss="https://login.example.com"),
        "no issuer": token(iss=None),
        "issuers": token(iss=[ISSUER]),
        "another audience": token(aud="https://other.example.com"),
        "other audiences": token(aud=["a", "b"]),
        "no audience": token(aud=None),
        "an audience that is part of ours": token(aud=AUDIENCE[:-1]),
        "expired": token(exp=now - 31),
        "without end": token(exp=None),
        "an end in words": token(exp="tomorrow"),
        "an end that never comes": signed(json.dumps(claims(exp=1e999)).encode()),
        "true as an end": token(exp=True),
        "not yet": token(nbf=now + 60),
        "from the future": token(iat=now + 60),
        "nobody": token(sub=None),
        "an empty subject": token(sub=" "),
        "a number as a subject": token(sub=7),
        "an endless subject": token(sub="a" * 201),
        "a subject with a null": token(sub="a\0b"),
        "an empty organisation": token(org=""),
        "organisations": token(org=["acme"]),
        "on behalf of somebody": token(act={"sub": "bot"}),
        "bound to a key": token(cnf={"jkt": "x"}),
        "scopes of another kind": token(scope={"capset:admin": True}),
        "numbers as permissions": token(permissions=[1]),
        "a role that is none": token(roles=5),
        "an agent that is none": token(agent={"id": "x"}),
        "told of a logout": token(header={"typ": "logout+jwt"}),
        "what must be understood": signed(json.dumps(claims()).encode(), crit=["b64"], b64=True),
        "no claims": signed(b"[]"),
        "no JSON": signed(b"{"),
        "deep claims": signed(b"[" * 3_000),
        "a header that is a list": f"{base64.urlsafe_b64encode(b'[]').decode().rstrip('=')}.{body}.{signature}",
        "a deep header": f"{base64.urlsafe_b64encode(b'[' * 2_000).decode()}.{body}.{signature}",
        "no base64": f"é.{body}.{signature}",
        "dots": "..",
        "too long": token(note="a" * MAX_TOKEN),
    }


@pytest.mark.spec("P14", "T23")
async def test_whatever_else_is_refused_in_the_same_words(door: Issuing) -> None:
    async with door.site.client(None) as client:
        nothing = problem(await client.get("/v1/agents"), 401, "unauthenticated")
        for name, access_token in forged().items():
            headers = {b"Authorization": f"Bearer {access_token}".encode()}
            response = await client.get("/v1/agents", headers=headers)
            assert response.status_code == 401, name
            assert problem(response, 401, "unauthenticated")["detail"] == nothing["detail"], name
            assert response.headers["www-authenticate"] == "Bearer", name


@pytest.mark.spec("P14")
async def test_a_little_difference_of_clocks_is_no_matter(door: Issuing) -> None:
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
    callers = door.site.service.callers
    without = type(callers)(door.site.kernel, None)
    with pytest.raises(Unauthenticated):
        await without.identify(f"Bearer {token()}")


@pytest.mark.spec("T23")
async def test_forged_tokens_drive_out_no_good_ones(door: Issuing) -> None:
    """What is refused is not kept: else a flood of it would cost every good token a look at its signature."""
    tokens = door.site.service.callers._tokens
    assert isinstance(tokens, Tokens)
    cache: TtlCache[Any, Any] = tokens._known
    before = len(cache._kept)
    await door.statuses([token(key("mallory"), {"kid": "one"}, n=number) for number in range(20)])
    assert len(cache._kept) == before


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
    head = base64.urlsafe_b64encode(json.dumps(header).encode()).decode().rstrip("=")
    body = base64.urlsafe_b64encode(payload).decode().rstrip("=")
    with pytest.raises(Unauthenticated):
        asyncio.run(tokens.identify(f"{head}.{body}.{signature}"))


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
