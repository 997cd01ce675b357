"""A kernel with a key signs how far its records have come, and cuts what is too old (spec 4, G21, G23)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capset import Agent, Capability, DefinitionError, Kernel, Principal
from capset.errors import StoreError
from capset.ext import CheckpointKey, Checkpoints
from capset_testing import FakeClock
from tests.helpers.evaluation.things import make
from tests.helpers.stores.sql.support import opened, raw
from tests.waiting import until

DAY = 86_400
ADA = Principal("ada")
KEY = CheckpointKey.generate()


act = make("act", effect="write")
AGENT = Agent("agent", uses=[Capability("kit", tools=[act])])


async def made(kernel: Kernel, count: int) -> bool:
    return len(await kernel.audit.checkpoints()) >= count


async def begins(kernel: Kernel, seq: int) -> bool:
    return ((await kernel.audit.span()) or (0, 0))[0] == seq


@pytest.mark.spec("G21")
async def test_closing_makes_a_checkpoint_over_all_records(tmp_path: Path) -> None:
    async with Kernel(f"sqlite:///{tmp_path}/a.db", checkpoints=Checkpoints(KEY)) as kernel:
        async with kernel.open(AGENT, principal=ADA) as session:
            await session.call(act)
        assert list(await kernel.audit.checkpoints()) == []
    async with opened(tmp_path / "a.db") as store:
        verification = await store.audit.verify([KEY.public])
        assert (verification.ok, verification.checked, verification.covered) == (True, 2, 2)
        with raw(tmp_path / "a.db") as file:
            file.execute("DELETE FROM records WHERE seq = 2")
        assert "record 2 is missing at the end" in str((await store.audit.verify([KEY.public])).problem)


@pytest.mark.spec("G21", "G23")
async def test_it_makes_them_as_often_as_is_said_and_keeps_records_as_long() -> None:
    clock = FakeClock()
    checkpoints = Checkpoints(KEY, every="1s", keep="90d")
    async with Kernel("memory://", clock=clock, checkpoints=checkpoints) as kernel:
        async with kernel.open(AGENT, principal=ADA) as session:
            await session.call(act)
            await until(lambda: made(kernel, 1))
            clock.advance(89 * DAY)
            await session.call(act)
            await until(lambda: made(kernel, 2))
            assert await kernel.audit.span() == (1, 4)
            clock.advance(2 * DAY)
            await until(lambda: begins(kernel, 3))
        verification = await kernel.audit.verify([KEY.public])
        assert (verification.ok, verification.since, verification.covered) == (True, 3, 4)


@pytest.mark.spec("G21")
async def test_nothing_is_signed_over_a_log_that_was_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kernel = Kernel(f"sqlite:///{tmp_path}/a.db", checkpoints=Checkpoints(KEY, every="1s"))
    await kernel.__aenter__()
    async with kernel.open(AGENT, principal=ADA) as session:
        await session.call(act)
        await until(lambda: made(kernel, 1))
        with raw(tmp_path / "a.db") as file:
            file.execute("DELETE FROM records WHERE seq = 2")
        await session.call(act)
    await until(lambda: "no checkpoint was made: record 2 is not the one of checkpoint 1" in caplog.text)
    assert len(await kernel.audit.checkpoints()) == 1
    with pytest.raises(StoreError, match="no checkpoint was made"):
        await kernel.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("key", "options", "problem"),
    [
        *[(KEY, {"every": every}, "a window is a whole number") for every in ("5", "0m")],
        *[(KEY, {"keep": keep}, "a window is a whole number") for keep in ("three months", 90)],
        ("a key", {}, "signed by a CheckpointKey"),
    ],
)
def test_what_is_no_key_and_no_window_is_refused(key: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        Checkpoints(key, **options)
