"""A walk over every page and form: by strangers, by another organisation's administrator, and by axe (spec 9, N3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx2
import pytest
from playwright.async_api import Browser

from capset.stores.base import AuditQuery
from capset_server.console.app import PAGE_ROUTES
from capset_server.console.page import PageRoute
from tests.helpers.server.console.auditing import reading
from tests.helpers.server.console.browsing import hold_page, signed_in
from tests.helpers.server.console.owned import MARK, READS, Owned, owned

__all__ = ["owned"]

FORM: Final = dict.fromkeys(("name", "content", "agent/name", "arguments/to"), "mine") | {
    "action": "delete",
    "do": "save",
    "round": "0",
    "to": "1",
    "tool": "pay",
    "version": "1",
}
OTHER_ANSWERS: Final = {
    "/capabilities/{id}": 200,
    "/capabilities/{id}/readiness": 200,
    "/approvals/{id}/beside": 200,
    "/servers/{name}/approve": 403,
    "/servers/{name}/withdraw": 403,
}
"""What others get of pages about one thing, where that is not 404: what is installed is everybody's."""


async def state_of(owned: Owned) -> Mapping[str, Any]:
    """Return what the organisation has, to be compared later."""
    store, kernel = owned.site.kernel.store, owned.site.kernel
    return {
        "agent": await store.agents.get("acme", owned.agent),
        "session": await store.sessions.get(owned.session),
        "approval": await kernel.approvals.get(owned.approval, org="acme"),
        "keys": [key for key in await store.keys.list() if key.org == "acme"],
        "files": await kernel.find_session(owned.session),
        "records": len((await kernel.audit.query(AuditQuery(org="acme", limit=1_000))).items),
    }


@pytest.mark.spec("N3", "T46")
@pytest.mark.parametrize("route", PAGE_ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_another_organisation_reads_and_changes_nothing(owned: Owned, route: PageRoute) -> None:
    before, path = await state_of(owned), owned.path_of(route)
    options: dict[str, Any] = {"data": {**FORM, "agent_id": owned.agent}} if route.method != "GET" else {}
    async with reading(owned.site, "spy") as spy:
        forms: list[dict[str, Any]] = [
            {},
            {"headers": {"hx-request": "true"}},
            {"params": {"download": "1", "image": "1"}},
        ]
        for more in forms:
            answer = await spy.request(route.method, path, follow_redirects=False, **options, **more)
            if "{" in route.path:
                assert answer.status_code == OTHER_ANSWERS.get(route.path, 404), answer.text
            else:
                assert answer.status_code < 500, answer.text
            text = answer.text.replace(path, "").replace(path.replace("/", "%2F"), "")
            assert MARK not in text.replace(f"'{MARK}'", "").replace(f"&#39;{MARK}&#39;", "")
    assert await state_of(owned) == before


@pytest.mark.spec("N1", "N3", "T46")
@pytest.mark.parametrize("route", PAGE_ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_strangers_get_nothing(owned: Owned, route: PageRoute) -> None:
    before = await state_of(owned)
    async with owned.site.client(None) as client:
        for cookie in ("", "capset_console=" + "0" * 64 + ".9.0"):
            answer = await client.request(route.method, owned.path_of(route), headers={"cookie": cookie})
            assert answer.status_code == (303 if route.method == "GET" else 401)
            assert MARK not in answer.text
    assert await state_of(owned) == before


@pytest.mark.browser
@pytest.mark.spec("N19")
async def test_no_page_has_a_serious_fault(owned: Owned, browser: Browser) -> None:
    await owned.site.key("chief", scopes=["capset:admin"])
    looked: set[str] = set()
    async with signed_in(browser, owned.site, "chief") as page, reading(owned.site, "chief") as client:
        for route in READS:
            path = owned.path_of(route)
            if await is_page(client, path):
                await page.goto(path)
                await hold_page(page)
                looked.add(route.path)
    assert {"/agents/{id}/edit", "/sessions/{id}", "/audit/{id}", "/principals/{kind}/{id:path}"} <= looked
    assert len(looked) >= len(READS) // 2


async def is_page(client: httpx2.AsyncClient, path: str) -> bool:
    """Return whether there is a whole page at a path, and no download, redirection, stream or part of a page."""
    async with client.stream("GET", path, follow_redirects=False) as answer:
        is_html = answer.headers.get("content-type", "").startswith("text/html")
        return is_html and (await answer.aread()).startswith(b"<!doctype html>")
