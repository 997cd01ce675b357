"""Connections: what the caller has connected, and for administrators what others have (spec 11, V30)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from starlette.responses import Response

from capset_server.console.api import RestRefusal
from capset_server.console.page import PageRequest, PageRoute

DAYS: Final[Mapping[str, str]] = {"1": "a day", "7": "a week", "30": "30 days", "365": "a year"}
"""How long a delegation may last, by its number of days."""
_MOST: Final = 200
"""The maximum number of delegations that the page of a connection shows."""


async def list_connections(page: PageRequest) -> Response:
    """Show what the caller can connect, with forms, and the credentials of the organisation for administrators."""
    return await _list(page)


async def show_connection(page: PageRequest) -> Response:
    """Show one connection, by its name or that of a server; calls that wait for it link here."""
    return await _detail(page, page.params["name"])


async def enter_key(page: PageRequest) -> Response:
    """Store a key that the caller has entered."""
    name = page.params["name"]
    try:
        await page.api.send("PUT", "connections", name, "key", body={"key": page.form.get("key", "").strip()})
    except RestRefusal as refusal:
        if refusal.status != 422:
            raise
        return await _detail(page, name, key_error=refusal)
    return page.redirect("connections", told=f"{name} is connected. Calls that waited for it continue.")


async def authorize(page: PageRequest) -> Response:
    """Lead to the provider. Forms must not redirect to other sites, so a page does."""
    started = await page.api.send("POST", "connections", page.params["name"], "authorize")
    return page.render("connections/leaving.html", name=page.params["name"], address=started["url"])


async def complete(page: PageRequest) -> Response:
    """Complete an authorization after the provider has redirected back."""
    names = ("state", "code", "iss", "error", "error_description")
    answered = {name: page.query[name] for name in names if name in page.query}
    try:
        connection = await page.api.send("POST", "connections", "callback", body=answered)
    except RestRefusal as refusal:
        if refusal.status not in (403, 409, 422):
            raise
        return await _list(page, refusal.status, error=refusal)
    return page.redirect("connections", told=f"{connection['name']} is connected. Calls that waited for it continue.")


async def disconnect(page: PageRequest) -> Response:
    """Delete the caller's credential."""
    name = page.params["name"]
    answer = await page.api.send("DELETE", "connections", name)
    return page.redirect("connections", told=f"{name} is disconnected{_at_provider(answer)}.")


async def delegate(page: PageRequest) -> Response:
    """Let another principal use a connection of the caller, when it acts for the caller."""
    name, form = page.params["name"], page.form
    tools = [tool.strip() for tool in form.get("tools", "").split(",") if tool.strip()]
    body: dict[str, object] = {"delegate": form.get("delegate", "").strip(), "tools": tools}
    if form.get("days") in DAYS:
        body["until"] = (datetime.now(UTC) + timedelta(days=int(form["days"]))).isoformat()
    try:
        await page.api.send("POST", "connections", name, "delegations", body=body)
    except RestRefusal as refusal:
        if refusal.status != 422:
            raise
        return await _detail(page, name, delegation_error=refusal)
    return page.redirect("connections", name, told=f"{body['delegate']} may use {name} when it acts for you.")


async def end_delegation(page: PageRequest) -> Response:
    """End a delegation of the caller."""
    await page.api.send("DELETE", "delegations", page.params["id"])
    return page.redirect("connections", told="The delegation is ended.")


async def revoke(page: PageRequest) -> Response:
    """Delete a credential of another principal, as an administrator."""
    answer = await page.api.send("DELETE", "credentials", page.params["id"])
    return page.redirect("connections", told=f"The credential is deleted{_at_provider(answer)}.")


async def _detail(
    page: PageRequest, name: str, *, key_error: RestRefusal | None = None, delegation_error: RestRefusal | None = None
) -> Response:
    connection = await page.api.get("connections", name)
    delegations = await page.api.get("delegations", limit=_MOST)
    return page.render(
        "connections/detail.html",
        http_status=422 if key_error or delegation_error else 200,
        connection=connection,
        delegations=[row for row in delegations["items"] if row["connection"] == connection["name"]],
        days=DAYS,
        error=key_error,
        delegation_error=delegation_error,
    )


def _at_provider(answer: Any) -> str:  # JSON
    return ", and revoked at the provider" if answer["revoked"] else ""


async def _list(page: PageRequest, http_status: int = 200, error: RestRefusal | None = None) -> Response:
    credentials = None
    if page.caller.has("capset:admin"):
        credentials = await page.api.find("credentials", cursor=page.query.get("cursor"))
    connections = await page.api.get("connections")
    return page.render(
        "connections/list.html",
        http_status=http_status,
        connections=connections["items"],
        credentials=credentials,
        error=error,
    )


ROUTES = (
    PageRoute("GET", "/connections", list_connections),
    PageRoute("GET", "/connections/callback", complete),
    PageRoute("GET", "/connections/{name}", show_connection),
    PageRoute("POST", "/connections/{name}/key", enter_key),
    PageRoute("POST", "/connections/{name}/delegations", delegate),
    PageRoute("POST", "/connections/delegations/{id}/end", end_delegation),
    PageRoute("POST", "/connections/{name}/authorize", authorize),
    PageRoute("POST", "/connections/{name}/disconnect", disconnect),
    PageRoute("POST", "/connections/credentials/{id}/revoke", revoke),
)
