"""Pages for the record: a list with filters, single records with their proof, exports, and verification."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, get_args

from starlette.responses import Response, StreamingResponse

from capset.definitions.calls.records import COLUMNS, Outcome
from capset.definitions.governance.acts import ActName
from capset.wire.audit import record_shape
from capset_server.console.api import RestRefusal
from capset_server.console.forms import number
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.record_filters import FILTERS, RecordForm, quick_ranges, record_form
from capset_server.http.record_exports import MEDIA_TYPES

LINKS: Final = 1_000
"""The number of links of the chain that one request verifies."""
_GROUPS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("Who", ("principal", "principal_kind", "on_behalf_of", "org", "attributes_digest", "source")),
    ("What", ("act", "tool", "capability", "effect", "agent", "session", "arguments_digest", "credential")),
    ("Decision", ("decision", "policies", "reason", "approval")),
    ("Ending", ("outcome", "code", "duration_us", "attempts", "repeats")),
    ("Version", ("tool_hash", "code_hash", "static_hash", "runtime_hash", "prompt_hash", "profile")),
    ("Origin", ("id", "phase", "time", "correlation", "causation", "writer")),
)
_ELSEWHERE: Final = ("arguments", "seq", "previous", "hash")
"""The columns that the page of a record shows outside the groups."""


async def list_records(page: PageRequest) -> Response:
    """Show the records that match the filters of the form, newest first."""
    form = record_form(page)
    try:
        records = await page.api.get("audit", **form.asked, cursor=page.query.get("cursor"))
    except RestRefusal as refusal:
        return _again(page, form.with_errors(refusal), refusal)
    return _list(page, form, records)


def _again(page: PageRequest, form: RecordForm, refusal: RestRefusal) -> Response:
    """Show the submitted form again, with its errors."""
    if refusal.status != 422:
        raise refusal
    return _list(page, form, None, refusal.status)


def _list(page: PageRequest, form: RecordForm, records: Mapping[str, Any] | None, http_status: int = 200) -> Response:
    return page.render(
        "audit/list.html",
        http_status=http_status,
        found=records,
        form=form,
        outcomes=get_args(Outcome),
        acts=sorted(get_args(ActName)),
        spans=quick_ranges(page),
    )


async def export(page: PageRequest) -> Response:
    """Send all matching records as a file, streamed from the REST export."""
    form = record_form(page)
    export_format = page.query.get("format", "ndjson")
    parts = page.api.stream("audit", "export", query={**form.asked, "format": export_format})
    try:
        first = await anext(parts)  # a refusal becomes a page
    except StopAsyncIteration:
        first = b""
    except RestRefusal as refusal:
        return _again(page, form.with_errors(refusal), refusal)

    async def body() -> AsyncGenerator[bytes]:
        try:
            yield first
            async for part in parts:
                yield part
        finally:
            await parts.aclose()

    name = f'attachment; filename="records.{export_format}"'
    media_type = MEDIA_TYPES["csv" if export_format == "csv" else "ndjson"]
    return StreamingResponse(body(), media_type=media_type, headers={"content-disposition": name})


async def begin_verification(page: PageRequest) -> Response:
    """Show an explanation of verification, and the button that starts it."""
    return page.render("audit/verify.html", part=None, checked=0, first=None, covered=None)


async def verify(page: PageRequest) -> Response:
    """Verify the next part of the chain, and have the page request the part after it.

    This takes a submitted form, so that a foreign link cannot start a verification after a record that was changed.
    """
    checked = number(page.form, "checked") or 0
    part = await page.api.get("audit", "verify", cursor=page.form.text("cursor"), limit=LINKS)
    covered = part["covered"] or number(page.form, "covered")
    first = number(page.form, "first") or part["since"]
    values: dict[str, Any] = {"part": part, "checked": checked + part["checked"], "covered": covered, "first": first}
    return page.render("audit/verification.html" if page.is_fragment else "audit/verify.html", **values)


async def show_record(page: PageRequest) -> Response:
    """Show a record in full, with its place in the chain."""
    detail = await page.api.get("audit", page.params["id"])
    record: dict[str, Any] = detail["record"]
    grouped_names = {name for _, names in _GROUPS for name in names} | set(_ELSEWHERE)
    others = tuple(name for name in (*COLUMNS, *record) if name in record and name not in grouped_names)
    groups = (*_GROUPS, ("More", tuple(dict.fromkeys(others))))
    descriptions = {name: field.description or "" for name, field in record_shape().model_fields.items()}
    return page.render(
        "audit/detail.html",
        record=record,
        chain=detail["chain"],
        groups=[(title, [name for name in names if name in record]) for title, names in groups if names],
        descriptions=descriptions,
        filters=FILTERS,
    )


ROUTES = (
    PageRoute("GET", "/audit", list_records),
    PageRoute("GET", "/audit/export", export),
    PageRoute("GET", "/audit/verify", begin_verification),
    PageRoute("POST", "/audit/verify", verify),
    PageRoute("GET", "/audit/{id}", show_record),
)
