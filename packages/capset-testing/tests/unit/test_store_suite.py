"""A suite is worth what it finds: stores that break one promise each fail it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from capset.definitions.calls.records import Record
from capset.stores.base import AGENT_FIELDS, AgentRow, AuditQuery, Entry, EnvelopeRow, LinkRow, Page, Store
from capset.stores.memory import MemoryStore
from capset_testing import store_suite
from capset_testing.store_suite.agent_checks import every_field_of_an_agent_is_kept


def broken(**methods: Callable[..., Any]) -> Callable[[], Store]:
    """Return a maker of stores in memory, some methods of whose parts are replaced: ``part_method=function(store)``."""

    def make() -> Store:
        store = MemoryStore()
        for name, wrap in methods.items():
            part, _, method = name.partition("_")
            target = getattr(store, part)
            setattr(target, method, wrap(getattr(target, method)))
        return store

    return make


def forgets(_append: Callable[[Entry], None]) -> Callable[[Entry], None]:
    return lambda entry: None


def never_ends(query: Callable[[AuditQuery], Any]) -> Callable[[AuditQuery], Any]:
    async def wrapped(audit_query: AuditQuery) -> Page[Record, int]:
        page = await query(audit_query)
        return Page(page.items, page.items[-1].seq if page.items else None)

    return wrapped


def in_any_order(listing: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapped(*arguments: Any, **options: Any) -> Any:
        return sorted(await listing(*arguments, **options), key=lambda stat: stat.path)

    return wrapped


def always_recursive(delete: Callable[..., Any]) -> Callable[..., Any]:
    return lambda session, path, *, recursive, **more: delete(session, path, recursive=True, **more)


def never_moves(record: Callable[..., Any]) -> Callable[..., Any]:
    return lambda link, envelope=None, **more: record(replace(link, runtime_hash="0" * 64), envelope, **more)


def without_code(record: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(link: LinkRow, envelope: EnvelopeRow | None = None, **more: Any) -> Any:
        refs = tuple(replace(ref, code=None) for ref in link.tool_refs)
        return record(replace(link, tool_refs=refs), envelope, **more)

    return wrapped


def in_two_steps(record: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapped(link: LinkRow, envelope: EnvelopeRow | None = None, **more: Any) -> Any:
        moved = await record(link, **more)
        if envelope:
            await record.__self__.record_envelope(envelope)  # pyright: ignore[reportFunctionMemberAccess]
        return moved

    return wrapped


def always_anew(register: Callable[..., Any]) -> Callable[..., Any]:
    return lambda row: register(replace(row, static_hash=f"{row.id:0>64}"))


def without(name: str) -> Callable[..., Any]:
    """Return a wrapper that drops a field of the rows that a method is given, as a store without its column does."""
    missing = AgentRow("a", None, "n", "", "", (), (), (), "active", 1, "", "", "")
    return lambda write: lambda row, **more: write(replace(row, **{name: getattr(missing, name)}), **more)


CHECKS = {check.__name__: check for check in store_suite}


@pytest.mark.parametrize(
    ("make", "found_by"),
    [
        (broken(audit_append=forgets), "an_appended_entry_is_there_after_flush"),
        (broken(audit_query=never_ends), "pages_follow_each_other"),
        (broken(files_list=in_any_order), "directories_come_first_in_a_listing"),
        (broken(lineage_record_turn=never_moves), "a_transition_is_kept_when_the_runtime_hash_moves"),
        (broken(lineage_record_turn=without_code), "a_turn_comes_back_as_it_was_given"),
        (broken(lineage_record_turn=in_two_steps), "a_turn_is_kept_whole_or_not_at_all"),
        (broken(lineage_register=always_anew), "a_registration_is_kept_once_for_its_hash"),
        (broken(files_delete=always_recursive), "what_is_there_decides_what_can_be_done"),
    ],
)
async def test_a_store_that_breaks_a_promise_is_found(make: Callable[[], Store], found_by: str) -> None:
    with pytest.raises(AssertionError):
        await CHECKS[found_by](make)


@pytest.mark.parametrize("method", ["agents_create", "agents_replace"])
@pytest.mark.parametrize("name", [field.name for field in AGENT_FIELDS])
def test_a_store_that_drops_a_field_of_agents_is_found(name: str, method: str) -> None:
    with pytest.raises(AssertionError, match=name):
        asyncio.run(every_field_of_an_agent_is_kept(broken(**{method: without(name)})))
