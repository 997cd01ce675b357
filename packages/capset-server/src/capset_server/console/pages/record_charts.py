"""Graphs of the record: a time line of calls, charts of their outcomes and latency, and the usage of limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from capset.stores.base.usage import COUNTED_DAYS
from capset_server.console.api import RestRefusal
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.record_filters import SUMMARIZED, RecordForm, quick_ranges, record_form

WIDTH: Final = 1_000
HEIGHT: Final = 160
_OF: Final[Mapping[str, str]] = {
    "succeeded": "succeeded",
    **dict.fromkeys(("denied", "unauthenticated", "not_found", "invalid", "limited", "rejected"), "refused"),
    "pending": "waiting",
}
"""The group of each outcome; outcomes that are not listed count as failed."""
GROUPS: Final[tuple[str, ...]] = ("succeeded", "refused", "failed", "waiting")
_COLOURS: Final = {
    "succeeded": "good",
    "failed": "bad",
    "denied": "waiting",
    "rejected": "waiting",
    "timed_out": "bad",
    "unknown": "bad",
    "limited": "accent",
    "pending": "accent",
    "allow": "good",
    "deny": "bad",
    "p50_us": "good",
    "p95_us": "waiting",
    "p99_us": "bad",
}
_DASHES: Final = {
    "rejected": [6, 4],
    "timed_out": [6, 4],
    "unknown": [2, 4],
    "p95_us": [8, 3],
    "p99_us": [3, 3],
    "deny": [6, 4],
}
Bucket = Mapping[str, Any]  # JSON of a summary


class OutcomePart(NamedTuple):
    """A segment of a bar: a group of outcomes and its rectangle."""

    group: str
    y: float
    height: float


class OutcomeBar(NamedTuple):
    """The calls of one bucket: its time range, the number of calls in each group, and the position of its bar."""

    since: str
    until: str
    counts: Mapping[str, int]
    x: float
    width: float
    parts: Sequence[OutcomePart]


def group_of(outcome: str) -> str:
    """Return the group of an outcome."""
    return _OF.get(outcome, "failed")


def grouped(outcomes: Mapping[str, int]) -> dict[str, int]:
    """Return the number of calls in each group of outcomes."""
    counts: dict[str, int] = dict.fromkeys(GROUPS, 0)
    for outcome, count in outcomes.items():
        counts[group_of(outcome)] += count
    return counts


def bars_of(summary: Mapping[str, Any]) -> list[OutcomeBar]:  # JSON
    """Return one bar per bucket of a summary, oldest first, scaled to ``WIDTH`` and ``HEIGHT``."""
    buckets: Sequence[Bucket] = summary["buckets"]
    maximum = max((bucket["calls"] for bucket in buckets), default=0) or 1
    step = WIDTH / max(1, len(buckets))
    bars: list[OutcomeBar] = []
    for at, bucket in enumerate(buckets):
        counts = grouped(bucket["outcomes"])
        parts: list[OutcomePart] = []
        top = float(HEIGHT)
        for group in GROUPS:
            height = HEIGHT * counts[group] / maximum
            if height:
                top -= height
                parts.append(OutcomePart(group, round(top, 2), round(height, 2)))
        until = _end(bucket["start"], summary["bucket_seconds"])
        bars.append(OutcomeBar(bucket["start"], until, counts, round(at * step, 2), round(step * 0.9, 2), parts))
    return bars


def _end(start: str, seconds: int) -> str:
    begin = datetime.fromisoformat(start)
    try:
        end = begin + timedelta(seconds=seconds)
    except OverflowError:  # at the end of the calendar
        end = datetime.max.replace(tzinfo=UTC)
    return end.isoformat(timespec="seconds")[:19] + "Z"


def count_series(summary: Mapping[str, Any], name: str) -> dict[str, Any]:  # JSON
    """Return the calls by ``decisions`` or ``outcomes``: one series for each that occurs, most frequent first."""
    kinds = sorted(summary[name], key=lambda kind: -summary[name][kind])
    return _series(summary, kinds, lambda bucket, kind: bucket[name].get(kind, 0), unit="calls")


def latency_series(summary: Mapping[str, Any]) -> dict[str, Any]:  # JSON
    """Return the latency percentiles in milliseconds, one series each; ``None`` for buckets without calls."""
    names = ("p50_us", "p95_us", "p99_us")
    return _series(
        summary, names, lambda bucket, name: None if bucket[name] is None else bucket[name] / 1_000, unit="ms"
    )


def _series(
    summary: Mapping[str, Any], names: Iterable[str], value: Callable[[Bucket, str], float | None], *, unit: str
) -> dict[str, Any]:  # JSON
    buckets: Sequence[Bucket] = summary["buckets"]
    return {
        "unit": unit,
        "step": summary["bucket_seconds"],
        "x": [int(datetime.fromisoformat(bucket["start"]).timestamp()) for bucket in buckets],
        "series": [
            {
                "label": name.removesuffix("_us").replace("_", " "),
                "colour": _COLOURS.get(name, "quiet"),
                "dash": _DASHES.get(name, []),
                "values": [value(bucket, name) for bucket in buckets],
            }
            for name in names
        ],
    }


BUCKETS: Final = ("1m", "5m", "15m", "1h", "6h", "1d", "7d", "30d")
_NAMES: Final = (*SUMMARIZED, "bucket")


async def show_timeline(page: PageRequest) -> Response:
    """Show the number of calls by outcome over time, as bars that link to the records."""
    form, summary, http_status = await _summarized(page, "timeline")
    return page.render(
        "audit/timeline.html",
        http_status=http_status,
        form=form,
        summary=summary,
        bars=bars_of(summary) if summary else [],
        width=WIDTH,
        height=HEIGHT,
        **_common(page),
    )


async def show_charts(page: PageRequest) -> Response:
    """Show calls by decision, outcome and latency, the busiest, what models used, and the usage of limits."""
    form, summary, http_status = await _summarized(page, "charts")
    models = await _models(page, form) if summary else None
    return page.render(
        "audit/charts.html",
        http_status=http_status,
        form=form,
        summary=summary,
        charts=_charts(summary) if summary else [],
        models=models,
        model_charts=_model_charts(models) if models else [],
        usage=await page.api.find("usage", principal=form.values.get("principal")),
        **_common(page),
    )


async def _models(page: PageRequest, form: RecordForm) -> Mapping[str, Any] | None:  # JSON
    """Return the usage of models in the form's time; ``None`` for filters that it does not have."""
    if form.values.keys() & {"tool", "session", "outcome"}:
        return None
    names = ("since", "until", "agent", "principal")
    return await page.api.find("usage", "models", **{name: form.asked.get(name) for name in names})


