"""The first page: what waits, what failed, what models cost today, and the servers that need someone."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.responses import Response

from capset.definitions.calls.records import UNTOUCHED
from capset_server.console.inbox_rows import rows_of
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.pages.record_filters import quick_ranges

# REST returns JSON data, so functions that take parts of it take ``Any``.
_SHOWN: Final = 5
_UNREMARKABLE: Final = ("succeeded", *UNTOUCHED)
"""The outcomes of calls that are no failures: they succeeded, wait, or were refused by the rules."""


async def show_home(page: PageRequest) -> Response:
    """Show what the caller may see of what needs someone; each part links to the page that has all of it."""
    today, _ = quick_ranges(page)[0]
    waiting, oldest, calls, models, deliveries, sources = await asyncio.gather(
        page.api.find("approvals", "summary"),
        page.api.find("approvals", status="pending", order="oldest", limit=_SHOWN),
        page.api.find("audit", "summary", since=today),
        page.api.find("usage", "models", since=today),
        page.api.find("deliveries", state="failed", limit=_SHOWN),
        page.api.find("tool-sources"),
    )
    return page.render(
        "home.html",
        waiting=waiting,
        rows=rows_of(oldest["items"]) if oldest else [],
        today=today,
        calls=calls,
        outcomes=_failures(calls) if calls else {},
        tools=[(tool["tool"], failed) for tool in calls["tools"] if (failed := _failures(tool))] if calls else [],
        models=models,
        deliveries=deliveries,
        servers=[source for source in sources["items"] if _needs_someone(source)] if sources else [],
        has_servers=bool(sources and sources["items"]),
    )


def _failures(counts: Any) -> dict[str, int]:
    """Return the numbers of calls that failed, by outcome."""
    return {name: count for name, count in counts["outcomes"].items() if name not in _UNREMARKABLE}


def _needs_someone(source: Any) -> bool:
    return bool(source["problem"] or source["waiting"])


ROUTES = (PageRoute("GET", "/", show_home),)
