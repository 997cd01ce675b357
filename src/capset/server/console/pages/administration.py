"""Administration: its tabs, organisations, and limits with what has been used of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, get_args

from starlette.responses import Response

from capset.definitions.principals import PrincipalKind
from capset.server.auth.keys import Scope
from capset.server.console.page import Page, PageRoute

TABS: Final[Mapping[str, tuple[str, Scope]]] = {
    "keys": ("Keys", "capset:admin"),
    "principals": ("Principals", "capset:admin"),
    "organisations": ("Organisations", "capset:admin"),
    "limits": ("Limits", "capset:audit"),
}
"""The pages of administration by their paths: title, and the scope that they need."""
SHARED: Final = ("org", "all")
"""Limits under which the calls of several principals count together."""
_PRINCIPALS: Final = 10
"""Principals whose limits one page shows: each is a request of its own."""


def tabs_of(page: Page) -> list[tuple[str, str, str]]:
    """Return the tabs that the caller may see, each as its address, its path and its title."""
    visible = [
        (path, title)
        for path, (title, scope) in TABS.items()
        if page.caller.has(scope) and (path != "organisations" or page.caller.principal.org is None)
    ]
    return [(page.url(path), path, title) for path, title in visible]


def render_tab(page: Page, tab: str, template: str, *, http_status: int = 200, **values: Any) -> Response:
    """Return a page of administration below its tabs. ``values`` are what its template shows."""
    values = {"tabs_shown": tabs_of(page), "tab": tab, "is_operator": page.caller.principal.org is None, **values}
    return page.render(f"administration/{template}", http_status=http_status, **values)


def kinds() -> list[str]:
    """Return the kinds of principals that keys, and limits, are for."""
    return [kind for kind in get_args(PrincipalKind) if kind != "anonymous"]


async def begin(page: Page) -> Response:
    """Lead to the first tab that the caller may see."""
    page.caller.check("capset:admin", "capset:audit")
    return page.redirect(tabs_of(page)[0][1])


async def list_organisations(page: Page) -> Response:
    """List the organisations, for an operator."""
    found = await page.api.get("orgs", cursor=page.query.get("cursor"))
    return render_tab(page, "organisations", "organisations.html", found=found)


async def show_limits(page: Page) -> Response:
    """Show what has been used of the limits that hold for several principals, and of those of each."""
    page.caller.check("capset:admin", "capset:audit")
    own, query = await page.api.get("usage"), page.query
    asked = {name: query.get(name) for name in ("principal", "kind", "org")}
    of_one = await page.api.get("usage", **asked) if asked["principal"] else None
    found, usages = None, list[Any]()
    if of_one is None and page.caller.has("capset:admin"):
        org, cursor = asked["org"], query.get("cursor")
        found = await page.api.get("principals", org=org, limit=_PRINCIPALS, cursor=cursor)
        listed = [one for one in found["items"] if one["kind"] in kinds()]
        usages = await asyncio.gather(
            *(page.api.get("usage", principal=one["id"], kind=one["kind"], org=org) for one in listed)
        )
    shared = [one for one in own["items"] if one["per"] in SHARED]
    return render_tab(
        page, "limits", "limits.html", shared=shared, of_one=of_one, found=found, usages=usages, kinds=kinds()
    )


ROUTES = (
    PageRoute("GET", "/administration", begin),
    PageRoute("GET", "/organisations", list_organisations),
    PageRoute("GET", "/limits", show_limits),
)
