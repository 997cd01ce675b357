"""Each test here runs on both event loops."""

from __future__ import annotations

import pytest


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(("asyncio", {}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop", marks=pytest.mark.nightly),
    ],
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param
