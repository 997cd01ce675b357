"""The memory of large bodies once their requests are answered (spec 5, P46)."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from capset.kernel import revocation
from tests.helpers.server.support import call, make_session, site
from tests.waiting import until


@pytest.mark.spec("P46")
@pytest.mark.parametrize("look_seconds", [revocation.CHECK_SECONDS, 0.01])
async def test_the_body_of_a_large_call_is_freed_with_its_call(
    look_seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when the collector of cycles comes, nor with the next request of its connection, nor with the next record.

    It is the same for calls that last for so long that what is withdrawn is looked for while they run.
    """
    monkeypatch.setattr(revocation, "CHECK_SECONDS", look_seconds)
    async with site(store=f"sqlite:///{tmp_path / 'a.db'}") as server, server.client("ada") as ada:
        session = await make_session(ada, "session_file_system")
        file = {"path": "/large.txt", "content": "words " * 300_000}
        assert (await call(ada, session, "write_file", **file)).status_code == 200
        gc.disable()
        tracemalloc.start()
        try:
            for _ in range(5):
                assert (await call(ada, session, "write_file", **file)).status_code == 200
            await server.kernel.store.audit.flush()
            await until(lambda: tracemalloc.get_traced_memory()[0] < 1_500_000, "the bodies to be freed")
        finally:
            tracemalloc.stop()
            gc.enable()
