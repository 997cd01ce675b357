"""Every item of a list, page after page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from capset.errors import ForeignAnswer

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
LARGEST: Final = 200
"""Limit on the items of a page."""


class Page(Protocol[T_co]):
    """Some items, and the cursor of the next page, if there is one."""

    @property
    def items(self) -> Sequence[T_co]:
        """The items."""
        ...

    @property
    def next(self) -> str | None:
        """The cursor."""
        ...


async def every(page: Callable[[str | None], Awaitable[Page[T]]]) -> AsyncGenerator[T]:
    """Yield the items of all pages; ``page`` requests the one at a cursor, each only when it is needed."""
    cursor: str | None = None
    while True:
        found = await page(cursor)
        for item in found.items:
            yield item
        if found.next is None:
            return
        if found.next == cursor:
            raise ForeignAnswer("the server answered one page of a list twice")
        cursor = found.next
