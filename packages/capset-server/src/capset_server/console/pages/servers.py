"""MCP servers and APIs: their state, their tools, and approvals of these."""

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
    """Where the pages and the REST API have one server: that of the configuration, or of a stored agent."""

    def __init__(self, page: PageRequest) -> None:
        agent = page.params.get("agent")
        name = page.params["name"]
        self.agent = agent
        self.name = name
        self.rest = ("tool-sources", name) if agent is None else ("agents", agent, "mcp-servers", name)
        self.page = ("servers", name) if agent is None else ("servers", "agents", agent, name)


async def list_servers(page: PageRequest) -> Response:
    """Show the servers of the configuration, and those of stored agents. None is asked."""
    declared = await page.api.get("tool-sources")
    agents = await page.api.get("agents", mcp_servers=True, limit=_AGENTS, cursor=page.query.get("cursor"))
    return page.render("servers/list.html", declared=declared, agents=agents)


async def show_server(page: PageRequest) -> Response:
    """Show one server: at first what is known of it; its tools follow, since it is asked for them."""
    place = _ServerPaths(page)
    tools = await _tools(page, place) if page.query.get("ask") else None
    return await _show(page, place, tools)


async def show_tools(page: PageRequest) -> Response:
    """Show the tools of a server as they are now, for the page that waits for them."""
    place = _ServerPaths(page)
    details = await _known(page, place)
    return page.render("servers/tools.html", place=place, known=details, tools=await _tools(page, place))


async def approve(page: PageRequest) -> Response:
    """Approve the chosen tools as they were seen; if one has changed since, show what it says now."""
    chosen = dict(_chosen(page))
    if missing := sorted(name for name, digest in chosen.items() if not digest):
        raise InvalidArguments(f"nothing can be approved of {', '.join(missing)!r:.200}: withdraw its approval instead")
    return await _change(page, "approve", chosen, "Approved")


async def withdraw(page: PageRequest) -> Response:
    """Take the approval of the chosen tools back."""
    return await _change(page, "withdraw", [name for name, _ in _chosen(page)], "No longer approved")


def _chosen(page: PageRequest) -> Sequence[tuple[str, str]]:
    """Return the chosen tools by name, each with the hash that was seen of it."""
    choices = [choice.partition(" ") for choice in page.form.every("tool")]
    if not choices:
        raise InvalidArguments("choose the tools first: none was chosen")
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
    """Return what is known of a server without asking it. Raises ``NotFound``."""
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
