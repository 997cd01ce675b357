"""What a client has already need not be sent again: ``If-None-Match`` (spec 5, P15; RFC 9110 §13.1.2)."""

from __future__ import annotations

import httpx2
import pytest

from tests.helpers.server.support import make_agent


@pytest.mark.spec("P7", "P15")
@pytest.mark.parametrize("etag", ['"1"', 'W/"1"', '"7", "1"', "*", '"abc",W/"1"'])
async def test_an_agent_that_is_known_is_not_sent_again(asker: httpx2.AsyncClient, etag: str) -> None:
    path = f"/v1/agents/{(await make_agent(asker))['id']}"
    for method in ("GET", "HEAD"):
        response = await asker.request(method, path, headers={"If-None-Match": etag})
        assert (response.status_code, response.headers["etag"], response.content) == (304, '"1"', b""), method
    await asker.patch(path, json={"description": "another"})
    changed = await asker.get(path, headers={"If-None-Match": etag})
    assert changed.status_code == (304 if etag == "*" else 200)
    assert changed.headers["etag"] == '"2"'


@pytest.mark.spec("P7", "P15")
@pytest.mark.parametrize("other", ['"2"', '"11"', "1", "", 'x"1"', '"1', "*, *"])
async def test_one_that_is_not_known_is_sent(asker: httpx2.AsyncClient, other: str) -> None:
    path = f"/v1/agents/{(await make_agent(asker))['id']}"
    response = await asker.get(path, headers={"If-None-Match": other})
    assert (response.status_code, response.json()["version"]) == (200, 1)


@pytest.mark.spec("P7", "P14", "P15")
async def test_what_may_differ_under_its_version_or_is_not_there_is_never_unchanged(asker: httpx2.AsyncClient) -> None:
    """An agent of code has version 1 in every release; notices come with what is installed."""
    noticed = await make_agent(asker, "old")
    assert noticed["notices"]
    for agent, etag, status in (("foreman", '"1"', 200), (noticed["id"], '"1"', 200), ("nowhere", "*", 404)):
        assert (await asker.get(f"/v1/agents/{agent}", headers={"If-None-Match": etag})).status_code == status
