"""Checks of state and resources, by scope (spec 1, C33–C35)."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from capset.errors import StateError
from capset.stores.base import ScopeKey, StateRow, Store, StoredScope
from capset_testing.store_suite.support import (
    LATER,
    NOW,
    Make,
    expect,
    expect_error,
    isolated_keys,
    open_store,
    with_sessions,
)

_KEY: Final = ScopeKey("user", "acme", "ada", "notes")
_OF_SESSION: Final = ScopeKey("session", "acme", "session-1", "notes")
_NOTHING: Final = StateRow(None, 0)


async def _set(store: Store, key: ScopeKey, value: str | None, *, now: str = NOW) -> StateRow:
    return await store.states.change(key, lambda _row: value, now=now)


async def _add_one(store: Store, key: ScopeKey) -> StateRow:
    return await store.states.change(key, lambda row: str(int(row.value or 0) + 1), now=NOW)


async def a_value_comes_back_as_it_was_written(make: Make) -> None:
    """Check texts of any kind and length, in every scope."""
    long = json.dumps(["Grüße, 世界 🌍 \U0010ffff \ufeff'\"%_\\ \\u0000"] * 50_000, ensure_ascii=False)
    async with with_sessions(make, "session-1") as store:
        scopes: tuple[tuple[StoredScope, str | None, str], ...] = (
            ("session", None, "session-1"),
            ("user", "acme", "ä 🌍"),
            ("org", "acme", "acme"),
        )
        for scope, org, owner in scopes:
            key = ScopeKey(scope, org, owner, "state/Grüße")
            expect(await store.states.read([key]), [_NOTHING], f"the value at a new key of a {scope}")
            for version, value in enumerate(("null", "0", '""', long), 1):
                expect(await _set(store, key, value), StateRow(value, version), f"a write to a {scope}")
                expect(await store.states.read([key]), [StateRow(value, version)], f"a value of a {scope}")


async def a_change_sees_what_is_there(make: Make) -> None:
    """Check that a change sees value and version, so that a caller can refuse an unexpected version."""
    async with open_store(make) as store:
        rows: list[StateRow] = []

        def swap(row: StateRow) -> str:
            rows.append(row)
            if row.version != 1:
                raise LookupError(row.version)
            return '"two"'

        error = await expect_error(LookupError, store.states.change(_KEY, swap, now=NOW), "a swap before its version")
        expect(error.args, (0,), "the error that the caller gets")
        await _set(store, _KEY, '"one"')
        expect(await store.states.change(_KEY, swap, now=LATER), StateRow('"two"', 2), "the swap of its version")
        await expect_error(LookupError, store.states.change(_KEY, swap, now=LATER), "the same swap again")
        expect(rows[0], _NOTHING, "the row that was seen first")
        expect(rows[-1], StateRow('"two"', 2), "the row that was seen last")
        expect(await store.states.read([_KEY]), [StateRow('"two"', 2)], "the value after all that")


async def a_change_that_raises_leaves_all_as_it_was(make: Make) -> None:
    """Other changes are not affected."""
    async with open_store(make) as store:
        await _set(store, _KEY, "1")

        def fail(_row: StateRow) -> str:
            raise ZeroDivisionError("this change is broken")

        changes = [_add_one(store, _KEY), store.states.change(_KEY, fail, now=NOW), _add_one(store, _KEY)]
        results = await asyncio.gather(*changes, return_exceptions=True)
        expect([isinstance(result, ZeroDivisionError) for result in results], [False, True, False], "which failed")
        expect(await store.states.read([_KEY]), [StateRow("3", 3)], "the value")


async def a_deleted_value_leaves_its_version(make: Make) -> None:
    """Check that no two values have the same version; deleting a missing value changes nothing."""
    async with open_store(make) as store:
        expect(await _set(store, _KEY, None), _NOTHING, "deleting a missing value")
        await _set(store, _KEY, "1")
        expect(await _set(store, _KEY, None), StateRow(None, 2), "deleting a value")
        expect(await store.states.read([_KEY]), [StateRow(None, 2)], "the value then")
        expect(await _set(store, _KEY, None), StateRow(None, 2), "deleting it again")
        expect(await _set(store, _KEY, "1"), StateRow("1", 3), "the next value")


async def values_are_read_in_the_order_of_the_keys(make: Make) -> None:
    """Check many keys, with repeated ones and ones without a value."""
    async with open_store(make) as store:
        keys = [ScopeKey("user", "acme", f"user-{number % 7}", f"name-{number}") for number in range(1200)]
        await asyncio.gather(*[_set(store, key, str(number)) for number, key in enumerate(keys) if number % 2])
        requested = [*reversed(keys), keys[1], keys[1]]
        expected = [StateRow(str(number), 1) if number % 2 else _NOTHING for number in reversed(range(1200))]
        expect(await store.states.read(requested), [*expected, StateRow("1", 1), StateRow("1", 1)], "the values")
        expect(await store.states.read([]), [], "the values of no keys")


async def concurrent_changes_lose_nothing(make: Make) -> None:
    """Check that of many tasks on one key, each sees the value written by the previous one."""
    async with with_sessions(make, "session-1") as store:
        for key in (_KEY, _OF_SESSION):
            rows = await asyncio.gather(*[_add_one(store, key) for _ in range(200)])
            expect(await store.states.read([key]), [StateRow("200", 200)], f"the count in {key}")
            expect(sorted(row.version for row in rows), list(range(1, 201)), "the versions that the tasks got")


async def every_part_of_a_key_tells_values_apart(make: Make) -> None:
    """Check keys that differ in one part, such as the same user id in two orgs."""
    async with with_sessions(make, "ada") as store:
        keys = isolated_keys("ada")
        for number, key in enumerate(keys):
            expect(await _set(store, key, str(number)), StateRow(str(number), 1), f"the first value of {key}")
        expect(
            [row.value for row in await store.states.read(keys)],
            [str(number) for number in range(len(keys))],
            "the values",
        )
        await _set(store, keys[0], None)
        rows = await store.states.read(keys)
        expect([row.value is None for row in rows], [True] + [False] * (len(keys) - 1), "which are deleted")


async def a_session_takes_its_values_with_it(make: Make) -> None:
    """Values of other owners stay; a missing session accepts no value."""
    async with with_sessions(make, "session-1", "session-2") as store:
        others = [ScopeKey("session", "acme", "session-2", "notes"), ScopeKey("user", "acme", "session-1", "notes")]
        for key in (_OF_SESSION, *others):
            await _set(store, key, "1")
        await store.sessions.delete("session-1")
        expect(await store.states.read([_OF_SESSION]), [_NOTHING], "the value of a deleted session")
        expect(await store.states.read(others), [StateRow("1", 1)] * 2, "the values of others")
        for owner in ("session-1", "session-3"):
            key = ScopeKey("session", "acme", owner, "notes")
            error = await expect_error(StateError, _set(store, key, "2"), f"a value for {owner}")
            expect(error.status, 404, "its status")
            expect(await store.states.read([key]), [_NOTHING], f"the value of {owner}")


async def what_no_database_keeps_is_refused(make: Make) -> None:
    """Check that a lone surrogate, which has no UTF-8, and a NUL, which PostgreSQL cannot hold, are refused."""
    async with open_store(make) as store:
        await _set(store, _KEY, "1")
        for text in ('"\ud800"', '"\0"'):
            error = await expect_error(StateError, _set(store, _KEY, text), f"writing {text!r}")
            expect(error.status, 400, "its status")
        expect(await store.states.read([_KEY]), [StateRow("1", 1)], "the value")
