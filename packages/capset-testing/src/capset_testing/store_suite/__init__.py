"""The test suite for stores: each promise of the protocols in ``capset.stores.base`` is one check.

A check takes a function that returns a new, unopened store over empty storage. It raises ``AssertionError`` if the
store breaks the promise. With pytest::

    @pytest.mark.parametrize("check", store_suite, ids=lambda check: check.__name__)
    async def test_my_store(check, tmp_path):
        await check(lambda: MyStore(tmp_path / uuid4().hex))
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from capset_testing.store_suite.support import Check, Make, checks_of

store_suite: Final[tuple[Check, ...]] = tuple(
    check
    for module in iter_modules(__path__)
    if module.name.endswith("_checks")
    for check in checks_of(import_module(f"{__name__}.{module.name}"))
)
"""Every check."""

__all__ = ["Check", "Make", "store_suite"]
