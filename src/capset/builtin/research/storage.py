"""Atomic storing of texts and of the entry that lists their ids, also if the call is cancelled (spec 5, P18)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final, TypeVar

from capset.ext import DocumentsHandle

_T = TypeVar("_T")
_AT_ONCE: Final = 50
_SECONDS: Final = 3.0
"""How long a cancelled call waits for the work it began: less than its cleanup time."""


async def stored(
    texts: DocumentsHandle,
    parts: Sequence[str],
    name: Callable[[list[str]], Awaitable[_T]],
    named: Callable[[], Awaitable[Collection[str]]],
) -> _T:
    """Store texts, let ``name`` store their ids, in order, and return its result.

    If anything fails, the new texts that ``named`` does not list are deleted again. A cancelled call begins nothing
    more and waits, bounded, for the work it began: only then is it known which texts exist. If the store is too slow
    for that, the rest of the work finishes by itself.
    """
    leaving = asyncio.Event()
    work = asyncio.create_task(_stored(texts, parts, name, named, leaving))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        leaving.set()
        await _ended(work)
        raise


async def forget(texts: DocumentsHandle, ids: Iterable[str]) -> None:
    """Delete texts; a missing one is no error."""
    for some in _some([*ids]):
        await asyncio.gather(*(texts.delete(one) for one in some))


async def _stored(
    texts: DocumentsHandle,
    parts: Sequence[str],
    name: Callable[[list[str]], Awaitable[_T]],
    named: Callable[[], Awaitable[Collection[str]]],
    leaving: asyncio.Event,
) -> _T:
    added: list[str] = []
    try:
        for some in _some(parts):
            _go_on(leaving)
            ended = await asyncio.gather(*(texts.add(text) for text in some), return_exceptions=True)
            added += [one.id for one in ended if not isinstance(one, BaseException)]
            for one in ended:
                if isinstance(one, BaseException):
                    raise one
        _go_on(leaving)
        return await name(added)
    except BaseException:
        there = await named()
        await forget(texts, [one for one in added if one not in there])
        raise


def _go_on(leaving: asyncio.Event) -> None:
    if leaving.is_set():
        raise asyncio.CancelledError


def _some(entries: Sequence[str]) -> Iterable[Sequence[str]]:
    return (entries[begin : begin + _AT_ONCE] for begin in range(0, len(entries), _AT_ONCE))


async def _ended(work: asyncio.Task[Any]) -> None:  # of any result, which is not used any more
    loop = asyncio.get_running_loop()
    until = loop.time() + _SECONDS
    while not work.done() and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait([work], timeout=left)
        except asyncio.CancelledError:
            continue  # anyio cancels again and again; the first cancellation is raised in the end
