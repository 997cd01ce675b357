"""Checks of opening and closing: no accepted entry is lost, and open intents are closed (spec 4, G19, G23)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import MISSING, Field, fields, is_dataclass
from inspect import isawaitable, isfunction, signature
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from capset.errors import StoreError
from capset.fingerprint.checkpoints import CheckpointKey
from capset.stores.base import AuditQuery, Store
from capset.stores.base.audit import Entry
from capset_testing.store_suite.support import (
    NOW,
    Make,
    create_sessions,
    entry,
    expect,
    expect_error,
    intent,
    open_store,
)

_VALUES: Final[dict[Any, Any]] = {str: "/a", int: 1, bool: False, bytes: b"a"}


async def what_was_taken_outlives_closing(make: Make) -> None:
    """``close`` writes buffered entries; a reopened store continues where it stopped."""
    store = make()
    await store.open()
    store.audit.append(entry("a"))
    await create_sessions(store, "session-1")
    await store.files.write("session-1", "/a.txt", b"kept", org=None, now=NOW)
    await store.close()
    await store.open()
    await store.audit.commit(entry("b"))
    page = await store.audit.query(AuditQuery())
    verified = await store.audit.verify()
    _, content = await store.files.read("session-1", "/a.txt")
    await store.close()
    expect([(record.seq, record.id) for record in page.items], [(2, "b"), (1, "a")], "the records")
    expect(verified.problem, None, "the chain across the reopening")
    expect(len({record.writer for record in page.items}), 2, "the writers: one for each opening")
    expect(content, b"kept", "the file")


async def an_open_intent_is_closed_as_interrupted(make: Make) -> None:
    """Check that an intent left open by its writer gets an outcome at opening; one with an outcome gets no other."""
    store = make()
    await store.open()
    await store.audit.commit(intent("a", correlation="x"))
    await store.audit.commit(intent("b"))
    await store.audit.commit(entry("b"))
    await store.close()
    for _ in range(2):
        await store.open()
        page = await store.audit.query(AuditQuery(id="a"))
        verified = await store.audit.verify()
        await store.close()
        expect([record.outcome for record in page.items], ["interrupted"], "the outcomes of the open intent")
        expect((verified.problem, verified.checked), (None, 4), "the chain")
        record = page.items[0]
        expect((record.code, record.decision, record.correlation), ("interrupted", "allow", "x"), "its columns")
        expect(record.time > NOW, True, "whether it has its own time")


async def a_store_that_is_not_open_refuses(make: Make) -> None:
    """Before ``open`` and after ``close``, everything raises ``StoreError`` and nothing is accepted."""
    store = make()
    for _ in range(2):
        for port, named, declared in _methods():
            attempt = _attempt(getattr(getattr(store, port), named), declared)
            await expect_error(StoreError, attempt, f"{port}.{named}")
        await store.open()
        await expect_error(StoreError, store.open(), "open when it is open")
        await store.close()
        await store.close()


def _methods() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield the methods that the ports of a store declare, each with the name of its port and its own."""
    for port, declared in vars(Store).items():
        if isinstance(declared, property) and declared.fget is not None:
            protocol: type[object] = get_type_hints(declared.fget)["return"]
            for name, method in vars(protocol).items():
                if isfunction(method) and not name.startswith("_"):
                    yield port, name, method


async def _attempt(method: Callable[..., Any], declared: Callable[..., Any]) -> None:
    """Call a method of a port with a value for each required parameter."""
    hints = get_type_hints(declared)
    needed = [parameter for parameter in signature(method).parameters.values() if parameter.default is parameter.empty]
    values = {parameter.name: _value(parameter.name, hints[parameter.name]) for parameter in needed}
    positional = [values.pop(parameter.name) for parameter in needed if parameter.kind is not parameter.KEYWORD_ONLY]
    returned = method(*positional, **values)
    if isawaitable(returned):
        await returned
    elif isinstance(returned, AbstractAsyncContextManager):
        async with returned:
            pass


def _value(name: str, kind: Any) -> Any:  # kind: an annotation; the result: a value of it
    if NoneType in get_args(kind):
        return None
    if bytes in get_args(kind):
        return b""
    if kind is CheckpointKey:
        return CheckpointKey.generate()
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(
            **{field.name: _value(field.name, hints[field.name]) for field in fields(kind) if _is_needed(field)}
        )
    if kind is Entry:
        return entry("a")
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if get_origin(kind) is Callable:
        return str
    if name == "before":
        return NOW
    return _VALUES.get(kind, ())


def _is_needed(field: Field[Any]) -> bool:
    return field.init and field.default is MISSING and field.default_factory is MISSING


async def the_digest_key_is_made_once(make: Make) -> None:
    """Check that the key is the same 32 bytes after closing and opening, and different in another store."""
    store = make()
    await store.open()
    first = await store.audit.digest_key()
    await store.close()
    await store.open()
    reread = await store.audit.digest_key()
    await store.close()
    async with open_store(make) as other:
        another = await other.audit.digest_key()
    expect(len(first), 32, "the key's length")
    expect(reread, first, "the key after opening again")
    expect(another != first, True, "whether another store has its own key")
