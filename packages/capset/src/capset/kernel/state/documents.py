"""One searchable collection of texts, stored under a single key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from capset.clock import iso
from capset.definitions.calls.contexts import Document
from capset.definitions.names import checked_text
from capset.errors import DefinitionError, StateError
from capset.kernel.runtime import KernelRuntime
from capset.kernel.state.values import VersionChanged, compare_and_swap
from capset.stores.base import DocumentRow, ScopeKey

MAX_TEXT_BYTES: Final = 65_536
MAX_LISTED: Final = 1_000


class DocumentCollection:
    """The ``DocumentsHandle`` of a run."""

    __slots__ = ("_deadline", "_key", "_runtime")

    def __init__(self, runtime: KernelRuntime, key: ScopeKey, *, deadline: float | None = None) -> None:
        """``deadline`` is in the event loop's time."""
        self._runtime = runtime
        self._key = key
        self._deadline = deadline

    async def add(
        self, text: str, *, unless: Callable[[Sequence[Document]], Document | None] | None = None
    ) -> Document:
        """Store a non-empty text of up to 64 KiB, unless ``unless`` returns an existing one to use instead.

        Raises ``StateError`` for any other text.
        """
        try:
            size = len(checked_text("a document", text).encode())
        except DefinitionError as error:
            raise StateError(error.message) from None
        if not text.strip() or size > MAX_TEXT_BYTES or "\0" in text:
            raise StateError(f"a document must be text of 1–{MAX_TEXT_BYTES} bytes without NUL; got {size}")
        runtime, key = self._runtime, self._key
        if unless is None:
            row = self._row(text)
            await runtime.store.documents.add(key, row)
            return _to_document(row)

        async def attempt() -> Document:
            documents = [_to_document(row) async for row in self._all_rows()]
            if (existing := unless(documents)) is not None:
                return existing
            row = self._row(text)
            if not await runtime.store.documents.add(key, row, known={document.id for document in documents}):
                raise VersionChanged
            return _to_document(row)

        label = f"the {key.scope} collection of {key.name!r}"
        return await compare_and_swap(attempt, runtime.lock_of(key), label, deadline=self._deadline, hint="try again")

    async def get(self, id: str) -> Document | None:
        """Return a text, or ``None``."""
        row = await self._runtime.store.documents.get(self._key, id) if _is_id(id) else None
        return row and _to_document(row)

    async def recent(self, limit: int = 10, *, before: str | None = None) -> list[Document]:
        """Return the newest texts first, at most ``limit`` (1–1,000); ``before`` is an id that they must precede."""
        rows = await self._runtime.store.documents.recent(self._key, limit=_checked_limit(limit), before=before)
        return [_to_document(row) for row in rows]

    async def search(self, query: str, limit: int = 10) -> list[Document]:
        """Return the texts with a word that equals or begins with a word of the query: best first, then newest."""
        rows = await self._runtime.store.documents.search(self._key, query, limit=_checked_limit(limit))
        return [_to_document(row) for row in rows]

    async def delete(self, id: str) -> bool:
        """Delete a text, and return whether there was one."""
        return _is_id(id) and await self._runtime.store.documents.delete(self._key, id)

    def _row(self, text: str) -> DocumentRow:
        return DocumentRow(self._runtime.ids.new(), text, iso(self._runtime.clock.time_ns()))

    async def _all_rows(self) -> AsyncIterator[DocumentRow]:
        before: str | None = None
        while True:
            page = await self._runtime.store.documents.recent(self._key, limit=MAX_LISTED, before=before)
            for row in page:
                yield row
            if len(page) < MAX_LISTED:
                return
            before = page[-1].id


def _to_document(row: DocumentRow) -> Document:
    return Document(row.id, row.text, row.created_at)


def _is_id(id: str) -> bool:
    return id.isascii() and id.isprintable() and len(id) <= 36


def _checked_limit(limit: int) -> int:
    if type(limit) is not int or not 1 <= limit <= MAX_LISTED:
        raise StateError(f"the limit must be between 1 and {MAX_LISTED}; got {limit!r}")
    return limit
