"""Every item of a list, page after page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from capset.errors import ForeignAnswer

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
LARGEST: Final = 200
"""The most items that a page can have."""


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
    """Give the items of all pages; ``page`` asks for the one at a cursor, and each is asked for when it is needed."""
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
