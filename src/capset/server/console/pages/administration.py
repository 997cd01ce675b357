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
    "people": ("People", "capset:admin"),
    "deliveries": ("Deliveries", "capset:audit"),
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
    """Show what has been used of limits: of one principal, or of those that hold for several, and of each."""
    page.caller.check("capset:admin", "capset:audit")
    query, org = page.query, page.query.get("org")
    values: dict[str, Any] = {"kinds": kinds(), "of_one": None, "found": None, "shared": [], "usages": []}
    if principal := query.get("principal"):
        of_one = await page.api.get("usage", principal=principal, kind=query.get("kind"), org=org)
        return render_tab(page, "limits", "limits.html", **{**values, "of_one": of_one})
    whole = None if org else await page.api.get("usage")
    if page.caller.has("capset:admin"):
        found = await page.api.get("principals", org=org, limit=_PRINCIPALS, cursor=query.get("cursor"))
        listed = [one for one in found["items"] if one["kind"] in kinds()]
        usages = await asyncio.gather(
            *(page.api.get("usage", principal=one["id"], kind=one["kind"], org=org) for one in listed)
        )
        whole = whole or next(iter(usages), None)
        values |= {"found": found, "usages": usages}
    shared = [one for one in (whole or {"items": []})["items"] if one["per"] in SHARED]
    own = [(usage, [one for one in usage["items"] if one not in shared]) for usage in values["usages"]]
    return render_tab(page, "limits", "limits.html", **{**values, "shared": shared, "usages": own})


ROUTES = (
    PageRoute("GET", "/administration", begin),
    PageRoute("GET", "/organisations", list_organisations),
    PageRoute("GET", "/limits", show_limits),
)
