"""Shared parts of the checks: entries, temporarily open stores, and assertions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from inspect import iscoroutinefunction
from types import ModuleType
from typing import TypeVar

from capset.definitions.calls.records import NULLABLE, Columns
from capset.definitions.governance.approvals import ApprovalRow
from capset.stores.base import ScopeKey, SessionRow, Store

Make = Callable[[], Store]
"""Returns a new, unopened store over empty storage."""
Check = Callable[[Make], Awaitable[None]]
"""One promise. Raises ``AssertionError`` if the store breaks it."""

EARLIER = "2025-12-31T23:59:59.999999Z"
NOW = "2026-01-01T00:00:00.000000Z"
SOON = "2026-01-01T00:01:00.000000Z"
LATER = "2026-01-02T03:04:05.000006Z"

_Error = TypeVar("_Error", bound=Exception)


def checks_of(module: ModuleType) -> tuple[Check, ...]:
    """Return the checks of a module: its own public coroutine functions, in order of definition."""
    return tuple(
        value
        for name, value in vars(module).items()
        if iscoroutinefunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    )


@dataclass(frozen=True, slots=True)
class SampleEntry:
    """An entry with these columns."""

    values: Columns

    def columns(self) -> Columns:
        """Return every column except the writer's."""
        return self.values


class BrokenEntry:
    """An entry that cannot become a record."""

    def columns(self) -> Columns:
        """Raise an error, which a store must survive."""
        raise ValueError("this entry is broken")


def entry(id: str, **changes: str | int | None) -> SampleEntry:
    """Return an entry with every column filled. ``changes`` override the defaults."""
    values: dict[str, str | int | None] = {
        **dict.fromkeys(NULLABLE),
        "id": id,
        "phase": "outcome",
        "time": NOW,
        "correlation": "correlation-1",
        "principal": "user-1",
        "principal_kind": "user",
        "session": "session-1",
        "agent": "scribe",
        "capability": "notes",
        "tool": "save_note",
        "effect": "write",
        "arguments": '{"text":"Grüße, 世界 🌍"}',
        "arguments_digest": "0" * 64,
        "decision": "allow",
        "policies": "[]",
        "outcome": "succeeded",
        "duration_us": 12,
        "tool_hash": "1" * 64,
        "static_hash": "2" * 64,
        "runtime_hash": "3" * 64,
        "prompt_hash": "4" * 64,
        "profile": "jcs-1",
        "on_behalf_of": "user:ada",
        "attempts": 1,
        "attributes_digest": "5" * 64,
        "code_hash": "6" * 64,
        "act": "key.create",
        "source": "cli ada",
        "credential": "c-1@1 user:ada",
    }
    return SampleEntry(values | changes)


def intent(id: str, **changes: str | int | None) -> SampleEntry:
    """Return the intent of a side-effecting call."""
    return entry(id, **{"phase": "intent", "outcome": None, "duration_us": None, **changes})


@asynccontextmanager
async def open_store(make: Make) -> AsyncGenerator[Store]:
    """Open a new store, and close it again."""
    store = make()
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def with_sessions(make: Make, *ids: str) -> AsyncGenerator[Store]:
    """Open a new store with sessions in it, and close it again."""
    async with open_store(make) as store:
        await create_sessions(store, *ids)
        yield store


async def create_sessions(store: Store, *ids: str) -> None:
    """Create sessions."""
    for session_id in ids:
        await store.sessions.create(session_row(session_id))


def session_row(id: str, org: str | None = None) -> SessionRow:
    """Return a session's row."""
    return SessionRow(id, "scribe", '{"name":"scribe"}', "1" * 64, "user-1", "user", org, NOW)


def isolated_keys(owner: str) -> list[ScopeKey]:
    """Return keys that differ in one part each, or have the same joined text; ``owner`` must be a session's id."""
    key = ScopeKey("user", "acme", owner, "notes")
    return [
        key,
        replace(key, scope="session"),
        replace(key, scope="org"),
        replace(key, org="other"),
        replace(key, org=None),
        replace(key, owner=owner.upper()),
        replace(key, owner=f"{owner} "),
        replace(key, name="Notes"),
        replace(key, name="note"),
        replace(key, owner=f"{owner}n", name="otes"),
        replace(key, org="acm", owner=f"e{owner}"),
    ]


def expect(actual: object, expected: object, label: str) -> None:
    """Raise ``AssertionError`` unless the two are equal."""
    if actual != expected:
        raise AssertionError(f"{label}: expected {expected!r}, got {actual!r}")


async def expect_error(error: type[_Error], awaitable: Awaitable[object], label: str) -> _Error:
    """Raise ``AssertionError`` unless awaiting raises ``error``; return the error."""
    try:
        value = await awaitable
    except error as raised:
        return raised
    except Exception as other:
        raise AssertionError(f"{label}: expected {error.__name__}, got {other!r}") from other
    raise AssertionError(f"{label}: expected {error.__name__}, got {value!r}")


def approval_row(id: str, digest: str = "4" * 64) -> ApprovalRow:
    """Return a pending approval request of user-1 for a call."""
    return ApprovalRow(
        id=id,
        call=f"call of {id}",
        org="acme",
        session="session-1",
        agent="scribe",
        principal="user:user-1",
        on_behalf_of=None,
        tool="save_note",
        tool_hash="1" * 64,
        runtime_hash="3" * 64,
        arguments='{"text":"Grüße"}',
        digest=digest,
        reason="every call has to be approved",
        policies="[]",
        created_at=NOW,
        expires_at=LATER,
        code_hash="6" * 64,
    )
