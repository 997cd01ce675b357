"""``/v1/healthz`` and ``/v1/readyz``."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx2
import pytest

from tests.helpers.server.running import running
from tests.helpers.server.support import Site, problem, site
from tests.waiting import wait_until


@pytest.mark.spec("P13")
@pytest.mark.parametrize("path", ["/v1/healthz", "/v1/readyz"])
async def test_it_is_well_and_needs_no_key(shared: Site, path: str) -> None:
    async with shared.client(None) as client:
        response = await client.get(path)
    assert (response.status_code, response.json()["status"]) == (200, "ok")


@pytest.mark.spec("P13")
async def test_a_path_without_its_prefix_says_where_paths_begin(shared: Site) -> None:
    async with shared.client() as client:
        body = problem(await client.get("/metrics"), 404, "not_found")
    assert "begins with /v1" in body["detail"]


@pytest.mark.spec("P13")
async def test_it_is_not_ready_while_it_drains() -> None:
    async with site() as server, server.client() as client:
        server.service.drain()
        body = problem(await client.get("/v1/readyz"), 503, "draining")
        assert body["retryable"] is True
        assert (await client.get("/v1/healthz")).status_code == 200
        assert (await client.get("/v1/agents")).status_code == 200


@pytest.mark.realtime
@pytest.mark.spec("P13")
def test_a_server_that_is_told_to_end_goes_on_for_a_while_and_says_so(tmp_path: Path) -> None:
    with (
        running(tmp_path, "--insecure", "--drain-delay", "30") as server,
        httpx2.Client(base_url=server.url, trust_env=False) as client,
    ):
        assert client.get("/v1/readyz").status_code == 200
        server.process.send_signal(signal.SIGTERM)

        def refusals() -> list[httpx2.Response]:
            answer = client.get("/v1/readyz")
            return [] if answer.status_code == 200 else [answer]

        (ready,) = wait_until(refusals, "the server to say that it ends")
        assert (ready.status_code, ready.json()["code"]) == (503, "draining")
        with httpx2.Client(base_url=server.url, trust_env=False) as another:  # a new connection is taken too
            assert another.get("/v1/agents").status_code == 200
    # The second signal ended it, long before its time.


@pytest.mark.spec("P13")
async def test_it_is_alive_but_not_ready_without_its_store() -> None:
    async with site() as server, server.client() as client:
        await server.kernel.store.close()
        try:
            assert (await client.get("/v1/healthz")).status_code == 200
            body = problem(await client.get("/v1/readyz"), 503, "store_unavailable")
            assert body["retryable"] is True
        finally:
            await server.kernel.store.open()
