"""The catalogue: the installed capabilities, and a page for each."""

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
"""Maximum number of capabilities in a graph whose own dependencies are looked up."""
_FILTERS: Final = ("text", "status", "category", "permission")
_CONFIG: Final = "config"
Json = dict[str, Any]


async def list_capabilities(page: PageRequest) -> Response:
    """Show the matching capabilities; htmx gets only their list."""
    filters = {name: page.query.get(name) for name in _FILTERS}
    capabilities = await page.api.get("capabilities", limit=_PAGE, cursor=page.query.get("cursor"), **filters)
    template = "capabilities/found.html" if page.is_fragment else "capabilities/list.html"
    return page.render(template, found=capabilities, wanted=filters)


async def show_capability(page: PageRequest) -> Response:
    """Show a capability, with a preview of its default configuration."""
    capability = await page.api.get("capabilities", page.params["id"], readiness=False)
    return await _show(page, capability, _default(capability), None)


async def preview_capability(page: PageRequest) -> Response:
    """Preview a capability with the chosen presets and configuration. Nothing is stored."""
    capability = await page.api.get("capabilities", page.params["id"], readiness=False)
    return await _show(page, capability, set(page.form.every("preset")), page.form)


async def show_readiness(page: PageRequest) -> Response:
    """Show what a capability works with on the server's machine. Finding out may take a second."""
    capability = await page.api.get("capabilities", page.params["id"])
    return page.render("capabilities/readiness.html", found=capability)


async def _show(page: PageRequest, capability: Json, chosen: set[str], form: Form | None) -> Response:
    preview = await _preview(page, capability, chosen, form)
    if page.is_fragment:
        return page.render("capabilities/preview.html", found=capability, preview=preview)
    schema: Json = capability["config"] or {}
    return page.render(
        "capabilities/detail.html",
        found=capability,
        chosen=chosen,
        preview=preview,
        fields=fields_of(schema, name=_CONFIG, errors=preview["errors"], form=form),
        graph=await _graph(page, capability),
        box=(WIDTH, HEIGHT),
        agents=await page.api.get("agents", capability=capability["id"], limit=_AGENTS),
    )


async def _preview(page: PageRequest, capability: Json, chosen: set[str], form: Form | None) -> Json:
    """Return the preview of an agent with this capability alone, and its entry in a file."""
    entry: Json = {"id": capability["id"]}
    default = _default(capability)
    presets = {preset["name"]: preset["name"] in chosen for preset in capability["presets"]}
    if changed := {name: is_on for name, is_on in presets.items() if is_on != (name in default)}:
        entry["presets"] = changed
    errors: list[Field] = []
    if form is not None and capability["config"] is not None:
        try:
            if config := values_of(capability["config"], form, name=_CONFIG):
                entry["config"] = config
        except InvalidArguments as error:
            errors = list(error.fields)
    file_entry = entry if len(entry) > 1 else capability["id"]
    answer: Json = {"valid": False, "problems": [], "conflicts": [], "needs_admin": [], "snapshot": None}
    if not errors:
        body = {"name": "preview", "capabilities": [entry]}
        answer = await page.api.send("POST", "agents", "preview", body=body)
        errors = [Field(_place(problem["path"]), problem["expected"]) for problem in answer["problems"]]
    files = {
        "YAML": yaml.safe_dump({"capabilities": [file_entry]}, sort_keys=False, allow_unicode=True),
        "JSON": file_entry,
    }
    return {"said": answer, "errors": errors, "files": files}


def _default(capability: Json) -> set[str]:
    return {preset["name"] for preset in capability["presets"] if preset["default"]}


def _place(path: str) -> str:
    """Convert REST's path of a problem in the agent to one in the entry."""
    return path.removeprefix("capabilities[0].").removeprefix("capabilities.0.")


async def _graph(page: PageRequest, capability: Json) -> DependencyGraph | None:
    """Return the dependency graph of a capability; ``None`` if it needs nothing."""
    needs: dict[str, list[str]] = {capability["id"]: capability["uses"]}
    waiting = list(capability["uses"])
    while waiting and len(needs) < _DRAWN:
        name = waiting.pop(0)
        if name not in needs:
            needed: Json | None = await page.api.find("capabilities", name, readiness=False)
            needs[name] = [] if needed is None else needed["uses"]
            waiting += needs[name]
    return draw_graph(capability["id"], needs) if capability["uses"] else None


ROUTES = (
    PageRoute("GET", "/capabilities", list_capabilities),
    PageRoute("GET", "/capabilities/{id}", show_capability),
    PageRoute("POST", "/capabilities/{id}", preview_capability),
    PageRoute("GET", "/capabilities/{id}/readiness", show_readiness),
)
