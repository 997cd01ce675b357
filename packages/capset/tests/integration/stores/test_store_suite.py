"""The suite that every store passes, on each of ours."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from capset.stores.base import make_store
from capset.stores.sql import open_postgres
from capset_testing import store_suite
from capset_testing.store_suite import Check, Make
from tests.databases import Server


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Make]:
    """Give a function that makes a new store of each kind over storage of its own."""
    numbers = count()
    match request.param:
        case "memory":
            yield lambda: make_store("memory://")
        case "sqlite":
            yield lambda: make_store(f"sqlite:///{tmp_path}/{next(numbers)}.db")
        case _:
            server: Server = request.getfixturevalue("postgres")
            with ExitStack() as databases:
                yield lambda: open_postgres(databases.enter_context(server.database()))


@pytest.mark.spec("F28", "F29", "G19", "G20", "G21", "G23", "G39", "G40", "G41", "P10", "P22", "P23", "P25", "P30")
@pytest.mark.parametrize("check", store_suite, ids=lambda check: check.__name__)
async def test_every_store_keeps_every_promise(check: Check, make: Make) -> None:
    await check(make)
