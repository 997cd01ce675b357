"""Signing in to the console at an OpenID provider: codes with PKCE, states, nonces (spec 9, N1)."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from playwright.async_api import Browser, expect

from capset.errors import DefinitionError, Unreachable
from capset_server.auth.open_id import CALLBACK, OpenIdClient
from capset_server.auth.tokens import Issuer, Tokens
from tests.helpers.server.auth.authorizing import Provider, protected, provider
from tests.helpers.server.console.browsing import visiting
from tests.helpers.server.support import Site, site

CLIENT = ("console", "s3cr€t:/")


@pytest.fixture(scope="module")
async def authority() -> AsyncGenerator[Provider]:
    async with provider() as auth_server:
        yield auth_server


@pytest.fixture(scope="module")
async def here(authority: Provider) -> AsyncGenerator[Site]:
    async with protected(authority, None, client=CLIENT) as server:
        authority.register(CLIENT[0], f"{server.url}{CALLBACK}", secret=CLIENT[1])
        yield server


@pytest.fixture
async def browser_client(here: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    async with here.client(None, follow_redirects=False) as client:
        yield client


async def asked(client: httpx2.AsyncClient, following: str = "") -> str:
    """Begin a sign-in; return the address at the provider."""
    answer = await client.get("/login/provider", params={"next": following})
    assert answer.status_code == 303
    return answer.headers["location"]


async def came_back(address: str) -> dict[str, str]:
    """Sign in at the provider; return what its redirect says."""
    async with httpx2.AsyncClient(trust_env=False) as elsewhere:
        answer = await elsewhere.get(address)
    assert answer.status_code == 302, answer.text
    return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}


@pytest.mark.spec("N1")
async def test_a_code_is_asked_for_with_pkce_for_this_server(here: Site, browser_client: httpx2.AsyncClient) -> None:
    query = parse_qs(urlsplit(await asked(browser_client)).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["resource"] == [here.url]
    assert query["redirect_uri"] == [f"{here.url}{CALLBACK}"]
    assert query["scope"][0].split()[:2] == ["openid", "capset:read"]
    assert len({query[name][0] for name in ("state", "nonce", "code_challenge")}) == 3


@pytest.mark.spec("N1")
async def test_somebody_signs_in_and_is_led_to_their_page(here: Site, browser_client: httpx2.AsyncClient) -> None:
    params = await came_back(await asked(browser_client, "/approvals?status=all"))
    back = await browser_client.get(CALLBACK, params=params)
    assert (back.status_code, back.headers["location"]) == (303, "/approvals?status=all")
    page = await browser_client.get("/approvals")
    assert (page.status_code, "user:grace" in page.text) == (200, True)
    repeated = await browser_client.get(CALLBACK, params=params)
    assert repeated.status_code == 401, "a code and its attempt are for once"


@pytest.mark.spec("N1")
async def test_a_page_whose_address_no_cookie_holds_does_not_keep_anybody_out(
    browser_client: httpx2.AsyncClient,
) -> None:
    params = await came_back(await asked(browser_client, f"/audit?tool={'a' * 4_000}"))
    cookie = browser_client.cookies["capset_sign_in"]
    assert len(f"capset_sign_in={cookie}") <= 4_096, "what browsers keep at most (RFC 6265, 6.1)"
    back = await browser_client.get(CALLBACK, params=params)
    assert (back.status_code, back.headers["location"]) == (303, "/")


@pytest.mark.spec("N1", "T46")
async def test_a_sign_out_counts_while_the_provider_is_away(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'a.db'}"
    with socket.socket() as silent:  # nothing listens there
        silent.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{silent.getsockname()[1]}/jwks"
    async with provider() as authority, protected(authority, None, client=CLIENT, store=store) as server:
        issuer = Issuer(authority.issuer, None, away, public_url=server.url)
        authority.register(CLIENT[0], f"{server.url}{CALLBACK}", secret=CLIENT[1])
        async with (
            site(tokens=lambda kernel: Tokens(kernel, issuer), store=store) as restarted,
            server.client(None, follow_redirects=False) as browser,
        ):
            await browser.get(CALLBACK, params=await came_back(await asked(browser)))
            assert (await browser.get("/approvals")).status_code == 200
            copied = {"Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
            async with restarted.client(None, headers=copied, follow_redirects=False) as elsewhere:
                assert (await elsewhere.get("/approvals")).status_code == 303, "it cannot know who that is"
                await elsewhere.post("/logout")
            assert (await browser.get("/approvals")).status_code == 303


@pytest.mark.spec("N1", "T47")
@pytest.mark.parametrize(
    "changed",
    [{"state": "x"}, {"iss": "https://evil.example"}, {"error": "access_denied"}, {"code": "x"}, {"code": ""}],
    ids=json.dumps,
)
async def test_an_answer_that_is_not_to_the_attempt_signs_nobody_in(
    here: Site, browser_client: httpx2.AsyncClient, changed: dict[str, str]
) -> None:
    params = await came_back(await asked(browser_client))
    back = await browser_client.get(CALLBACK, params={**params, **changed})
    assert (back.status_code, "Sign in" in back.text) == (401, True)
    assert (await browser_client.get("/approvals")).status_code == 303


@pytest.mark.spec("N1", "T47")
async def test_a_code_of_another_browser_signs_nobody_in(here: Site, browser_client: httpx2.AsyncClient) -> None:
    params = await came_back(await asked(browser_client))
    async with here.client(None) as victim:
        assert (await victim.get(CALLBACK, params=params)).status_code == 401
        await asked(victim)
        assert (await victim.get(CALLBACK, params=params)).status_code == 401


@pytest.mark.spec("N1", "T47")
@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "x"},
        {"aud": "other"},
        {"iss": "https://evil.example"},
        {"azp": "other"},
        {"azp": 5},
        {"aud": [CLIENT[0], "other"]},
        {"sub": "eve"},
        {"sub": 5},
        {"exp": "soon"},
    ],
    ids=json.dumps,
)
async def test_an_id_token_for_something_else_is_refused(
    authority: Provider, browser_client: httpx2.AsyncClient, claims: dict[str, Any]
) -> None:
    params = await came_back(await asked(browser_client))
    authority.id_claims = claims
    try:
        back = await browser_client.get(CALLBACK, params=params)
    finally:
        authority.id_claims = {}
    assert back.status_code == 401
    assert "set-cookie" not in back.headers or "capset_console=" not in back.headers["set-cookie"]


@pytest.mark.spec("N1")
async def test_an_id_token_for_several_that_was_issued_to_this_client_signs_in(
    authority: Provider, browser_client: httpx2.AsyncClient
) -> None:
    params = await came_back(await asked(browser_client))
    authority.id_claims = {"aud": [CLIENT[0], "other"], "azp": CLIENT[0]}
    try:
        back = await browser_client.get(CALLBACK, params=params)
    finally:
        authority.id_claims = {}
    assert (back.status_code, back.headers["location"]) == (303, "/")


BAD_ANSWERS: dict[str, tuple[Callable[[Provider, dict[str, Any]], Any], int]] = {
    "no ID token": (lambda _, tokens: {**tokens, "id_token": None}, Unreachable("").status),
    "an ID token that is none": (lambda _, tokens: {**tokens, "id_token": "ä.b.c"}, 401),
    "an ID token of numbers": (lambda _, tokens: {**tokens, "id_token": 5}, Unreachable("").status),
    "no access token": (lambda _, tokens: {**tokens, "access_token": None}, Unreachable("").status),
    "an opaque access token": (lambda _, tokens: {**tokens, "access_token": "opaque"}, 401),
    "an access token in Greek": (lambda _, tokens: {**tokens, "access_token": "α.β.γ"}, 401),
    "an access token for a number": (lambda by, tokens: {**tokens, "access_token": by.token(aud=5)}, 401),
    "an access token for numbers": (lambda by, tokens: {**tokens, "access_token": by.token(aud=[5, {}])}, 401),
    "a list": (lambda _, tokens: [tokens], Unreachable("").status),
    "no JSON": (lambda _, tokens: b"{", Unreachable("").status),
    "JSON of no depth that anybody reads": (lambda _, tokens: b"[" * 100_000, Unreachable("").status),
}


@pytest.mark.spec("N1", "T47")
@pytest.mark.parametrize("answer", BAD_ANSWERS)
async def test_a_bad_answer_of_the_provider_is_said_and_signs_nobody_in(
    authority: Provider, browser_client: httpx2.AsyncClient, answer: str
) -> None:
    params = await came_back(await asked(browser_client))
    change, status = BAD_ANSWERS[answer]
    authority.answered = lambda tokens: change(authority, tokens)
    try:
        back = await browser_client.get(CALLBACK, params=params)
    finally:
        authority.answered = lambda tokens: tokens
    assert (back.status_code, "Sign in" in back.text) == (status, True)
    assert (await browser_client.get("/approvals")).status_code == 303


@pytest.mark.spec("N1")
async def test_an_endpoint_beyond_ascii_is_led_to_as_browsers_write_it() -> None:
    async with (
        provider() as auth_server,
        protected(auth_server, None, client=CLIENT) as server,
        server.client(None) as client,
    ):
        auth_server.described_as = {"authorization_endpoint": f"{auth_server.issuer}/authorisé?a=→#here"}
        answer = await client.get("/login/provider")
        assert answer.status_code == 303
        assert answer.headers["location"].startswith(
            f"{auth_server.issuer}/authoris%C3%A9?a=%E2%86%92&response_type=code"
        )


@pytest.mark.spec("N1")
async def test_a_provider_is_not_asked_again_for_each_visitor(
    authority: Provider, browser_client: httpx2.AsyncClient
) -> None:
    await asked(browser_client)
    before = authority.described
    for _ in range(5):
        await asked(browser_client)
    assert authority.described == before


@pytest.mark.spec("N1")
async def test_a_provider_that_is_away_is_named_on_the_page() -> None:
    async with AsyncExitStack() as running:
        away = AsyncExitStack()
        authority = await away.enter_async_context(provider())
        server = await running.enter_async_context(protected(authority, None, client=CLIENT))
        client = await running.enter_async_context(server.client(None))
        await away.aclose()
        answer = await client.get("/login/provider")
    assert answer.status_code == Unreachable("").status
    assert f"the request to {urlsplit(authority.issuer).netloc} failed" in answer.text


def test_a_sign_in_needs_to_know_where_it_leads_back() -> None:
    issuer = Issuer("https://id.example", "capset", "https://id.example/jwks")
    with pytest.raises(DefinitionError, match="--public-url"):
        OpenIdClient(issuer, "console")
    assert "s3cret" not in repr(
        OpenIdClient(Issuer("https://a", "b", "c", public_url="https://d.example"), "e", "s3cret")
    )


@pytest.mark.browser
async def test_a_browser_signs_in_at_the_provider(here: Site, browser: Browser) -> None:
    async with visiting(browser, here.url) as page:
        await page.goto("/approvals")
        await page.get_by_role("link", name="Sign in with 127.0.0.1").click()
        await expect(page.get_by_role("heading", name="Approvals")).to_be_visible()
        await expect(page.get_by_text("user:grace")).to_be_visible()
