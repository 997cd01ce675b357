"""A walk over every page and form: by strangers, and by another organisation's administrator (spec 9, N3)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import pytest

from capset.stores.base import AuditQuery
from capset_server.console.app import PAGES
from capset_server.console.page import PageRoute
from tests.server.approving import till
from tests.server.support import Site, call, site

MARK: Final = "zanzibar"
"""Stands in all that the one organisation has, and in nothing else."""
_PARAMETER: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
READS: Final = [route for module in PAGES for route in module.ROUTES if route.method == "GET"]
WRITES: Final = [route for module in PAGES for route in module.ROUTES if route.method != "GET"]


@dataclass
class Owned:
    """What one organisation has: the values of the parameters in paths, by the noun at the beginning of the path."""

    site: Site
    agent: str
    session: str
    approval: str
    record: str
    hash: str
    key: str

    def path_of(self, route: PageRoute) -> str:
        """Return the path of a route to what the organisation has."""
        noun = route.path.split("/")[1]
        first = {
            "agents": self.agent,
            "approvals": self.approval,
            "audit": self.record,
            "capabilities": "session_file_system",
            "fingerprints": self.hash,
            "keys": self.key,
            "sessions": self.session,
        }
        named = {"approval": self.approval, "agent": self.agent, "path": f"{MARK}.txt", "hash": self.hash}
        named |= {"seq": "1", "turn": MARK, "name": MARK, "ending": "yaml", "key": self.key, "before": self.hash}
        return _PARAMETER.sub(lambda found: named.get(found[1], first.get(noun, MARK)), route.path)


@pytest.fixture(scope="module")
async def owned() -> AsyncGenerator[Owned]:
    """Give a server where ``acme`` has one of everything, and ``other`` has nothing but an administrator."""
    async with site(till) as found:
        await found.key("caller", principal=MARK, scopes=["capset:call", "capset:write"])
        await found.key("spy", org="other", scopes=["capset:admin"])
        async with found.client("caller") as client:
            entry = {"name": f"agent_{MARK}", "system_prompt": MARK, "capabilities": ["till", "session_file_system"]}
            agent = (await client.post("/v1/agents", json=entry)).json()["id"]
            session = (await client.post("/v1/sessions", json={"agent_id": agent})).json()["id"]
            path = f"/v1/sessions/{session}/files/{MARK}.txt"
            assert (await client.put(path, content=MARK.encode())).is_success
            approval = (await call(client, session, "pay", to=MARK)).json()["approval"]
            await call(client, session, "list_directory")
        record = (await found.kernel.audit.query(AuditQuery(org="acme", limit=1))).items[0]
        (key,) = [one for one in await found.kernel.store.keys.list() if one.name == "caller"]
        yield Owned(found, agent, session, approval, record.id, record.runtime_hash or "", key.id)


async def state_of(owned: Owned) -> Mapping[str, Any]:
    """Return what the organisation has, to be compared later."""
    store, kernel = owned.site.kernel.store, owned.site.kernel
    return {
        "agent": await store.agents.get("acme", owned.agent),
        "session": await store.sessions.get(owned.session),
        "approval": await kernel.approvals.get(owned.approval, org="acme"),
        "keys": [one for one in await store.keys.list() if one.org == "acme"],
        "files": await kernel.find_session(owned.session),
        "records": len((await kernel.audit.query(AuditQuery(org="acme", limit=1_000))).items),
    }


async def signed_in(client: httpx2.AsyncClient, key: str) -> str:
    """Sign in, and return the token of the forms of the pages."""
    page = await client.post("/login", data={"key": key}, follow_redirects=True)
    found = re.search(r'data-token="([0-9a-f]{64})"', page.text)
    assert found is not None, page.text
    return found[1]


@pytest.mark.spec("N3", "T46")
@pytest.mark.parametrize("route", READS, ids=lambda route: route.path)
async def test_another_organisation_reads_nothing(owned: Owned, route: PageRoute) -> None:
    path = owned.path_of(route)
    async with owned.site.client(None) as client:
        await signed_in(client, owned.site.keys["spy"])
        answer = await client.get(path)
        assert answer.status_code in (200, 303, 400, 403, 404, 409, 422), answer.text
        asked = answer.text.replace(path, "").replace(path.replace("/", "%2F"), "")
        assert MARK not in asked.replace(f"'{MARK}'", "").replace(f"&#39;{MARK}&#39;", "")


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
