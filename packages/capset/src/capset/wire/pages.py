"""Pages of lists, limited in their number of items, and to about a megabyte (spec 5, P36)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable
from dataclasses import replace
from typing import Any, Final, TypeVar

from pydantic_core import to_json

from capset.stores.base import Page, Query

PAGE_BYTES: Final = 1024 * 1024
"""The maximum size of a page's items as JSON, unless the first item alone is larger."""

_Query = TypeVar("_Query", bound=Query[Any])
_Row = TypeVar("_Row")
_Item = TypeVar("_Item")
_Cursor = TypeVar("_Cursor", str, int)


def fitting_items(items: Iterable[_Item]) -> Generator[_Item]:
    """Yield the items that fit on one page, but at least one."""
    remaining = PAGE_BYTES
    for count, item in enumerate(items):
        remaining -= len(to_json(item)) + 1
        if count and remaining < 0:
            return
        yield item


async def read_page(
    read: Callable[[_Query], Awaitable[Page[_Row, _Cursor]]],
    query: _Query,
    shape: Callable[[_Row], _Item],
    cursor: Callable[[_Row], _Cursor],
) -> tuple[list[_Item], _Cursor | None]:
    """Return one page of a list as items, and the cursor of the next page.

    ``read`` queries the store, perhaps several times for one page, for at most ``PAGE_BYTES`` each time. ``shape``
    converts a row to an item, and ``cursor`` returns the row's position in the list. If a search ended before it had
    found enough, as its ``next`` says, the page may have few items, and a next page.
    """
    query = replace(query, max_bytes=PAGE_BYTES)
    items, remaining = list[_Item](), PAGE_BYTES
    before: _Cursor | None = None
    while True:
        page = await read(query)
        for row in page.items:
            item = shape(row)
            remaining -= len(to_json(item)) + 1
            if items and remaining < 0:
                return items, before
            items.append(item)
            before = cursor(row)
            await asyncio.sleep(0)  # a large item takes milliseconds
        is_cut = bool(page.items) and cursor(page.items[-1]) == page.next
        if not is_cut or len(page.items) >= query.limit:
            return items, page.next
        query = replace(query, limit=query.limit - len(page.items), before=page.next)
