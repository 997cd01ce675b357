"""Pages for principals that have keys or sessions: their keys, attributes, allowances and usage."""

from __future__ import annotations

from starlette.responses import Response

from capset.errors import NotFound
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.pages.administration import kinds, render_tab


async def list_principals(page: PageRequest) -> Response:
    """List principals, optionally those with a text in their id."""
    filters = {name: page.query.get(name) for name in ("org", "text", "cursor")}
    principals = await page.api.get("principals", **filters)
    return render_tab(page, "principals", "principals.html", {"found": principals, "asked": filters})


async def show_principal(page: PageRequest) -> Response:
    """Show one principal: its keys, attributes and allowances, and its usage of limits."""
    kind, name, org = page.params["kind"], page.params["id"], page.query.get("org")
    principals = await page.api.get("principals", principal=name, org=org)
    principal = next((candidate for candidate in principals["items"] if candidate["kind"] == kind), None)
    if principal is None:
        raise NotFound("there is no such principal: no key or session here belongs to it")
    usage = await page.api.get("usage", principal=name, kind=kind, org=org) if kind in kinds() else None
    values = {"principal": principal, "usage": usage, "principal_org": org}
    return render_tab(page, "principals", "principal.html", values)


ROUTES = (
    PageRoute("GET", "/principals", list_principals),
    PageRoute("GET", "/principals/{kind}/{id:path}", show_principal),
)
