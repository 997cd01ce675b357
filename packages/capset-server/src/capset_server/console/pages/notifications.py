"""Pages for notifications: Slack users who may decide approvals, and deliveries of events to channels."""

from __future__ import annotations

from typing import Any, Final, get_args

from starlette.responses import Response

from capset.errors import InvalidArguments
from capset.stores.base import DeliveryState
from capset_server.console.api import RestRefusal
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.pages.administration import kinds, render_tab
from capset_server.console.schema_forms import at_fields, fields_of, names_in, values_of

_PERSON: Final = "person"
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "team": {"type": "string", "title": "Workspace", "description": "The id of the Slack workspace: T…"},
        "user": {
            "type": "string",
            "title": "User",
            "description": "The user's id in the workspace: U…, not a name.",
        },
        "principal": {"type": "string", "title": "Principal", "description": "This user decides as this principal."},
        "kind": {"enum": kinds(), "title": "Kind of principal"},
        "permissions": {
            "type": "array",
            "items": {"type": "string"},
            "title": "Permissions",
            "description": "Only permissions that you hold yourself.",
        },
        "attributes": {"title": "Attributes", "description": 'Facts for policies, such as {"tier": "gold"}.'},
    },
    "required": ["team", "user", "principal", "kind"],
}
"""The fields of the form for a person; the REST API validates their values."""


async def list_people(page: PageRequest) -> Response:
    """List the organisation's people, with a form to add another."""
    return await _show_people(page, None)


async def add_person(page: PageRequest) -> Response:
    """Add a person."""
    try:
        added = await page.api.send("POST", "people", body=values_of(_SCHEMA, page.form, name=_PERSON))
    except (RestRefusal, InvalidArguments) as error:
        page.caller.check("capset:admin")
        return await _show_people(page, error)
    return page.redirect("people", told=f"{added['user']} of {added['team']} decides as {added['principal']}.")


async def remove_person(page: PageRequest) -> Response:
    """Remove a person."""
    await page.api.send("DELETE", "people", page.params["id"])
    return page.redirect("people", told="Removed: that user can no longer decide approval requests.")


async def list_deliveries(page: PageRequest) -> Response:
    """List deliveries, newest first, optionally of one state, channel or approval."""
    filters = {name: page.query.get(name) for name in ("state", "channel", "approval")}
    deliveries = await page.api.get("deliveries", **filters, cursor=page.query.get("cursor"))
    values = {"found": deliveries, "asked": filters, "states": ("", *get_args(DeliveryState))}
    return render_tab(page, "deliveries", "deliveries.html", values)


async def retry_delivery(page: PageRequest) -> Response:
    """Requeue a failed delivery."""
    await page.api.send("POST", "deliveries", page.params["id"], "retry")
    return page.redirect("deliveries", told="Queued again: it will be sent at once.")


async def _show_people(page: PageRequest, error: RestRefusal | InvalidArguments | None) -> Response:
    people = await page.api.get("people", cursor=page.query.get("cursor"))
    problems, others = at_fields([] if error is None else error.fields, {*names_in(_SCHEMA)})
    form = None if error is None else page.form
    fields = fields_of(_SCHEMA, {"kind": "user"}, name=_PERSON, errors=problems, form=form)
    status = 200 if error is None else error.status
    values = {"found": people, "fields": fields, "error": error, "others": others}
    return render_tab(page, "people", "people.html", values, http_status=status)


ROUTES = (
    PageRoute("GET", "/people", list_people),
    PageRoute("POST", "/people", add_person),
    PageRoute("POST", "/people/{id}/remove", remove_person),
    PageRoute("GET", "/deliveries", list_deliveries),
    PageRoute("POST", "/deliveries/{id}/retry", retry_delivery),
)
