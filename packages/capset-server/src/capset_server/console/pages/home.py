"""The first page: what waits, what failed, what models cost today, and the servers that need attention."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from starlette.responses import Response

from capset.definitions.calls.records import Outcome
from capset_server.console.inbox_rows import rows_of
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.pages.record_charts import group_of
from capset_server.console.record_filters import quick_ranges

_SHOWN: Final = 5
_FAILURES: Final = tuple(outcome for outcome in get_args(Outcome) if group_of(outcome) == "failed")
"""The outcomes that charts count as failed."""


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
    counts: Mapping[str, int] = calls["outcomes"] if calls else {}
    outcomes = {name: counts[name] for name in _FAILURES if name in counts}
    return page.render(
        "home.html",
        waiting=waiting,
        rows=rows_of(oldest["items"]) if oldest else [],
        today=today,
        calls=calls,
        outcomes=outcomes,
        tools=await _failing_tools(page, calls["covered_from"], outcomes) if outcomes else [],
        models=models,
        deliveries=deliveries,
        servers=[source for source in sources["items"] if _needs_attention(source)] if sources else [],
        has_servers=bool(sources and sources["items"]),
    )


def _needs_attention(source: Mapping[str, Any]) -> bool:
    return bool(source["problem"] or source["need"] or source["waiting"])


async def _failing_tools(page: PageRequest, since: str, outcomes: Iterable[str]) -> list[tuple[str, int]]:
    """Return the tools with the most failed calls, and their numbers.

    A summary has the busiest tools only, which need not be those that fail, so there is one for each outcome.
    """
    summaries = [page.api.get("audit", "summary", since=since, outcome=outcome) for outcome in outcomes]
    counts: Counter[str] = Counter()
    for summary in await asyncio.gather(*summaries):
        counts.update({tool["tool"]: tool["calls"] for tool in summary["tools"]})
    return counts.most_common(_SHOWN)


ROUTES = (PageRoute("GET", "/", show_home),)
