"""The operations on data with a scope, as handlers see them (spec 1, C34)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel
from typing_extensions import TypeVar

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
T_in = TypeVar("T_in")


class ResourceHandle(Protocol[T]):
    """One resource. Every operation validates what it reads and what it writes, and returns the value as it is then.

    ``patch``, ``increment`` and ``push`` are one write transaction each. ``set`` and ``update`` compare and swap until
    the call's deadline (30 s where there is none), then raise ``ConcurrentModificationError``. Each raises
    ``StateError`` for a value that does not fit, ``StoredValueMisfit`` for a stored one that does not fit any more.
    """

    async def get(self) -> T:
        """Return the value; the default where there is none yet."""
        ...

    async def set(self, value: T) -> T:
        """Replace the value."""
        ...

    async def patch(self, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> T:
        """Replace some fields of an object, or some keys of a mapping; values of the fields' own types."""
        ...

    async def increment(self, field: str | None = None, by: float = 1) -> T:
        """Add to a number, or to a field that is one; a missing number is 0."""
        ...

    async def push(self, *items: Any, field: str | None = None) -> T:
        """Append to a list, or to a field that is one; a missing list is empty."""
        ...

    async def update(self, change: Callable[[T], T | Awaitable[T]]) -> T:
        """Replace the value by what a function makes of it; the function may run more than once."""
        ...

    async def delete(self) -> bool:
        """Delete the value, and return whether there was one."""
        ...


class StateHandle(Protocol[M]):
    """The state of one scope as one model sees it: other fields stay as they are. See ``ResourceHandle`` too."""

    async def get(self) -> M:
        """Return the model's fields; the defaults where nothing is stored yet."""
        ...

    async def set(self, value: M) -> M:
        """Replace every field of the model."""
        ...

    async def patch(self, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> M:
        """Replace some fields."""
        ...

    async def increment(self, field: str, by: float = 1) -> M:
        """Add to a field that is a number; a missing number is 0."""
        ...

    async def push(self, *items: Any, field: str) -> M:
        """Append to a field that is a list; a missing list is empty."""
        ...

    async def update(self, change: Callable[[M], M | Awaitable[M]]) -> M:
        """Replace the model's fields by what a function makes of them; the function may run more than once."""
        ...

    async def delete(self) -> bool:
        """Delete the model's fields, and return whether any was stored."""
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """One text of a collection; ``id`` is a UUIDv7, ``created_at`` ISO 8601 UTC."""

    id: str
    text: str
    created_at: str


class DocumentsHandle(Protocol):
    """One collection of texts."""

    async def add(self, text: str) -> Document:
        """Keep a text and return it with its id."""
        ...

    async def get(self, id: str) -> Document | None:
        """Return a text, or ``None``."""
        ...

    async def recent(self, limit: int = 10, *, before: str | None = None) -> list[Document]:
        """Return the newest texts first, at most ``limit`` (1–1,000); ``before`` is the id that they end before."""
        ...

    async def search(self, query: str, limit: int = 10) -> list[Document]:
        """Return the texts that hold a word of the query, or one that begins with it: the best first, then newer."""
        ...

    async def delete(self, id: str) -> bool:
        """Delete a text, and return whether there was one."""
        ...
