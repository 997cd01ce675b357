"""Connections: what the caller has connected, and for administrators what others have (spec 11, V9)."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from capset_server.console.api import RestRefusal
from capset_server.console.page import PageRequest, PageRoute


async def list_connections(page: PageRequest) -> Response:
    """Show what the caller can connect, with forms, and the credentials of the organisation for administrators."""
    return await _list(page)


async def show_connection(page: PageRequest) -> Response:
    """Show one connection, by its name or that of a server; calls that wait for it link here."""
    connection = await page.api.get("connections", page.params["name"])
    return page.render("connections/detail.html", connection=connection, error=None)


async def enter_key(page: PageRequest) -> Response:
    """Store a key that the caller has entered."""
    name = page.params["name"]
    try:
        await page.api.send("PUT", "connections", name, "key", body={"key": page.form.get("key", "").strip()})
    except RestRefusal as refusal:
        if refusal.status != 422:
            raise
        connection = await page.api.get("connections", name)
        return page.render("connections/detail.html", http_status=422, connection=connection, error=refusal)
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


async def revoke(page: PageRequest) -> Response:
    """Delete a credential of another principal, as an administrator."""
    answer = await page.api.send("DELETE", "connections", "credentials", page.params["id"])
    return page.redirect("connections", told=f"The credential is deleted{_at_provider(answer)}.")


def _at_provider(answer: Any) -> str:  # JSON
    return ", and revoked at the provider" if answer["revoked"] else ""


async def _list(page: PageRequest, http_status: int = 200, error: RestRefusal | None = None) -> Response:
    credentials = None
    if page.caller.has("capset:admin"):
        credentials = await page.api.find("connections", "credentials", cursor=page.query.get("cursor"))
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
    PageRoute("POST", "/connections/{name}/authorize", authorize),
    PageRoute("POST", "/connections/{name}/disconnect", disconnect),
    PageRoute("POST", "/connections/credentials/{id}/revoke", revoke),
)
