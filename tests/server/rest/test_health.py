"""``/v1/healthz`` and ``/v1/readyz``."""

from __future__ import annotations

import pytest

from tests.server.support import Site, problem, site


@pytest.mark.spec("P13")
@pytest.mark.parametrize("path", ["/v1/healthz", "/v1/readyz"])
async def test_it_is_well_and_needs_no_key(shared: Site, path: str) -> None:
    async with shared.client(None) as client:
        response = await client.get(path)
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


@pytest.mark.spec("P13")
async def test_it_is_alive_but_not_ready_without_its_store() -> None:
    async with site() as here, here.client() as client:
        await here.kernel.store.close()
        try:
            assert (await client.get("/v1/healthz")).status_code == 200
            said = problem(await client.get("/v1/readyz"), 503, "store_unavailable")
            assert said["retryable"] is True
        finally:
            await here.kernel.store.open()
