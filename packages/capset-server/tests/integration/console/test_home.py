"""The first page, and the pages that say that something is not there or not allowed (spec 9, N36)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from html import unescape
from typing import Any

import httpx2
import pytest

from capset.definitions.governance.usage import AgentUsage
from capset.stores.base import ModelUser
from capset_testing.store_suite.support import entry
from tests.helpers.server.approving import asked
from tests.helpers.server.console.auditing import auditing, called, reading
from tests.helpers.server.console.talking import session_of, visitor
from tests.helpers.server.console.talking import shop as talking_shop
from tests.helpers.server.rest.wholesale import wholesale
from tests.helpers.server.support import Site, make_session

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
async def shop() -> AsyncGenerator[Site]:
    async with auditing() as server:
        yield server


@pytest.mark.spec("N36")
async def test_it_shows_what_waits_what_failed_and_what_was_spent(shop: Site, boss: httpx2.AsyncClient) -> None:
    empty = (await boss.get("/")).text
    for part in ("No requests are waiting for a decision", "0 calls, of which none failed", "$0</strong> for 0 tokens"):
        assert part in empty, part
    await called(shop, "one")
    async with shop.client("caller") as client:
        agent = (await client.get("/v1/agents")).json()["items"][0]["name"]
    user = ModelUser("acme", agent, "kim", "user")
    now = shop.kernel.clock.time_ns()
    await shop.kernel.store.usage.count(user, AgentUsage(steps=2, tokens=1_200, cost=0.25), now)
    async with shop.client("caller") as client:
        request = await asked(client, await make_session(client, "till"))
    page = (await boss.get("/")).text
    for part in (
        *("1 open request", f'href="/approvals/{request}?order=oldest"', "1 failed</a>", "<code>refuse</code>"),
        *("$0.25</strong> for 1,200 tokens in 2 model steps", f">{agent}</a>"),
    ):
        assert part in page, part
    assert "Servers that need attention" not in page, "none is declared"
    async with reading(shop, "caller") as caller:
        page = (await caller.get("/")).text
    for part in ("open request", "What failed", "Spend today"):
        assert part not in page, part
    assert "Where to start" in page


@pytest.mark.spec("N36")
async def test_a_failing_tool_is_named_however_many_are_busier(shop: Site, boss: httpx2.AsyncClient) -> None:
    """Also where no handler was started, since what the call needs is unavailable."""
    same: dict[str, Any] = {"org": "acme", "act": None, "time": shop.kernel.now()}
    for number in range(22):
        await shop.kernel.audit.commit(entry(f"busy-{number}", **same, tool=f"tool_{number % 11}"))
    await shop.kernel.audit.commit(entry("rare", **same, tool="ledger", outcome="unavailable"))
    page = (await boss.get("/")).text
    assert ("1 unavailable</a>" in page, "<code>ledger</code>" in page) == (True, True)


@pytest.mark.spec("N36")
async def test_it_names_servers_that_need_someone() -> None:
    async with wholesale() as wholesaler:
        await wholesaler.here.key("operator", org=None, scopes=["capset:admin"])
        async with reading(wholesaler.here, "operator") as browser:
            assert "no tool approved" in (await browser.get("/")).text
            for name in ("shop", "gone"):
                await browser.get(f"/servers/{name}?ask=1")
            page = (await browser.get("/")).text
    assert ("2 tools to review" in page, "unreachable" in page) == (True, True)


@pytest.mark.spec("N36")
@pytest.mark.parametrize(
    ("path", "status", "way_on"),
    [
        ("/agents/nothing", 404, "/agents"),
        ("/nothing", 404, "/"),
        ("/audit", 403, "/account"),
    ],
)
async def test_errors_have_the_menu_and_a_way_on(shop: Site, path: str, status: int, way_on: str) -> None:
    async with reading(shop, "caller") as caller:
        page = await caller.get(path, headers=BROWSER)
        assert (page.status_code, 'aria-label="Main"' in page.text) == (status, True)
        assert f'href="{way_on}"' in page.text[page.text.index("<main") :]
        assert ("issue a key" in page.text) == (status == 403)
        part = await caller.get(path, headers={**BROWSER, "hx-request": "true"})
        assert (part.status_code, part.text.startswith('<p class="alert"')) == (status, True)
        forged = await caller.post("/agents/new", headers={**BROWSER, "x-capset-token": "0" * 64})
        assert (forged.status_code, "issue a key" in forged.text) == (403, False)


@pytest.mark.spec("N36")
async def test_who_is_no_browser_gets_no_page_where_none_is(shop: Site) -> None:
    async with shop.client(None) as stranger:
        page = await stranger.get("/nothing", headers=BROWSER)
        assert (page.status_code, "Sign in" in page.text, "Main" in page.text) == (404, True, False)
        assert (await stranger.get("/nothing")).status_code == 401
    async with shop.client("caller") as client:
        missing = await client.get("/nothing")
        assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.spec("N14")
async def test_a_session_is_started_from_a_search() -> None:
    async with talking_shop() as server, visitor(server) as page:
        session = await session_of(server)
        async with server.client("boss") as client:
            agent = (await client.get(f"/v1/sessions/{session}")).json()["agent_id"]
            entry = {"name": "Night Clerk", "capabilities": []}
            clerk = (await client.post("/v1/agents", json=entry)).json()["id"]
        whole = (await page.get("/sessions/new")).text
        assert (f'value="{agent}"' in whole, f'value="{clerk}"' in whole) == (True, True)
        part = (await page.get("/sessions/new", params={"text": "CLER"})).text
        assert (f'value="{agent}"' in part, f'value="{clerk}"' in part) == (False, True)
        assert "No agent has this in its name" in (await page.get("/sessions/new", params={"text": "%"})).text
        first = (await page.get("/sessions/new", params={"agent_id": agent})).text
        assert first.index(f'value="{agent}"') < first.index(f'value="{clerk}"')
        begun = await page.post("/sessions", agent_id=clerk)
        assert "Night Clerk" in begun.text


@pytest.mark.spec("R28")
async def test_charts_show_tokens_and_cost(shop: Site, boss: httpx2.AsyncClient) -> None:
    now = shop.kernel.clock.time_ns()
    await called(shop, "one")
    for name, cost in (("clerk", 0.5), ("scribe", 2.25)):
        used = AgentUsage(steps=1, tokens=1_000, cost=cost)
        await shop.kernel.store.usage.count(ModelUser("acme", name, "kim", "user"), used, now)
    page = (await boss.get("/audit/charts")).text
    for part in (
        "2,000 tokens and $2.75 in 2 steps",
        'id="chart-tokens"',
        'id="chart-cost"',
        "user:kim",
        "30 days",
        "Counted in whole hours, from",
    ):
        assert part in page, part
    cost = re.search(r'id="chart-cost" data-chart="([^"]*)"', page)
    assert cost is not None
    assert len(json.loads(unescape(cost[1]))["x"]) >= 24, "from the beginning of the day that is shown"
    assert page.index(">scribe<") < page.index(">clerk<"), "by cost"
    assert "remove the filter" in (await boss.get("/audit/charts?tool=echo")).text
    assert "$0.5 in 1 step" in (await boss.get("/audit/charts?agent=clerk")).text
