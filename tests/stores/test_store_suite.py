"""The suite that every store passes, on each of ours."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from capset.stores.base import Store, make_store
from capset.testing import store_suite
from capset.testing.store_suite import Check, Make


def in_memory(_folder: Path) -> Make:
    return lambda: make_store("memory://")


def on_sqlite(folder: Path) -> Make:
    numbers = count()
    return lambda: make_store(f"sqlite:///{folder}/{next(numbers)}.db")


@pytest.mark.spec("F28", "F29", "G19", "G20", "G23", "P23", "P30")
@pytest.mark.parametrize("check", store_suite, ids=lambda check: check.__name__)
@pytest.mark.parametrize("stores", [in_memory, on_sqlite])
async def test_every_store_keeps_every_promise(
    check: Check, stores: Callable[[Path], Callable[[], Store]], tmp_path: Path
) -> None:
    await check(stores(tmp_path))
