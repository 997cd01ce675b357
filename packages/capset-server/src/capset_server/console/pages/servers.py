"""Pages for MCP servers and APIs: their state, their tools, and the approval of tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from starlette.responses import Response

from capset.errors import InvalidArguments, NotFound
from capset_server.console.api import RestRefusal
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.tool_differences import compare_tools

_PAGE: Final = 20
_AGENTS: Final = 20
_DIFFERENT: Final = ("changed", "new", "gone", "left out")
Json = dict[str, Any]


class _ServerPaths:
    """The paths of a server in the pages and in REST; the configuration or a stored agent declares the server."""

    def __init__(self, page: PageRequest) -> None:
        agent = page.params.get("agent")
        name = page.params["name"]
        self.agent = agent
        self.name = name
        self.rest = ("tool-sources", name) if agent is None else ("agents", agent, "mcp-servers", name)
        self.page = ("servers", name) if agent is None else ("servers", "agents", agent, name)


async def list_servers(page: PageRequest) -> Response:
    """List the servers of the configuration and of stored agents, without contacting them."""
    declared = await page.api.get("tool-sources")
    agents = await page.api.get("agents", mcp_servers=True, limit=_AGENTS, cursor=page.query.get("cursor"))
    return page.render("servers/list.html", declared=declared, agents=agents)


async def show_server(page: PageRequest) -> Response:
    """Show one server. Its tools load afterwards, since they have to be requested from the server."""
    place = _ServerPaths(page)
    tools = await _tools(page, place) if page.query.get("ask") else None
    return await _show(page, place, tools)


async def show_tools(page: PageRequest) -> Response:
    """Show the current tools of a server, as a part of its page."""
    place = _ServerPaths(page)
    details = await _known(page, place)
    return page.render("servers/tools.html", place=place, known=details, tools=await _tools(page, place))


async def approve(page: PageRequest) -> Response:
    """Approve the chosen tools as they were shown; if one has changed since, show its current version."""
    chosen = dict(_chosen(page))
    if missing := sorted(name for name, digest in chosen.items() if not digest):
        raise InvalidArguments(
            f"the server no longer offers {', '.join(missing)!r:.200}: withdraw the approval instead"
        )
    return await _change(page, "approve", chosen, "Approved")


async def withdraw(page: PageRequest) -> Response:
    """Withdraw the approval of the chosen tools."""
    return await _change(page, "withdraw", [name for name, _ in _chosen(page)], "No longer approved")


def _chosen(page: PageRequest) -> Sequence[tuple[str, str]]:
    """Return the name of each chosen tool, with the hash that the page showed."""
    choices = [choice.partition(" ") for choice in page.form.every("tool")]
    if not choices:
        raise InvalidArguments("no tool is chosen: choose at least one")
    return [(name, digest) for digest, _, name in choices]


async def _change(page: PageRequest, verb: str, tools: object, outcome: str) -> Response:
    place = _ServerPaths(page)
    try:
        done = await page.api.send("POST", *place.rest, verb, body={"tools": tools})
    except RestRefusal as error:
        if error.status not in (409, 422):
            raise
        return await _show(page, place, await _tools(page, place), error)
    names = ", ".join(done["tools"])
    return page.redirect(*place.page, told=f"{outcome}: {names}." if names else "Nothing has changed.")


async def _show(
    page: PageRequest, place: _ServerPaths, tools: Json | None, error: RestRefusal | None = None
) -> Response:
    status = 200 if error is None else error.status
    details = await _known(page, place)
    return page.render("servers/detail.html", http_status=status, place=place, known=details, tools=tools, error=error)


async def _known(page: PageRequest, place: _ServerPaths) -> Json:
    """Return the details of a server without contacting it. Raises ``NotFound``."""
    if place.agent is None:
        sources = await page.api.get("tool-sources")
        for source in sources["items"]:
            if source["id"] == place.name:
                return {**source, "may_approve": sources["may_approve"]}
        raise NotFound(f"the configuration declares no MCP server or API {place.name!r:.100}")
    agent = await page.api.get("agents", place.agent)
    declared: Json = agent["mcp_servers"] or {}
    server = declared.get(place.name)
    if server is None:
        raise NotFound(f"the agent {agent['name']!r} declares no MCP server {place.name!r:.100}")
    details: Json = {"name": place.name, "kind": "mcp", "address": server["url"], "capability": f"mcp:{place.name}"}
    return {**details, "may_approve": True, "state": None, "problem": None, "agent": agent["name"]}


async def _tools(page: PageRequest, place: _ServerPaths) -> Json:
    """Return one page of a server's tools, each with its differences."""
    cursor = None if page.request.method == "POST" else page.query.get("cursor")
    tool_page = await page.api.get(*place.rest, limit=_PAGE, cursor=cursor)
    for tool in tool_page["tools"]:
        differs = tool["state"] in _DIFFERENT
        tool["difference"] = await asyncio.to_thread(compare_tools, tool["before"], tool["now"]) if differs else None
    return tool_page


ROUTES = (
    PageRoute("GET", "/servers", list_servers),
    PageRoute("GET", "/servers/{name}", show_server),
    PageRoute("GET", "/servers/{name}/tools", show_tools),
    PageRoute("POST", "/servers/{name}/approve", approve),
    PageRoute("POST", "/servers/{name}/withdraw", withdraw),
    PageRoute("GET", "/servers/agents/{agent}/{name}", show_server),
    PageRoute("GET", "/servers/agents/{agent}/{name}/tools", show_tools),
    PageRoute("POST", "/servers/agents/{agent}/{name}/approve", approve),
    PageRoute("POST", "/servers/agents/{agent}/{name}/withdraw", withdraw),
)
