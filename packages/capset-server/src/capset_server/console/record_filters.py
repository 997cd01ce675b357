"""Filters of records: values from forms, parameters for REST, and links that change a filter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from markupsafe import Markup

from capset.clock import iso_of
from capset_server.console.api import RestRefusal
from capset_server.console.page import PageRequest

FILTERS: Final = (
    *("text", "since", "until", "kind", "tool", "outcome", "principal", "agent", "session"),
    *("act", "approval", "code", "correlation", "id"),
)
"""The filters of the list and of exports, by their names in REST."""
SUMMARIZED: Final = ("since", "until", "tool", "outcome", "principal", "agent", "session")
"""The filters of summaries."""
_LOCAL: Final = re.compile(r"(\d{4,6}-\d\d-\d\dT\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?", re.ASCII)
"""A time from a ``datetime-local`` field: without an offset."""


@dataclass(frozen=True, slots=True)
class RecordForm:
    """The filters of a page: ``values`` as submitted, ``asked`` as parameters for REST, ``errors`` by field.

    ``left_out`` names filters in the query that the page does not have.
    """

    page: PageRequest
    place: tuple[str, ...]
    values: Mapping[str, str]
    left_out: tuple[str, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def asked(self) -> dict[str, str]:
        """The filters as parameters for REST; times from form fields count as UTC."""
        return {name: _with_offset(value) if name in _TIMES else value for name, value in self.values.items()}

    def value(self, name: str) -> str:
        """Return the value of a field; a time in UTC, as a ``datetime-local`` field expects it."""
        text = self.values.get(name, "")
        return _local(text) if name in _TIMES else text

    def link(self, **changed: str | None) -> Markup:
        """Return the URL of this page with some filters changed; ``None`` removes one."""
        return self.at(*self.place, **changed)

    def at(self, *place: str, **changed: str | None) -> Markup:
        """Return the URL of another page with these filters, some of them changed."""
        return self.page.url(*place, **{**self.values, **changed})

    def with_errors(self, refusal: RestRefusal) -> RecordForm:
        """Return the form with the errors from REST."""
        messages = {problem.path: problem.expected for problem in refusal.fields or ()}
        return replace(self, errors=messages or {"": refusal.message})


_TIMES: Final = ("since", "until")


def record_form(page: PageRequest, *place: str, names: tuple[str, ...] = FILTERS) -> RecordForm:
    """Return the filters in the query of a page at or below ``audit``."""
    values = {name: text for name in names if (text := page.query.get(name, "").strip())}
    left_out = tuple(name for name in FILTERS if name not in names and page.query.get(name))
    return RecordForm(page, ("audit", *place), values, left_out)


_SPANS: Final = (
    (timedelta(hours=1), "Last hour"),
    (timedelta(days=1), "Last day"),
    (timedelta(days=7), "Last 7 days"),
    (timedelta(days=30), "Last 30 days"),
)


def quick_ranges(page: PageRequest) -> list[tuple[str, str]]:
    """Return the times to choose from with one click: the beginning and the title of each."""
    now = datetime.fromisoformat(page.service.kernel.now()).replace(microsecond=0)
    today = (now.replace(hour=0, minute=0, second=0), "Today")
    return [(f"{iso_of(since)[:19]}Z", title) for since, title in (today, *((now - span, t) for span, t in _SPANS))]


def _with_offset(text: str) -> str:
    match = _LOCAL.fullmatch(text)
    return f"{match[1]}{match[2] or ':00'}Z" if match else text


def _local(text: str) -> str:
    if match := _LOCAL.fullmatch(text):
        return match[1] + (match[2] or ":00")[:7]
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return ""
