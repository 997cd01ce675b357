"""Pages for the runs of an organisation: a list with filters, and each run as a tree (spec 9, N38)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from starlette.responses import Response

from capset.stores.base import RunState
from capset_server.console.api import RestRefusal
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.record_filters import RecordForm

_FILTERS: Final = ("since", "until", "state", "agent", "principal", "session_id")


async def list_runs(page: PageRequest) -> Response:
    """List the runs of the organisation that match the filters of the form, newest first."""
    values = {name: text for name in _FILTERS if (text := page.query.get(name, "").strip())}
    form = RecordForm(page, ("runs",), values)
    try:
        runs = await page.api.get("runs", whose="all", **form.asked, cursor=page.query.get("cursor"))
    except RestRefusal as refusal:
        if refusal.status != 422:
            raise
        return _list(page, form.with_errors(refusal), None, refusal.status)
    return _list(page, form, runs)


def _list(page: PageRequest, form: RecordForm, runs: Mapping[str, Any] | None, http_status: int = 200) -> Response:
    return page.render("runs/list.html", http_status=http_status, runs=runs, form=form, states=get_args(RunState))


async def show_run(page: PageRequest) -> Response:
    """Show a run as a tree; the details of its parts unfold."""
    trace = await page.api.get("runs", page.params["id"], "trace")
    return page.render("runs/detail.html", trace=trace, run=trace["run"])


ROUTES: Final = (
    PageRoute("GET", "/runs", list_runs),
    PageRoute("GET", "/runs/{id}", show_run),
)