async def _summarized(page: PageRequest, view: str) -> tuple[RecordForm, Mapping[str, Any] | None, int]:  # JSON
    """Return a view's form, its summary and the HTTP status; if REST refuses the filters, there is no summary."""
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


def _common(page: PageRequest) -> dict[str, Any]:
    return {"buckets": BUCKETS, "grouped": grouped, "spans": quick_ranges(page)}


def _charts(summary: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Any], str]]:
    """Return each chart's id, title, data for the table, and the same data as JSON for the script."""
    charts = (
        ("outcomes", "How calls ended", count_series(summary, "outcomes")),
        ("decisions", "What policies decided", count_series(summary, "decisions")),
        ("latency", "How long calls took, in milliseconds", latency_series(summary)),
    )
    return [(name, title, data, json.dumps(data)) for name, title, data in charts]


def _model_charts(models: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Any], str]]:  # JSON
    """Return the charts of tokens and cost, as ``_charts`` does."""
    if not models["buckets"]:
        return []
    step, used = models["bucket_seconds"], {_unix(bucket["start"]): bucket for bucket in models["buckets"]}
    since, until = _unix(models["since"]), _unix(models["until"])
    first = max(since, until - COUNTED_DAYS * 86_400) // step * step
    starts = range(min(first, *used), until, step)
    charts: list[tuple[str, str, dict[str, Any]]] = []
    for name, title, unit in (("tokens", "Tokens of models", "tokens"), ("cost", "Cost of models, in dollars", "$")):
        values = [used[start][name] if start in used else 0 for start in starts]
        series = {"label": name, "colour": "accent", "dash": [], "values": values}
        charts.append((name, title, {"unit": unit, "step": step, "x": [*starts], "series": [series]}))
    return [(name, title, data, json.dumps(data)) for name, title, data in charts]


def _unix(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp())


ROUTES = (
    PageRoute("GET", "/audit/timeline", show_timeline),
    PageRoute("GET", "/audit/charts", show_charts),
)
