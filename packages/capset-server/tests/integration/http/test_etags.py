"""What a client has already need not be sent again: ``If-None-Match`` (spec 5, P15; RFC 9110 §13.1.2)."""

from __future__ import annotations

import httpx2
import pytest

from tests.helpers.server.support import make_agent, problem


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


@pytest.mark.spec("P7", "P15")
async def test_what_may_differ_under_its_version_is_always_sent(asker: httpx2.AsyncClient) -> None:
    """An agent of code has version 1 in every release; notices come with what is installed."""
    assert (await asker.get("/v1/agents/foreman", headers={"If-None-Match": '"1"'})).status_code == 200
    noticed = await make_agent(asker, "old")
    assert noticed["notices"]
    path = f"/v1/agents/{noticed['id']}"
    assert (await asker.get(path, headers={"If-None-Match": '"1"'})).status_code == 200


@pytest.mark.spec("P14", "P15")
async def test_what_is_not_there_is_unknown_whatever_is_known_of_it(asker: httpx2.AsyncClient) -> None:
    problem(await asker.get("/v1/agents/nowhere", headers={"If-None-Match": "*"}), 404, "not_found")
