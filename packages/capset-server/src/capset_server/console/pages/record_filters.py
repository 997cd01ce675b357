"""Filters of records: what a form has, what REST is asked, and links that set one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from capset_server.console.api import RestRefusal
from capset_server.console.page import PageRequest

FILTERS: Final = (
    *("since", "until", "kind", "tool", "outcome", "principal", "agent", "session"),
    *("act", "approval", "code", "correlation", "id"),
)
"""The filters of the list and of exports, as REST calls them."""
SUMMARIZED: Final = ("since", "until", "tool", "outcome", "principal", "agent", "session")
"""Those of summaries."""
_LOCAL: Final = re.compile(r"(\d{4,6}-\d\d-\d\dT\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?", re.ASCII)
"""A time as the fields of browsers have it: without an offset."""


@dataclass(frozen=True, slots=True)
class RecordForm:
    """The filters of a page: ``values`` as they came, ``asked`` as REST is asked, ``errors`` by field."""

    page: PageRequest
    place: tuple[str, ...]
    values: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def asked(self) -> dict[str, str]:
        """The filters for REST: a time from a field of a form is UTC."""
        return {name: _with_offset(value) if name in _TIMES else value for name, value in self.values.items()}

    def value(self, name: str) -> str:
        """Return the value of a field; a time as browsers show it in such a field, in UTC."""
        text = self.values.get(name, "")
        return _local(text) if name in _TIMES else text

    def link(self, **changed: str | None) -> Markup:
        """Return the address of this page with some filters changed, or taken away by ``None``."""
        return self.at(*self.place, **changed)

    def at(self, *place: str, **changed: str | None) -> Markup:
        """Return the address of another page with these filters."""
        return self.page.url(*place, **{**self.values, **changed})

    def with_errors(self, refusal: RestRefusal) -> RecordForm:
        """Return the form with what REST said of it."""
        messages = {problem.path: problem.expected for problem in refusal.fields or ()}
        return replace(self, errors=messages or {"": refusal.message})


_TIMES: Final = ("since", "until")


def record_form(page: PageRequest, *place: str, names: tuple[str, ...] = FILTERS) -> RecordForm:
    """Return the filters in the query of a page, which is at ``audit`` or below."""
    values = {name: text for name in names if (text := page.query.get(name, "").strip())}
    return RecordForm(page, ("audit", *place), values)


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
