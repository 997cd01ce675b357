"""Collections of texts: what is added only if no other text stands for it (spec 1, C34)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from capset.errors import ConcurrentModificationError, StateError
from capset.ext import Document, Documents, DocumentsHandle
from tests.helpers.kernel.state.boards import done

SHELF = Documents("shelf", "user")


@pytest.mark.spec("C34")
async def test_a_text_is_added_unless_another_stands_for_it(store: str) -> None:
    async def do(shelf: DocumentsHandle) -> None:
        first = await shelf.add("first")
        second = await shelf.add("second", unless=lambda documents: None if documents == [first] else first)
        assert await shelf.add("third", unless=lambda documents: documents[0]) == second, "the newest comes first"

        def refuse(documents: Sequence[Document]) -> None:
            raise StateError(f"{len(documents)} are enough")

        with pytest.raises(StateError, match="2 are enough"):
            await shelf.add("fourth", unless=refuse)
        assert await shelf.recent() == [second, first]

    await done(lambda ctx: do(ctx.documents(SHELF)), store, SHELF)


async def test_all_texts_are_looked_at_however_many_there_are(store: str) -> None:
    texts: list[str] = []

    def look(documents: Sequence[Document]) -> Document:
        texts[:] = [document.text for document in documents]
        return documents[-1]

    async def do(shelf: DocumentsHandle) -> Document:
        await asyncio.gather(*[shelf.add("old") for _ in range(1_001)])
        return await shelf.add("new", unless=look)

    assert (await done(lambda ctx: do(ctx.documents(SHELF)), store, SHELF)).text == "old"
    assert texts == ["old"] * 1_001


async def test_what_others_add_at_the_same_time_is_looked_at_too(store: str) -> None:
    async def do(shelf: DocumentsHandle) -> int:
        def look(documents: Sequence[Document]) -> Document | None:
            return documents[0] if len(documents) >= 3 else None

        await asyncio.gather(*[shelf.add(f"text {number}", unless=look) for number in range(8)])
        return len(await shelf.recent())

    assert await done(lambda ctx: do(ctx.documents(SHELF)), store, SHELF) == 3


async def test_who_is_outrun_until_the_time_is_up_is_told_so_and_may_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset.kernel.state.values.WAIT_SECONDS", 0.2)

    async def do(shelf: DocumentsHandle) -> None:
        def outrun(documents: Sequence[Document]) -> None:
            with suppress(StopIteration):  # a store in memory never waits
                shelf.add(f"text {len(documents)}").__await__().__next__()

        with pytest.raises(
            ConcurrentModificationError, match="the user collection of 'shelf' was changed by others"
        ) as no:
            await shelf.add("mine", unless=outrun)
        assert no.value.retryable
        assert len(await shelf.recent(1_000)) == no.value.attempts > 1

    await done(lambda ctx: do(ctx.documents(SHELF)), "memory://", SHELF)
