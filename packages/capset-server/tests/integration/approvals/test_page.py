"""The page on which a person decides an approval request (spec 7, M20)."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Annotated, Any

import httpx2
import pytest
from pydantic import Field

from capset import Capability, Context, Principal, tool
from capset.definitions.governance.approvers import ApproverRule
from capset.definitions.governance.settings import Governance
from capset.definitions.secrets import MASK
from capset.ext import session_file
from capset.stores.base import AuditQuery
from capset_server.approvals.page import SIGN_IN
from capset_server.auth.callers import Caller
from capset_server.auth.keys import revoke_key
from capset_server.auth.sign_ins import is_foreign
from capset_testing import FakeClock
from tests.helpers.server.approvals.page import (
    browser,
    decided,
    hold_headers,
    requested,
    shop,
    signed_in,
    token_of,
)
from tests.helpers.server.approving import again, asked, pay, till
from tests.helpers.server.support import Site, call, make_session, problem, site

__all__ = ["browser", "shop"]

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202etxt"


@pytest.mark.spec("M20")
async def test_somebody_signs_in_reads_and_approves(shop: Site, browser: httpx2.AsyncClient) -> None:
    session, asked_for = await requested(shop)
    first = await browser.get(f"/approve/{asked_for}")
    assert first.status_code == 200
    hold_headers(first)
    assert "Sign in" in first.text
    assert "bob" not in first.text, "nothing is shown to strangers"
    page = await signed_in(browser, shop.keys["boss"], asked_for)
    assert page.status_code == 200
    assert shop.keys["boss"] not in page.text
    for text in ("Approve pay?", "user:caller", "every call of &#x27;pay&#x27; has to be approved", "&quot;bob&quot;"):
        assert text in page.text
    done = await decided(browser, asked_for, page, action="approve", note="once,\r\nno more")
    assert (done.status_code, "Approve this call" in done.text) == (200, False)
    assert "user:boss" in done.text
    async with shop.client("caller") as caller:
        approval = (await caller.get(f"/v1/approvals/{asked_for}")).json()
        assert (approval["status"], approval["decided_by"], approval["note"]) == (
            "approved",
            "user:boss",
            "once,\nno more",
        )
        assert (await again(caller, session, asked_for)).json()["data"] == "bob has 5"
    (act,) = (await shop.kernel.audit.query(_acts(asked_for))).items
    assert (act.tool, act.principal, act.approval) == ("pay", "boss", asked_for)


def _acts(asked_for: str) -> Any:
    from capset.stores.base import AuditQuery

    return AuditQuery(act="approval.approve", approval=asked_for)


@pytest.mark.spec("M20", "T44")
async def test_a_rejection_has_its_reason_and_comes_once(shop: Site, browser: httpx2.AsyncClient) -> None:
    session, asked_for = await requested(shop)
    page = await signed_in(browser, shop.keys["boss"], asked_for)
    assert (await decided(browser, asked_for, page, action="reject", note="<b>no</b>")).status_code == 200
    replayed = await decided(browser, asked_for, page, action="approve")
    assert replayed.status_code == 409
    hold_headers(replayed)
    assert "&lt;b&gt;no&lt;/b&gt;" in (await browser.get(f"/approve/{asked_for}")).text
    async with shop.client("caller") as caller:
        refused = (await again(caller, session, asked_for)).json()
        assert refused["error"]["code"] == "approval_rejected"
        assert "<b>no</b>" in refused["error"]["message"]


@pytest.mark.spec("M20", "T44")
@pytest.mark.parametrize("key", ["caller", "ghost", "", "a.b.c", "spy"])
async def test_others_do_not_get_in(shop: Site, browser: httpx2.AsyncClient, key: str) -> None:
    _, asked_for = await requested(shop)
    page = await signed_in(browser, shop.keys.get(key, key), asked_for)
    assert page.status_code == {"caller": 403, "spy": 404}.get(key, 401)
    hold_headers(page)
    assert "bob" not in page.text
    assert (SIGN_IN.cookie in browser.cookies) == (key == "spy"), "of another organisation, and it sees only that one's"
    assert (await shop.kernel.approvals.get(asked_for, org="acme")).status == "pending"


@pytest.mark.spec("M20", "T44")
async def test_ids_are_not_told_apart(shop: Site, browser: httpx2.AsyncClient) -> None:
    _, asked_for = await requested(shop)
    neighbour = asked_for[:-1] + ("0" if asked_for[-1] != "0" else "1")
    guesses = ("0199", "0" * 36, "%00", "%0d%0aSet-Cookie:x=y", neighbour)
    pages = {(await browser.get(f"/approve/{guess}")).text for guess in (asked_for, *guesses)}
    assert len(pages) == 1, "without a key, there is one page"
    await signed_in(browser, shop.keys["boss"], asked_for)
    for guess in guesses:
        missing = await browser.get(f"/approve/{guess}")
        assert missing.status_code == 404, guess
        hold_headers(missing)
    split = await browser.post("/approve/%0d%0aX-Evil:1", data={"action": "sign_in", "key": shop.keys["boss"]})
    assert "x-evil" not in split.headers
    assert all("x-evil" not in response.headers for response in split.history)
    assert (await browser.get("/approve/" + "x" * 201)).status_code == 414


@pytest.mark.spec("M20")
async def test_nobody_approves_what_is_their_own(shop: Site, browser: httpx2.AsyncClient) -> None:
    _, asked_for = await requested(shop, "both")
    page = await signed_in(browser, shop.keys["both"], asked_for)
    refused = await decided(browser, asked_for, page, action="approve")
    assert refused.status_code == 403
    assert "a principal other than" in refused.text
    assert (await shop.kernel.approvals.get(asked_for, org="acme")).status == "pending"
    assert (await decided(browser, asked_for, page, action="reject")).status_code == 200


@pytest.mark.spec("M20", "T44")
async def test_forms_of_others_do_nothing(shop: Site, browser: httpx2.AsyncClient) -> None:
    _, asked_for = await requested(shop)
    _, other = await requested(shop, to="eve")
    page = await signed_in(browser, shop.keys["boss"], asked_for)
    token = token_of(page)
    forged: list[dict[str, str]] = [
        {"action": "approve"},
        {"action": "approve", "token": ""},
        {"action": "approve", "token": "0" * 64},
        {"action": "approve", "token": "ä\udcff".encode("utf-8", "replace").decode()},
    ]
    for form in forged:
        assert (await browser.post(f"/approve/{asked_for}", data=form)).status_code == 403, form
    elsewhere = await browser.post(f"/approve/{other}", data={"action": "approve", "token": token})
    assert elsewhere.status_code == 403, "a form is for one request"
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        form = {"action": "approve", "token": token}
        assert (await browser.post(f"/approve/{asked_for}", data=form, headers=headers)).status_code == 403, headers
        form = {"action": "sign_in", "key": shop.keys["boss"]}
        assert (await browser.post(f"/approve/{asked_for}", data=form, headers=headers)).status_code == 403, headers
    async with shop.client(None) as stranger:
        form = {"action": "approve", "token": token}
        assert (await stranger.post(f"/approve/{asked_for}", data=form)).status_code == 401, "without the cookie"
        bearer = {"Authorization": f"Bearer {shop.keys['boss']}"}
        assert (await stranger.post(f"/approve/{asked_for}", data=form, headers=bearer)).status_code == 401, (
            "a key is no cookie"
        )
        cookie = {"Cookie": f"{SIGN_IN.cookie}={browser.cookies[SIGN_IN.cookie]}"}
        assert (await stranger.get(f"/v1/approvals/{asked_for}", headers=cookie)).status_code == 401, (
            "a cookie is no key"
        )
    for method in ("PUT", "DELETE", "PATCH"):
        refused = await browser.request(method, f"/approve/{asked_for}?action=approve&token={token}")
        problem(refused, 405, "method_not_allowed")
    assert (await browser.get(f"/approve/{asked_for}?action=approve&token={token}")).status_code == 200
    for request in (asked_for, other):
        assert (await shop.kernel.approvals.get(request, org="acme")).status == "pending"
    same = {"Origin": shop.url, "Sec-Fetch-Site": "same-origin"}
    done = await browser.post(f"/approve/{asked_for}", data={"action": "approve", "token": token}, headers=same)
    assert done.status_code == 422, "a form says which arguments it has shown"
    form = {"action": "approve", "token": token, "round": "0"}
    done = await browser.post(f"/approve/{asked_for}", data=form, headers=same)
    assert done.status_code == 200


@pytest.mark.spec("M20")
@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (b'{"action":"approve"}', "application/json", 415),
        (b"action=approve", "multipart/form-data; boundary=x", 415),
        (b"action=approve", "text/plain", 415),
        (b"action", "application/x-www-form-urlencoded", 400),
        (b"action=%ff", "application/x-www-form-urlencoded", 400),
        (b"a=1&b=1&c=1&d=1&e=1&f=1", "application/x-www-form-urlencoded", 400),
        (b"action=approve&action=reject", "application/x-www-form-urlencoded", 422),
        (b"note=" + b"x" * 20_000, "application/x-www-form-urlencoded", 413),
        (b"", "application/x-www-form-urlencoded", 401),
    ],
)
async def test_forms_that_are_none(browser: httpx2.AsyncClient, body: bytes, media_type: str, status: int) -> None:
    response = await browser.post("/approve/0199", content=body, headers={"Content-Type": media_type})
    assert response.status_code == status


@pytest.mark.spec("M20")
async def test_what_a_form_says_is_checked_as_by_rest(shop: Site, browser: httpx2.AsyncClient) -> None:
    _, asked_for = await requested(shop)
    page = await signed_in(browser, shop.keys["boss"], asked_for)
    for form in (
        {"action": "approve", "note": "x" * 1_001},
        {"action": "approve", "note": "a\0b"},
        {"action": "steal"},
    ):
        assert (await decided(browser, asked_for, page, **form)).status_code == 422, form
    assert (await shop.kernel.approvals.get(asked_for, org="acme")).status == "pending"


@pytest.mark.spec("M20", "T44")
async def test_hostile_arguments_are_text(shop: Site, browser: httpx2.AsyncClient) -> None:
    _, asked_for = await requested(shop, to=EVIL)
    page = await signed_in(browser, shop.keys["boss"], asked_for)
    assert "<script" not in page.text
    assert "<img" not in page.text
    assert "&lt;script&gt;alert(1)" in page.text
    assert "\u202e" not in page.text
    assert "\\u{202e}txt" in page.text


@pytest.mark.spec("M20")
async def test_secrets_are_masked(shop: Site, browser: httpx2.AsyncClient) -> None:
    _, asked_for = await requested(shop, tool="login", name="ada", password="hunter2")
    page = await signed_in(browser, shop.keys["boss"], asked_for)
    assert "hunter2" not in page.text
    assert MASK in page.text
    assert "&quot;ada&quot;" in page.text


@pytest.mark.spec("M20", "G51", "T49")
async def test_what_is_masked_is_shown_on_request(shop: Site, browser: httpx2.AsyncClient) -> None:
    _, asked_for = await requested(shop, tool="login", name="ada", password="hunter2")
    await browser.get(f"/approve/{asked_for}?show=arguments")
    page = await signed_in(browser, shop.keys["boss"], asked_for)
    assert '<a href="?show=arguments">' in page.text
    revealed_page = await browser.get(f"/approve/{asked_for}?show=arguments")
    hold_headers(revealed_page)
    assert "&quot;hunter2&quot;" in revealed_page.text
    assert '<a href="?show=arguments">' not in revealed_page.text
    acts = AuditQuery(act="approval.show", approval=asked_for)
    assert [act.principal for act in (await shop.kernel.audit.query(acts)).items] == ["boss"]


@tool(effect="external", approval="ask", permissions={"session_files:read"})
async def send(ctx: Context, path: Annotated[str, Field(json_schema_extra=session_file())]) -> str:
    """Send a file."""
    return (await ctx.files.read(path))[1].decode()


@pytest.mark.spec("M20", "G52", "T50")
@pytest.mark.parametrize("content", [b"a <b>report</b>", b"\0\xff"], ids=["text", "bytes"])
async def test_a_file_is_shown_with_its_hash_and_on_request_with_its_content(content: bytes) -> None:
    async with site(Capability("post", tools=[send])) as server, server.client(None, follow_redirects=True) as browser:
        await server.key("boss", scopes=["capset:approve"])
        async with server.client() as caller:
            session = await make_session(caller, "post", "session_file_system")
            await caller.put(f"/v1/sessions/{session}/files/report", content=content)
            asked_for = (await call(caller, session, "send", path="/report")).json()["approval"]
        page = await signed_in(browser, server.keys["boss"], asked_for)
        digest = sha256(content).hexdigest()
        assert f"path: /report, {len(content)} bytes, SHA-256 {digest}" in page.text
        file_page = await browser.get(f"/approve/{asked_for}?show=0")
        if content.startswith(b"a"):
            hold_headers(file_page)
            assert "a &lt;b&gt;report&lt;/b&gt;" in file_page.text
        else:
            assert (file_page.content, file_page.headers["content-disposition"]) == (content, "attachment")
        assert (await browser.get(f"/approve/{asked_for}?show=1")).status_code == 404


@pytest.mark.spec("M20", "T44")
async def test_the_cookie_is_strict_and_lasts_as_long_as_its_key() -> None:
    clock = FakeClock()
    async with site(till, clock=clock) as server, server.client(None, follow_redirects=True) as browser:
        await server.key("boss", scopes=["capset:approve"])
        _, asked_for = await requested(server, "ada", to="bob")
        page = await signed_in(browser, server.keys["boss"], asked_for)
        (first,) = page.history
        cookie = first.headers["set-cookie"]
        assert (first.status_code, first.headers["location"]) == (303, f"./{asked_for}")
        for attribute in ("HttpOnly", "SameSite=Strict", "Path=/approve", f"Max-Age={SIGN_IN.seconds}"):
            assert attribute in cookie
        value = browser.cookies[SIGN_IN.cookie]
        digest, end, nonce, seal = value.split(".")
        assert server.keys["boss"] not in cookie
        for changed in (
            f"{digest}.{int(end) + 60}.{nonce}.{seal}",
            f"{'0' * 64}.{end}.{nonce}.{seal}",
            f"{digest}.{end}.{'0' * 16}.{seal}",
            f"{digest}.{end}.{nonce}.{'0' * 64}",
        ):
            headers = {"Cookie": f"other=1; {SIGN_IN.cookie}={changed}"}
            async with server.client(None) as thief:
                assert "Sign in" in (await thief.get(f"/approve/{asked_for}", headers=headers)).text
        clock.advance(SIGN_IN.seconds - 1)
        assert "Approve this call" in (await browser.get(f"/approve/{asked_for}")).text
        clock.advance(2)
        late = await decided(browser, asked_for, page, action="approve")
        assert (late.status_code, "Nothing was decided" in late.text) == (401, True)
        page = await signed_in(browser, server.keys["boss"], asked_for)
        (key,) = [row for row in await server.kernel.store.keys.list() if row.name == "boss"]
        await revoke_key(server.kernel, key.id)
        assert (await decided(browser, asked_for, page, action="approve")).status_code == 401
        assert (await server.kernel.approvals.get(asked_for, org="acme")).status == "pending"


@pytest.mark.spec("M20")
async def test_signing_out_removes_the_cookie_and_ends_its_copies(shop: Site, browser: httpx2.AsyncClient) -> None:
    _, asked_for = await requested(shop)
    page = await signed_in(browser, shop.keys["boss"], asked_for)
    copied = {"Cookie": f"{SIGN_IN.cookie}={browser.cookies[SIGN_IN.cookie]}"}
    signed_out = await decided(browser, asked_for, page, action="sign_out")
    assert "Sign in" in signed_out.text
    assert SIGN_IN.cookie not in browser.cookies
    async with shop.client(None, headers=copied) as copy:
        assert "Sign in" in (await copy.get(f"/approve/{asked_for}")).text
        assert (await decided(copy, asked_for, page, action="approve")).status_code == 401


@pytest.mark.spec("M20")
async def test_a_public_url_is_where_the_page_is() -> None:
    """Behind a proxy that ends TLS and cuts off the beginning of paths."""
    async with site(till, public_url="https://tools.example.com/capset") as server, server.client(None) as browser:
        await server.key("boss", scopes=["capset:approve"])
        first = await signed_in(browser, server.keys["boss"], "0199")
        assert "Path=/capset/approve;" in first.headers["set-cookie"]
        assert first.headers["set-cookie"].endswith("; Secure")


@pytest.mark.spec("M20")
def test_a_form_from_the_public_address_is_no_foreign_one() -> None:
    origin = {b"origin": b"https://tools.example.com", b"host": b"10.0.0.7:8000"}
    assert is_foreign(origin, None)
    assert not is_foreign(origin, "https://tools.example.com/capset")
    assert is_foreign({**origin, b"sec-fetch-site": b"same-site"}, "https://tools.example.com/capset")


@pytest.mark.spec("M20")
async def test_where_no_key_is_asked_for_everybody_is_the_one_who_asked() -> None:
    anyone = Caller(Principal("ada", org="acme"), frozenset({"capset:admin"}), None)
    governance = Governance(own_approvals=True)
    for tested_governance, status in ((Governance(), 403), (governance, 200)):
        async with (
            site(till, anyone=anyone, governance=tested_governance) as server,
            server.client(None, follow_redirects=True) as browser,
        ):
            session = await make_session(browser, "till")
            asked_for = await asked(browser, session)
            page = await signed_in(browser, "", asked_for)
            assert (await decided(browser, asked_for, page, action="approve")).status_code == status


@pytest.mark.spec("M20", "G46", "G48")
async def test_the_page_obeys_rules_for_approvers_and_says_what_is_needed() -> None:
    rule = ApproverRule(permission="payments:approve", approvals=2)
    async with (
        site(till, governance=Governance(approvers=[rule])) as server,
        server.client(None, follow_redirects=True) as eve,
        server.client(None, follow_redirects=True) as browser,
    ):
        for name, permission in (("eve", "bills:read"), ("fay", "payments:approve"), ("fred", "payments:approve")):
            await server.key(name, scopes=["capset:approve"], permissions=[permission])
        await server.key("caller", scopes=["capset:call", "capset:write"])
        _, asked_for = await requested(server)
        page = await signed_in(eve, server.keys["eve"], asked_for)
        assert "two different approvers with the permission payments:approve" in page.text
        assert "You cannot approve this: this request needs an approver with the permission" in page.text
        assert "you have bills:read" in page.text
        assert ("Approve this call" in page.text, "Reject" in page.text) == (False, True)
        forged = await decided(eve, asked_for, page, action="approve")
        assert (forged.status_code, "you have bills:read" in forged.text) == (403, True)
        page = await signed_in(browser, server.keys["fay"], asked_for)
        half = await decided(browser, asked_for, page, action="approve", note="<i>fine</i>")
        assert "user:fay at " in half.text
        assert "(&lt;i&gt;fine&lt;/i&gt;)" in half.text
        assert "you have approved it already" in half.text
        assert "Approve this call" not in half.text
        fred_page = await signed_in(browser, server.keys["fred"], asked_for)
        await decided_over_rest(server, "fay", asked_for, {"to": "eve", "amount": 9})
        stale = await decided(browser, asked_for, fred_page, action="approve")
        assert (stale.status_code, "have been changed since" in stale.text) == (409, True)
        fred_page = await browser.get(f"/approve/{asked_for}")
        assert "Arguments, as the approver changed them" in fred_page.text
        assert (
            "user:fred" not in (await decided(browser, asked_for, fred_page, action="approve")).text.split("Status")[0]
        )
        row = await server.kernel.approvals.get(asked_for, org="acme")
        assert (row.status, row.modified, row.decided_by) == ("approved", '{"amount":9,"to":"eve"}', "user:fred")


async def decided_over_rest(server: Site, name: str, asked_for: str, arguments: dict[str, Any]) -> None:
    async with server.client(name) as client:
        done = await client.post(f"/v1/approvals/{asked_for}/approve", json={"arguments": arguments})
        assert done.json()["status"] == "pending"


@pytest.mark.spec("M20")
async def test_the_page_is_not_in_the_openapi_document(shop: Site) -> None:
    async with shop.client() as client:
        document = (await client.get("/openapi.json")).json()
    assert not [path for path in document["paths"] if "approve/" in path and not path.startswith("/v1")]
    assert json.dumps(document).count("/approve/{id}") == 0
    assert pay.name == "pay"
