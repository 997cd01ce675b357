"""The record in graphs: a time line of calls, charts of their endings and latency, and what is used of limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from capset.server.console.api import RestRefusal
from capset.server.console.page import PageRequest, PageRoute
from capset.server.console.pages.record_filters import SUMMARIZED, RecordForm, record_form
from capset.server.console.pages.record_graphs import HEIGHT, WIDTH, bars_of, count_series, grouped, latency_series

BUCKETS: Final = ("1m", "5m", "15m", "1h", "6h", "1d", "7d", "30d")
_NAMES: Final = (*SUMMARIZED, "bucket")


async def show_timeline(page: PageRequest) -> Response:
    """Show how many calls ended how, as bars that lead to their records."""
    form, summary, http_status = await _summarized(page, "timeline")
    return page.render(
        "audit/timeline.html",
        http_status=http_status,
        form=form,
        summary=summary,
        bars=bars_of(summary) if summary else [],
        width=WIDTH,
        height=HEIGHT,
        **_common(),
    )


async def show_charts(page: PageRequest) -> Response:
    """Show calls by decision and outcome, their latency, the tools with most calls, and what limits leave."""
    form, summary, http_status = await _summarized(page, "charts")
    return page.render(
        "audit/charts.html",
        http_status=http_status,
        form=form,
        summary=summary,
        charts=_charts(summary) if summary else [],
        usage=await page.api.find("usage", principal=form.values.get("principal")),
        **_common(),
    )


async def _summarized(page: PageRequest, view: str) -> tuple[RecordForm, Mapping[str, Any] | None, int]:  # JSON
    """Return the form of a view, the summary that it asks for, and the status: that of a refusal where there is one."""
    form = record_form(page, view, names=_NAMES)
    try:
        return form, await _summary(page, form), 200
    except RestRefusal as refusal:
        form, http_status = _refused(form, refusal)
        return form, None, http_status


async def _summary(page: PageRequest, form: RecordForm) -> Mapping[str, Any]:  # JSON
    return await page.api.get("audit", "summary", **form.asked)


def _refused(form: RecordForm, refusal: RestRefusal) -> tuple[RecordForm, int]:
    if refusal.status != 422:
        raise refusal
    return form.with_errors(refusal), refusal.status


def _common() -> dict[str, Any]:
    return {"buckets": BUCKETS, "grouped": grouped}


def _charts(summary: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Any], str]]:
    """Return each chart: its id, its title, its data for the table, and the same as JSON for the script."""
    found = (
        ("outcomes", "How calls ended", count_series(summary, "outcomes")),
        ("decisions", "What policies decided", count_series(summary, "decisions")),
        ("latency", "How long calls took, in milliseconds", latency_series(summary)),
    )
    return [(name, title, data, json.dumps(data)) for name, title, data in found]


ROUTES = (
    PageRoute("GET", "/audit/timeline", show_timeline),
    PageRoute("GET", "/audit/charts", show_charts),
)
