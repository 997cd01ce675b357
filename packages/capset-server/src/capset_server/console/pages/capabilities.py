"""The catalogue: what is installed, and a page of each capability."""

from __future__ import annotations

from typing import Any, Final

import yaml
from starlette.responses import Response

from capset.errors import Field, InvalidArguments
from capset_server.console.dependency_graph import HEIGHT, WIDTH, DependencyGraph, draw_graph
from capset_server.console.forms import Form
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.schema_forms import fields_of, values_of

_PAGE: Final = 60
_AGENTS: Final = 10
_DRAWN: Final = 30
"""Capabilities of a graph; further ones are only named."""
_FILTERS: Final = ("text", "status", "category", "permission")
_CONFIG: Final = "config"
Json = dict[str, Any]


async def list_capabilities(page: PageRequest) -> Response:
    """Show the capabilities that fit; to htmx, these alone."""
    wanted = {name: page.query.get(name) for name in _FILTERS}
    found = await page.api.get("capabilities", limit=_PAGE, cursor=page.query.get("cursor"), **wanted)
    template = "capabilities/found.html" if page.is_fragment else "capabilities/list.html"
    return page.render(template, found=found, wanted=wanted)


async def show_capability(page: PageRequest) -> Response:
    """Show one capability, with what it gives as it is without further choices."""
    found = await page.api.get("capabilities", page.params["id"], readiness=False)
    return await _show(page, found, _default(found), None)


async def preview_capability(page: PageRequest) -> Response:
    """Show what a capability gives with the chosen presets and configuration; nothing is kept."""
    found = await page.api.get("capabilities", page.params["id"], readiness=False)
    return await _show(page, found, set(page.form.every("preset")), page.form)


async def show_readiness(page: PageRequest) -> Response:
    """Show what a capability works with on the machine of the server, which may take a second to find out."""
    found = await page.api.get("capabilities", page.params["id"])
    return page.render("capabilities/readiness.html", found=found)


async def _show(page: PageRequest, found: Json, chosen: set[str], form: Form | None) -> Response:
    preview = await _preview(page, found, chosen, form)
    if page.is_fragment:
        return page.render("capabilities/preview.html", found=found, preview=preview)
    schema: Json = found["config"] or {}
    return page.render(
        "capabilities/detail.html",
        found=found,
        chosen=chosen,
        preview=preview,
        fields=fields_of(schema, name=_CONFIG, errors=preview["errors"], form=form),
        graph=await _graph(page, found),
        box=(WIDTH, HEIGHT),
        agents=await page.api.get("agents", capability=found["id"], limit=_AGENTS),
    )


async def _preview(page: PageRequest, found: Json, chosen: set[str], form: Form | None) -> Json:
    """Return what an agent with this capability alone would be, and the entry that says so in an agent file."""
    entry: Json = {"id": found["id"]}
    default = _default(found)
    presets = {one["name"]: one["name"] in chosen for one in found["presets"]}
    if changed := {name: is_on for name, is_on in presets.items() if is_on != (name in default)}:
        entry["presets"] = changed
    errors: list[Field] = []
    if form is not None and found["config"] is not None:
        try:
            if config := values_of(found["config"], form, name=_CONFIG):
                entry["config"] = config
        except InvalidArguments as error:
            errors = list(error.fields)
    shown = entry if len(entry) > 1 else found["id"]
    said: Json = {"valid": False, "problems": [], "conflicts": [], "needs_admin": [], "snapshot": None}
    if not errors:
        body = {"name": "preview", "capabilities": [entry]}
        said = await page.api.send("POST", "agents", "preview", body=body)
        errors = [Field(_place(one["path"]), one["expected"]) for one in said["problems"]]
    files = {"YAML": yaml.safe_dump({"capabilities": [shown]}, sort_keys=False, allow_unicode=True), "JSON": shown}
    return {"said": said, "errors": errors, "files": files}


def _default(found: Json) -> set[str]:
    return {one["name"] for one in found["presets"] if one["default"]}


def _place(path: str) -> str:
    """Return the place of a problem within the entry: REST names that in the agent."""
    return path.removeprefix("capabilities[0].").removeprefix("capabilities.0.")


async def _graph(page: PageRequest, found: Json) -> DependencyGraph | None:
    """Return the graph of what a capability needs; none if it needs nothing."""
    needs: dict[str, list[str]] = {found["id"]: found["uses"]}
    waiting = list(found["uses"])
    while waiting and len(needs) < _DRAWN:
        name = waiting.pop(0)
        if name not in needs:
            one: Json | None = await page.api.find("capabilities", name, readiness=False)
            needs[name] = [] if one is None else one["uses"]
            waiting += needs[name]
    return draw_graph(found["id"], needs) if found["uses"] else None


ROUTES = (
    PageRoute("GET", "/capabilities", list_capabilities),
    PageRoute("GET", "/capabilities/{id}", show_capability),
    PageRoute("POST", "/capabilities/{id}", preview_capability),
    PageRoute("GET", "/capabilities/{id}/readiness", show_readiness),
)
