"""A walk over every page and form: by strangers, and by another organisation's administrator (spec 9, N3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import httpx2
import pytest

from capset.stores.base import AuditQuery
from capset_server.console.app import PAGE_ROUTES
from capset_server.console.page import PageRoute
from tests.helpers.server.console.owned import MARK, READS, Owned, owned

__all__ = ["owned"]

WRITES: Final = [route for route in PAGE_ROUTES if route.method != "GET"]


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


async def signed_in(client: httpx2.AsyncClient, key: str) -> str:
    """Sign in, and return the token of the forms of the pages."""
    page = await client.post("/login", data={"key": key}, follow_redirects=True)
    match = re.search(r'data-token="([0-9a-f]{64})"', page.text)
    assert match is not None, page.text
    return match[1]


@pytest.mark.spec("N3", "T46")
@pytest.mark.parametrize("route", READS, ids=lambda route: route.path)
async def test_another_organisation_reads_nothing(owned: Owned, route: PageRoute) -> None:
    path = owned.path_of(route)
    async with owned.site.client(None) as client:
        await signed_in(client, owned.site.keys["spy"])
        answer = await client.get(path)
        assert answer.status_code in (200, 303, 400, 403, 404, 409, 422), answer.text
        text = answer.text.replace(path, "").replace(path.replace("/", "%2F"), "")
        assert MARK not in text.replace(f"'{MARK}'", "").replace(f"&#39;{MARK}&#39;", "")


@pytest.mark.spec("N3", "T46")
async def test_another_organisation_changes_nothing(owned: Owned) -> None:
    before = await state_of(owned)
    async with owned.site.client(None) as client:
        token = await signed_in(client, owned.site.keys["spy"])
        for route in WRITES:
            form = {"token": token, "agent_id": owned.agent, "version": "1", "to": "1", "tool": "pay", "name": MARK}
            answer = await client.request(
                route.method, owned.path_of(route), data=form, headers={"x-capset-token": token}
            )
            assert answer.status_code < 500, (route, answer.text)
    assert await state_of(owned) == before


@pytest.mark.spec("N1", "N3", "T46")
@pytest.mark.parametrize("route", [*READS, *WRITES], ids=lambda route: f"{route.method} {route.path}")
async def test_strangers_get_nothing(owned: Owned, route: PageRoute) -> None:
    before = await state_of(owned)
    path = owned.path_of(route)
    async with owned.site.client(None) as client:
        answer = await client.request(route.method, path)
        assert answer.status_code == (303 if route.method == "GET" else 401)
        assert MARK not in answer.text
        forged = await client.request(route.method, path, headers={"cookie": "capset_console=" + "0" * 64 + ".9.0"})
        assert forged.status_code == answer.status_code
    if route.method != "GET":
        assert await state_of(owned) == before
