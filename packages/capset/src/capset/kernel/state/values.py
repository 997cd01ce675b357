"""Values with a scope (spec 1, C34): their storage, their locks, and the handles that read and change them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from inspect import isawaitable
from typing import Any, Final, Protocol, cast
from weakref import WeakValueDictionary

from typing_extensions import TypeVar

from capset.clock import iso
from capset.errors import ConcurrentModificationError, StateError, counted
from capset.kernel.runtime import KernelRuntime
from capset.kernel.state.codecs import Codec, EncodedValue, Patch, add, append, merge_into
from capset.stores.base import Change, ScopeKey, StateRow

T = TypeVar("T")
ABSENT = StateRow(None, 0)


class Cell(Protocol):
    """One value, its version, and the lock for read-modify-write changes within this process."""

    @property
    def lock(self) -> asyncio.Lock:
        """Held from a read to the write that follows from it, so that tasks of one process do not contend."""
        ...

    async def read(self) -> StateRow:
        """Return the current row."""
        ...

    async def change(self, change: Change) -> StateRow:
        """Replace the current row atomically."""
        ...


class StoredCell:
    """A value in the store."""

    __slots__ = ("_key", "_runtime")

    def __init__(self, runtime: KernelRuntime, key: ScopeKey) -> None:
        self._runtime = runtime
        self._key = key

    @property
    def lock(self) -> asyncio.Lock:
        return self._runtime.lock_of(self._key)

    async def read(self) -> StateRow:
        (row,) = await self._runtime.store.states.read([self._key])
        return row

    async def change(self, change: Change) -> StateRow:
        runtime = self._runtime
        return await runtime.store.states.change(self._key, change, now=iso(runtime.clock.time_ns()))


class RunData:
    """The data of one run: the scope ``request``, and the state of its sequencers."""

    __slots__ = ("locks", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, StateRow] = {}
        self.locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def cell(self, name: str) -> RunCell:
        """Return the cell of one value."""
        return RunCell(self, name)


class RunCell:
    """A value that lives for one run."""

    __slots__ = ("_data", "_name")

    def __init__(self, data: RunData, name: str) -> None:
        self._data = data
        self._name = name

    @property
    def lock(self) -> asyncio.Lock:
        return self._data.locks.setdefault(self._name, asyncio.Lock())

    async def read(self) -> StateRow:
        return self._data.rows.get(self._name, ABSENT)

    async def change(self, change: Change) -> StateRow:
        row = self._data.rows.get(self._name, ABSENT)
        changed = StateRow(change(row), row.version + 1)
        self._data.rows[self._name] = changed
        return changed


class _Hold:
    """A lock held by a task; ``is_over`` once it is released, even if the tasks it started still refer to it."""

    __slots__ = ("is_over", "lock")

    def __init__(self, lock: asyncio.Lock) -> None:
        self.lock = lock
        self.is_over = False


_held_locks: Final[ContextVar[tuple[_Hold, ...]]] = ContextVar("capset_held_locks", default=())
"""The locks held by this task, or by one that started it."""


UNCONTENDED: Final = "use patch, increment or push, which never contend, or try again"
"""The hint for callers that set or update a value that others keep changing."""


@asynccontextmanager
async def hold_lock(lock: asyncio.Lock, label: str, end: float, hint: str = UNCONTENDED) -> AsyncGenerator[None]:
    """Hold a lock; ``end`` is in the event loop's time. Tasks started inside know that it is held.

    Raises ``StateError`` if it would wait for itself, ``ConcurrentModificationError`` when the time is up.
    """
    if any(hold.lock is lock and not hold.is_over for hold in _held_locks.get()):
        raise StateError(
            f"{label} is being updated, and the function that updates it sets or updates it again: it would wait for "
            "itself",
            hint="return the new value from the function",
        )
    try:
        async with asyncio.timeout_at(end):
            await lock.acquire()
    except TimeoutError:
        raise ConcurrentModificationError(f"{label} was held by other updates until the deadline", hint=hint) from None
    hold = _Hold(lock)
    token = _held_locks.set((*_held_locks.get(), hold))
    try:
        yield
    finally:
        hold.is_over = True
        _held_locks.reset(token)
        lock.release()


WAIT_SECONDS: Final = 30.0
"""How long ``set`` and ``update`` try if the call has no deadline of its own."""
MAX_CHARACTERS: Final = 1_048_576
"""Maximum length of a value as JSON text, since every change writes all of it."""


class VersionChanged(Exception):
    """Raised if another writer has changed the value since it was read."""


async def compare_and_swap(
    attempt: Callable[[], Awaitable[T]],
    lock: asyncio.Lock,
    label: str,
    *,
    deadline: float | None,
    hint: str = UNCONTENDED,
) -> T:
    """Hold a lock, and attempt to read and write until no other writer is faster; return the result.

    ``attempt`` raises ``VersionChanged`` if another writer was faster. Raises ``ConcurrentModificationError`` when the
    time is up: at the ``deadline``, which is in the event loop's time, or after ``WAIT_SECONDS``.
    """
    loop = asyncio.get_running_loop()
    end = deadline if deadline is not None else loop.time() + WAIT_SECONDS
    attempts, pause = 0, 0.001  # seconds
    async with hold_lock(lock, label, end, hint):
        while True:
            attempts += 1
            try:
                return await attempt()
            except VersionChanged:
                if loop.time() + pause >= end:
                    times = counted(attempts, "time")
                    raise ConcurrentModificationError(
                        f"{label} was changed by others {times} before it could be written",
                        attempts=attempts,
                        hint=hint,
                    ) from None
            await asyncio.sleep(pause * random.random())  # noqa: S311  # jitter, not a secret
            pause = min(2 * pause, 0.05)


class Handle:
    """One value, its operations, and the callback for every write. Values are of the declared types.

    If the host's own code takes part in validation, it runs in a thread of its caller, never in a transaction.
    """

    __slots__ = ("_cell", "_codec", "_deadline", "_in_thread", "_on_write")

    def __init__(
        self,
        cell: Cell,
        codec: Codec,
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
        *,
        deadline: float | None = None,
        on_write: Callable[[StateRow], None] | None = None,
    ) -> None:
        """``deadline`` is in the event loop's time."""
        self._cell = cell
        self._codec = codec
        self._in_thread = in_thread
        self._deadline = deadline
        self._on_write = on_write

    async def exists(self) -> bool:
        """Whether the value exists: written, and not deleted since."""
        return (await self._cell.read()).value is not None

    async def get(self) -> Any:
        """Return the value; the default if there is none yet."""
        return await self._convert(self._codec.decode, (await self._cell.read()).value)

    async def set(self, value: Any) -> Any:
        """Replace the value."""
        return await self._swap(partial(self._convert, self._codec.encode, value))

    async def patch(self, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> Any:
        """Replace some fields of an object, or some keys of a mapping."""
        codec, values = self._codec, {**(changes or {}), **fields}
        plain = {codec.key(name): await self._convert(codec.plain, name, value) for name, value in values.items()}
        return await self._amend(merge_into(plain))

    async def increment(self, field: str | None = None, by: float = 1) -> Any:
        """Add to a number, or to a numeric field; a missing number counts as 0."""
        return await self._amend(add(field and self._codec.key(field), by))

    async def push(self, *items: Any, field: str | None = None) -> Any:
        """Append to a list, or to a list field; a missing list counts as empty."""
        plain_items = await self._convert(self._codec.plain, field, list(items))
        return await self._amend(append(field and self._codec.key(field), plain_items))

    async def update(self, change: Callable[[Any], Any | Awaitable[Any]]) -> Any:
        """Replace the value with the result of a function of it; the function may run more than once."""

        async def changed(text: str | None) -> EncodedValue:
            new_value = change(await self._convert(self._codec.decode, text))
            return await self._convert(
                self._codec.encode, await new_value if isawaitable(new_value) else new_value, text
            )

        return await self._swap(changed)

    async def delete(self) -> bool:
        """Delete the value, and return whether there was one."""
        is_deleted = False

        def remaining_text(row: StateRow) -> str | None:
            nonlocal is_deleted
            remaining = None if row.value is None else self._codec.remaining(row.value)
            is_deleted = remaining != row.value
            return remaining

        await self._change(remaining_text)
        return is_deleted

    async def _amend(self, change: Patch) -> Any:
        """Change the JSON data in one write transaction, or outside of one if the host's own code validates it."""
        if self._codec.has_own_code:
            return await self._swap(lambda text: self._convert(self._codec.amend, text, change))
        value: Any = None

        def amend_text(row: StateRow) -> str:
            nonlocal value
            text, value = self._codec.amend(row.value, change)
            return text

        await self._change(amend_text)
        return value

    async def _convert(self, convert: Callable[..., T], *arguments: Any) -> T:
        """Return the result of an operation of the codec; a slow validator in it delays only this caller."""
        if self._codec.has_own_code:
            return cast("T", await self._in_thread(partial(convert, *arguments)))
        return convert(*arguments)

    async def _change(self, change: Callable[[StateRow], str | None]) -> StateRow:
        def change_within_limit(row: StateRow) -> str | None:
            text = change(row)
            if text is not None and len(text) > MAX_CHARACTERS:
                raise StateError(
                    f"{self._codec.label} would be {len(text)} characters of JSON; at most {MAX_CHARACTERS} are kept",
                    hint="every change writes all of it: keep large or growing data in files, or as Documents",
                )
            return text

        row = await self._cell.change(change_within_limit)
        if self._on_write is not None:
            self._on_write(row)
        return row

    async def _swap(self, change: Callable[[str | None], Awaitable[EncodedValue]]) -> Any:
        """Read, change and write, unless another writer was faster; retry until the time is up."""

        async def attempt() -> Any:
            row = await self._cell.read()
            text, value = await change(row.value)

            def replace_text(now: StateRow) -> str:
                if now.version != row.version:
                    raise VersionChanged
                return text

            await self._change(replace_text)
            return value

        return await compare_and_swap(attempt, self._cell.lock, self._codec.label, deadline=self._deadline)


class FieldHandle(Handle):
    """The state of a scope: ``increment`` and ``push`` apply to one of its fields."""

    __slots__ = ()

    async def increment(self, field: str | None = None, by: float = 1) -> Any:
        """Add to a field that is a number."""
        return await super().increment(_required_field(field, "increment"), by)

    async def push(self, *items: Any, field: str | None = None) -> Any:
        """Append to a field that is a list."""
        return await super().push(*items, field=_required_field(field, "push"))


def _required_field(field: str | None, operation: str) -> str:
    if not isinstance(field, str):
        raise StateError(f"{operation} of state needs the name of a field")
    return field
