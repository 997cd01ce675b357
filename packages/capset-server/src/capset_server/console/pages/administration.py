"""Administration: its tabs, organisations, and limits with their usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from starlette.responses import Response

from capset.definitions.principals import PrincipalKind
from capset_server.auth.keys import Scope
from capset_server.console.page import PageRequest, PageRoute

TABS: Final[Mapping[str, tuple[str, Scope]]] = {
    "keys": ("Keys", "capset:admin"),
    "principals": ("Principals", "capset:admin"),
    "organisations": ("Organisations", "capset:admin"),
    "limits": ("Limits", "capset:audit"),
    "people": ("People", "capset:admin"),
    "deliveries": ("Deliveries", "capset:audit"),
}
"""The pages of administration by path: title, and required scope."""
SHARED: Final = ("org", "all")
"""The ``per`` of limits that several principals share."""
_PRINCIPALS: Final = 10
"""Number of principals whose limits a page shows."""


def tabs_of(page: PageRequest) -> list[tuple[str, str, str]]:
    """Return the tabs that the caller may see, each as its address, its path and its title."""
    visible = [
        (path, title)
        for path, (title, scope) in TABS.items()
        if page.caller.has(scope) and (path != "organisations" or page.caller.principal.org is None)
    ]
    return [(page.url(path), path, title) for path, title in visible]


def render_tab(
    page: PageRequest, tab: str, template: str, values: Mapping[str, Any], *, http_status: int = 200
) -> Response:  # values of any type that a template shows
    """Return a page of administration below its tabs."""
    common = {"tabs_shown": tabs_of(page), "tab": tab, "is_operator": page.caller.principal.org is None}
    return page.render(f"administration/{template}", http_status=http_status, **common, **values)


def kinds() -> list[str]:
    """Return the kinds of principals that can have keys and limits."""
    return [kind for kind in get_args(PrincipalKind) if kind != "anonymous"]


async def begin(page: PageRequest) -> Response:
    """Redirect to the first tab that the caller may see."""
    page.caller.check("capset:admin", "capset:audit")
    return page.redirect(tabs_of(page)[0][1])


async def list_organisations(page: PageRequest) -> Response:
    """List the organisations, for an operator."""
    orgs = await page.api.get("orgs", cursor=page.query.get("cursor"))
    return render_tab(page, "organisations", "organisations.html", {"found": orgs})


async def show_limits(page: PageRequest) -> Response:
    """Show the usage of the limits that several principals share, or of those of one principal.

    The page of all principals then requests those of each principal, as a fragment without the shared limits.
    """
    page.caller.check("capset:admin", "capset:audit")
    org, principal = page.query.get("org"), page.query.get("principal")
    values: dict[str, Any] = {"of_one": None, "found": None, "shared": [], "kinds": kinds()}
    if principal:
        of_one = await page.api.get("usage", principal=principal, kind=page.query.get("kind"), org=org)
        if page.is_fragment:
            return page.render("administration/limits_of_one.html", items=_own(of_one["items"]))
        return render_tab(page, "limits", "limits.html", {**values, "of_one": of_one})
    if page.caller.has("capset:admin"):
        values["found"] = await page.api.get("principals", org=org, limit=_PRINCIPALS, cursor=page.query.get("cursor"))
    usage = await page.api.get("usage") if org is None else await _usage_in(page, org, values["found"])
    values["shared"] = [limit for limit in usage["items"] if limit["per"] in SHARED]
    return render_tab(page, "limits", "limits.html", values)


async def _usage_in(page: PageRequest, org: str, principals: Any) -> Any:  # JSON data
    """Return the usage of one principal of an organisation, which includes that of the whole organisation."""
    candidates = (
        [] if principals is None else [principal for principal in principals["items"] if principal["kind"] in kinds()]
    )
    if not candidates:
        return {"items": []}
    return await page.api.get("usage", principal=candidates[0]["id"], kind=candidates[0]["kind"], org=org)


def _own(items: Sequence[Any]) -> list[Any]:  # JSON data
    return [limit for limit in items if limit["per"] not in SHARED]


ROUTES = (
    PageRoute("GET", "/administration", begin),
    PageRoute("GET", "/organisations", list_organisations),
    PageRoute("GET", "/limits", show_limits),
)
