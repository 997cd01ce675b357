"""People and deliveries in the console (spec 9, N18)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx2
import pytest

from tests.helpers.server.console.keys import ADMIN, EVIL, HIDDEN, sign_in
from tests.helpers.server.console.visitors import token_of
from tests.helpers.server.support import Site, site

pytestmark = pytest.mark.spec("N18")
BEA = {"person/team": "T1", "person/user": "U1", "person/principal": "bea", "person/kind": '"user"'}


@pytest.fixture
async def here() -> AsyncGenerator[Site]:
    """Give a server with an administrator of each of two organisations."""
    async with site() as server:
        await server.key("boss", scopes=ADMIN)
        await server.key("spy", org="other", scopes=ADMIN)
        yield server


@pytest.fixture
async def client(here: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give a client that keeps cookies, in which the boss has signed in."""
    async with here.client(None, follow_redirects=True) as client:
        await client.post("/login", data={"key": here.keys["boss"]})
        yield client


async def people(server: Site, user: str = "boss") -> list[Mapping[str, Any]]:
    async with server.client(user) as client:
        return (await client.get("/v1/people")).json()["items"]


async def test_people_are_entered_and_removed(here: Site, client: httpx2.AsyncClient) -> None:
    token = token_of(await client.get("/people"))
    more = {"person/permissions": "session_files:read", "person/attributes": '{"tier": "gold"}'}
    added = await client.post("/people", data={"token": token, **BEA, **more, "person/principal": EVIL})
    assert (added.status_code, "U1 of T1 decides as" in added.text) == (200, True)
    assert ("<img" in added.text, "session_files:read" in added.text, "gold" in added.text) == (False, True, True)
    (row,) = await people(here)
    assert (row["principal"], row["permissions"], row["attributes"]) == (EVIL, ["session_files:read"], {"tier": "gold"})
    async with here.client(None) as spy:
        await sign_in(spy, here.keys["spy"])
        page = await spy.get("/people")
        assert "U1" not in page.text
        refused = await spy.post(f"/people/{row['id']}/remove", data={"token": token_of(page)})
        assert refused.status_code == 404
    removed = await client.post(f"/people/{row['id']}/remove", data={"token": token})
    assert "can no longer decide" in removed.text
    assert await people(here) == []


@pytest.mark.parametrize(
    ("more", "status", "field"),
    [
        ({"person/team": "the team"}, 422, "team"),
        ({"person/user": ""}, 422, "user"),
        ({"person/principal": ""}, 422, "principal"),
        ({"person/permissions": "vault:open"}, 403, "permissions"),
        ({"person/attributes": HIDDEN}, 422, "attributes"),
        ({"person/kind": '"host"'}, 422, "kind"),
    ],
    ids=str,
)
async def test_a_person_that_cannot_be_is_not_entered(
    here: Site, client: httpx2.AsyncClient, more: Mapping[str, str], status: int, field: str
) -> None:
    token = token_of(await client.get("/people"))
    refused = await client.post("/people", data={"token": token, **BEA, **more})
    assert (refused.status_code, "Not added." in refused.text) == (status, True)
    assert f'id="field-person/{field}-error"' in refused.text
    assert await people(here) == []


async def test_a_user_is_one_person(here: Site, client: httpx2.AsyncClient) -> None:
    token = token_of(await client.get("/people"))
    for status in (200, 409):
        answered = await client.post("/people", data={"token": token, **BEA})
        assert answered.status_code == status
    assert len(await people(here)) == 1
