"""Signing in to the page of approvals by a token of an issuer (spec 7, M20)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from capset.stores.base import AuditQuery
from capset_server.approvals.page import SIGN_IN
from capset_server.auth.tokens import LEEWAY_SECONDS
from capset_testing import FakeClock
from tests.helpers.server.approvals.page import decided, hold_headers, requested, signed_in
from tests.helpers.server.approving import again, till
from tests.helpers.server.auth.issuing import AUDIENCE, issuing, key, token
from tests.helpers.server.support import site

APPROVE: dict[str, Any] = {"sub": "grace", "scope": "openid capset:approve"}


def filled(letters: int) -> str:
    """Return a text that cannot be made much shorter."""
    return random.Random(letters).randbytes(letters // 2).hex()


@pytest.mark.spec("M20")
async def test_somebody_signs_in_by_a_token_and_approves() -> None:
    async with issuing(capabilities=[till]) as issuer, issuer.site.client(None, follow_redirects=True) as browser:
        session, asked_for = await requested(issuer.site, "ada")
        assert "An API key or a token" in (await browser.get(f"/approve/{asked_for}")).text
        access_token = token(**APPROVE)
        page = await signed_in(browser, access_token, asked_for)
        assert (page.status_code, "Approve pay?" in page.text, "user:grace of acme" in page.text) == (200, True, True)
        hold_headers(page)
        (first,) = page.history
        cookie = first.headers["set-cookie"]
        for attribute in ("HttpOnly", "SameSite=Strict", "Path=/approve", f"Max-Age={SIGN_IN.seconds}"):
            assert attribute in cookie
        for part in access_token.split("."):
            assert part[:40] not in f"{cookie}{page.text}", "the token is encrypted"
        done = await decided(browser, asked_for, page, action="approve", note="fine")
        assert (done.status_code, "user:grace" in done.text) == (200, True)
        async with issuer.site.client("ada") as caller:
            assert (await again(caller, session, asked_for)).json()["data"] == "bob has 5"
        acts = (await issuer.site.kernel.audit.query(AuditQuery(act="approval.approve", approval=asked_for))).items
        assert [(act.tool, act.principal) for act in acts] == [("pay", "grace")]
        other = await browser.get(f"/approve/{(await requested(issuer.site, 'ada'))[1]}")
        assert "Approve this call" in other.text, "it is a sign-in to the page, not to one request"


@pytest.mark.spec("M20", "T44", "T23")
async def test_no_other_token_signs_in() -> None:
    async with issuing(capabilities=[till]) as issuer:
        _, asked_for = await requested(issuer.site, "ada")
        statuses: dict[str, int] = {}
        for name, access_token in {
            "good": token(**APPROVE),
            "without the scope": token(sub="grace", scope="capset:read capset:call"),
            "of an org that has no such request": token(**APPROVE, org="other"),
            "expired": token(**APPROVE, exp=1_600_000_000),
            "for another server": token(**APPROVE, aud="https://other.example.com"),
            "of another issuer": token(**APPROVE, iss="https://other.example.com/"),
            "forged": token(key("one", "P-384"), {"kid": "one", "alg": "ES384"}, **APPROVE),
            "cut": token(**APPROVE)[:-4],
        }.items():
            async with issuer.site.client(None, follow_redirects=True) as browser:
                page = await signed_in(browser, access_token, asked_for)
                statuses[name] = page.status_code
                assert ("Approve this call" in page.text) == (name == "good"), name
                assert name == "good" or page.status_code != 401 or "not a valid API key or token" in page.text
        assert statuses == {
            "good": 200,
            "without the scope": 403,
            "of an org that has no such request": 404,
        } | dict.fromkeys(("expired", "for another server", "of another issuer", "forged", "cut"), 401)


@pytest.mark.spec("M20", "T42")
async def test_a_token_is_for_what_rest_would_take_it_for() -> None:
    public = AUDIENCE
    async with issuing(more={"audience": None, "public_url": public}, capabilities=[till]) as issuer:
        _, asked_for = await requested(issuer.site, "ada")
        for aud, status in (
            (public, 200),
            (f"{public}/v1", 200),
            ([f"{public}/mcp", "account"], 401),
            (f"{public}/mcp/agents/till", 401),
        ):
            async with issuer.site.client(None, follow_redirects=True) as browser:
                assert (await signed_in(browser, token(**APPROVE, aud=aud), asked_for)).status_code == status, aud


@pytest.mark.spec("M20", "T44")
async def test_a_sign_in_ends_with_its_token() -> None:
    clock = FakeClock()
    now = clock.time_ns() // 1_000_000_000
    async with (
        issuing(capabilities=[till], clock=clock) as issuer,
        issuer.site.client(None, follow_redirects=True) as browser,
        issuer.site.client(None, follow_redirects=True) as other,
    ):
        _, asked_for = await requested(issuer.site, "ada")
        page = await signed_in(browser, token(**APPROVE, iat=now, exp=now + 60), asked_for)
        assert page.status_code == 200
        assert (await signed_in(other, token(**APPROVE, iat=now, exp=now + 3_600), asked_for)).status_code == 200
        clock.advance(59 + LEEWAY_SECONDS)
        assert "Approve this call" in (await browser.get(f"/approve/{asked_for}")).text
        clock.advance(1)
        late = await decided(browser, asked_for, page, action="approve")
        assert (late.status_code, "Nothing was decided" in late.text) == (401, True)
        clock.advance(SIGN_IN.seconds - 60 - LEEWAY_SECONDS)
        assert "Sign in" in (await other.get(f"/approve/{asked_for}")).text, "it lasts no longer than one by a key"
        assert (await issuer.site.kernel.approvals.get(asked_for, org="acme")).status == "pending"


@pytest.mark.spec("M20", "T44")
async def test_a_cookie_that_the_server_did_not_write_is_none() -> None:
    async with (
        issuing(capabilities=[till]) as issuer,
        issuing(capabilities=[till]) as elsewhere,
        issuer.site.client(None, follow_redirects=True) as browser,
        elsewhere.site.client(None, follow_redirects=True) as stranger,
    ):
        _, asked_for = await requested(issuer.site, "ada")
        await signed_in(browser, token(**APPROVE), asked_for)
        await signed_in(stranger, token(**APPROVE), asked_for)
        own_cookie = browser.cookies[SIGN_IN.cookie]
        changed = own_cookie[:-1] + ("A" if own_cookie[-1] != "A" else "B")
        for cookie in (stranger.cookies[SIGN_IN.cookie], changed, own_cookie[:60], f"{own_cookie}A", token(**APPROVE)):
            async with issuer.site.client(None, headers={"Cookie": f"{SIGN_IN.cookie}={cookie}"}) as thief:
                page = await thief.get(f"/approve/{asked_for}")
                assert (page.status_code, "bob" in page.text, "Sign in" in page.text) == (200, False, True), cookie
        async with issuer.site.client(None, headers={"Cookie": f"{SIGN_IN.cookie}={own_cookie}"}) as again_there:
            assert "bob" in (await again_there.get(f"/approve/{asked_for}")).text


@pytest.mark.spec("M20")
@pytest.mark.parametrize(("letters", "status"), [(2_000, 200), (4_500, 422)])
async def test_a_token_that_no_cookie_holds_is_refused_in_words(letters: int, status: int) -> None:
    async with issuing(capabilities=[till]) as issuer, issuer.site.client(None, follow_redirects=True) as browser:
        _, asked_for = await requested(issuer.site, "ada")
        access_token = token(**APPROVE, groups=filled(letters))
        page = await signed_in(browser, access_token, asked_for)
        assert page.status_code == status
        assert len(f"{SIGN_IN.cookie}={browser.cookies.get(SIGN_IN.cookie, '')}") <= 4_096, "as much as browsers take"
        if status == 422:
            assert f"The token has {len(access_token):,} characters, too many to sign in with" in page.text


@pytest.mark.spec("M20")
async def test_a_server_without_an_issuer_does_not_speak_of_tokens() -> None:
    async with site(till) as server, server.client(None, follow_redirects=True) as browser:
        page = await signed_in(browser, token(**APPROVE), "0199")
        assert (page.status_code, "or a token" in page.text) == (401, False)


@pytest.mark.spec("M20", "T16")
async def test_the_log_has_who_signed_in_and_nothing_of_the_token(tmp_path: Any) -> None:
    with (tmp_path / "log").open("wb") as log:
        async with (
            issuing(capabilities=[till], log=log) as issuer,
            issuer.site.client(None, follow_redirects=True) as browser,
        ):
            _, asked_for = await requested(issuer.site, "ada")
            access_token = token(**APPROVE)
            assert (await signed_in(browser, access_token, asked_for)).status_code == 200
    text = (tmp_path / "log").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    entries = [entry for entry in lines if entry.get("path") == f"/approve/{asked_for}" and entry["method"] == "GET"]
    assert [entry["principal"] for entry in entries] == ["grace"]
    assert not any(part in text for part in access_token.split("."))
