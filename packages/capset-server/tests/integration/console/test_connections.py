"""Connections in the console: keys, providers, delegations, and administration (spec 11, V20, V30)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
import pytest

from tests.helpers.connect.vault.accounts import accounts, consent
from tests.helpers.connect.vault.calendars import provider_of, secretary, vault_of
from tests.helpers.server.console.app import sign_in, token_of
from tests.helpers.server.support import Site, call, site

pytestmark = pytest.mark.spec("V30")
KEY = "the-key-of-ada"


@asynccontextmanager
async def browsing(server: Site, user: str) -> AsyncGenerator[httpx2.AsyncClient]:
    async with server.client(None, follow_redirects=True) as client:
        await sign_in(client, server.keys[user])
        yield client


@pytest.fixture
async def here() -> AsyncGenerator[Site]:
    async with site(agents=[secretary], vault=vault_of()) as server:
        await server.key("boss", scopes=["capset:admin"])
        yield server


@pytest.mark.spec("V20")
async def test_a_request_leads_to_the_connection_and_ends_with_it(here: Site) -> None:
    async with here.client() as ada, browsing(here, "ada") as browser:
        session = (await ada.post("/v1/sessions", json={"agent_id": "secretary"})).json()["id"]
        refused = (await call(ada, session, "meetings", day="Monday")).json()
        approval = refused["approval"]
        page = await browser.get(f"/approvals/{approval}")
        assert 'href="/connections/calendar"' in page.text
        assert "Approve once" not in page.text
        page = await browser.get("/connections/calendar")
        assert ("not connected" in page.text, KEY in page.text) == (True, False)
        token = token_of(page)
        bad = await browser.post("/connections/calendar/key", data={"token": token, "key": "with space"})
        assert (bad.status_code, "field-error" in bad.text) == (422, True)
        done = await browser.post("/connections/calendar/key", data={"token": token, "key": KEY})
        assert ("calendar is connected" in done.text, KEY in done.text) == (True, False)
        ended = await browser.get(f"/approvals/{approval}")
        assert "connected calendar" in ended.text
        assert (await call(ada, session, "meetings", day="Monday")).json()["data"] == f"Monday: {len(KEY)}"
        (record,) = await here.records(tool="meetings", outcome="succeeded")
        shown = await browser.get(f"/audit/{record.id}")
        assert record.credential is not None
        assert record.credential in shown.text


async def test_delegations_are_made_and_ended_on_the_page_of_a_connection(here: Site) -> None:
    async with browsing(here, "ada") as browser:
        token = token_of(await browser.get("/connections/calendar"))
        form = {"token": token, "delegate": "agent:helper", "tools": "meetings, other", "days": "7"}
        page = await browser.post("/connections/calendar/delegations", data=form)
        assert ("agent:helper may use calendar" in page.text, "meetings" in page.text) == (True, True)
        bad = await browser.post("/connections/calendar/delegations", data={**form, "delegate": "helper"})
        assert (bad.status_code, "field-error" in bad.text) == (422, True)
        row = page.text.partition("/connections/delegations/")[2].partition("/end")[0]
        ended = await browser.post(f"/connections/delegations/{row}/end", data={"token": token})
        assert "The delegation is ended." in ended.text


async def test_administrators_revoke_what_others_have_connected(here: Site) -> None:
    async with browsing(here, "ada") as ada, browsing(here, "boss") as boss:
        token = token_of(await ada.get("/connections/calendar"))
        await ada.post("/connections/calendar/key", data={"token": token, "key": KEY})
        assert "Credentials of your organisation" not in (await ada.get("/connections")).text
        page = await boss.get("/connections")
        assert ("user:ada" in page.text, KEY in page.text) == (True, False)
        row = page.text.partition("/connections/credentials/")[2].partition("/revoke")[0]
        done = await boss.post(f"/connections/credentials/{row}/revoke", data={"token": token_of(page)})
        assert "The credential is deleted" in done.text
        assert "connected" not in (await ada.get("/connections")).text.partition("not connected")[0].partition("<h2")[2]


@pytest.mark.spec("V10")
async def test_a_provider_leads_back_to_the_console() -> None:
    async with accounts() as running:
        vault = vault_of(provider=provider_of(running))
        async with (
            site(agents=[secretary], vault=vault, public_url="http://127.0.0.1:9") as server,
            browsing(server, "ada") as browser,
        ):
            token = token_of(await browser.get("/connections"))
            leaving = await browser.post("/connections/calendar/authorize", data={"token": token})
            start = running.issuer + leaving.text.partition(f'href="{running.issuer}')[2].partition('"')[0]
            back = await consent(start.replace("&amp;", "&"))
            page = await browser.get("/connections/callback", params=back)
            assert "calendar is connected" in page.text
            again = await browser.get("/connections/callback", params=back)
            assert (again.status_code, "has ended or expired" in again.text) == (403, True)
