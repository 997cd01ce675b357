"""Agents: the list, an agent with its preview, its versions, and actions on the whole agent."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from starlette.responses import Response

from capset.errors import NotFound
from capset.stores.base import AGENT_FIELDS
from capset.wire.agents import MAX_VERSION
from capset_connect.plain_files import yaml_text
from capset_server.console.agent_forms import agent_of
from capset_server.console.forms import number
from capset_server.console.page import PageRequest, PageRoute
from capset_server.http.etags import tag_of

_LISTED: Final = 24
"""Number of agents on a page. Each is composed when it is first shown, which takes some milliseconds."""
_VERSIONS: Final = 25


async def list_agents(page: PageRequest) -> Response:
    """Show the agents that match the filters."""
    query = page.query
    status = query.get("status", "active")
    agents = await page.api.get(
        "agents",
        status=None if status == "all" else status,
        text=query.get("text", "").strip(),
        limit=_LISTED,
        cursor=query.get("cursor"),
    )
    return page.render("agents/list.html", found=agents, status=status, text=query.get("text", ""))


async def show_agent(page: PageRequest) -> Response:
    """Show an agent: its definition, and a preview of it for the caller."""
    agent_id = page.params["id"]
    agent = await page.api.get("agents", agent_id)
    preview = await page.api.send("POST", "agents", agent_id, "preview", body={})
    return page.render("agents/detail.html", agent=agent, preview=preview, written=agent_of(agent))


async def archive_agent(page: PageRequest) -> Response:
    """Archive an agent, in the version that the page showed."""
    agent_id = page.params["id"]
    await page.api.send("DELETE", "agents", agent_id, headers=_if_match(page))
    return page.redirect("agents", agent_id, told="Archived: it accepts no new sessions.")


async def restore_agent(page: PageRequest) -> Response:
    """Make an archived agent active again."""
    agent_id = page.params["id"]
    await page.api.send("PATCH", "agents", agent_id, body={"status": "active"}, headers=_if_match(page))
    return page.redirect("agents", agent_id, told="Active again.")


async def export_agent(page: PageRequest) -> Response:
    """Return a stored agent as a configuration file."""
    agent, ending = await page.api.get("agents", page.params["id"]), page.params["ending"]
    if agent["read_only"]:
        raise NotFound("an agent that is defined in code has no file: its code is the definition")
    names = [field.name for field in AGENT_FIELDS if field.in_file]
    members = {name: value for name, value in agent_of(agent).items() if name in names}
    ordered = {name: members[name] for name in names if name in members}
    if ending == "json":
        text, media_type = json.dumps(ordered, indent=2, ensure_ascii=False) + "\n", "application/json"
    elif ending == "yaml":
        text, media_type = yaml_text(ordered), "application/yaml"
    else:
        raise NotFound(f"a file is yaml or json, not {ending!r:.40}")
    name = "-".join(agent["name"].split())
    headers = {
        "content-disposition": f'attachment; filename="{name}.{ending}"',
        "x-content-type-options": "nosniff",
    }
    return Response(text.encode(errors="replace"), media_type=media_type, headers=headers)


async def list_versions(page: PageRequest) -> Response:
    """Show the versions of an agent, and the difference between two of them."""
    agent_id, query = page.params["id"], page.query
    agent, versions = await asyncio.gather(
        page.api.get("agents", agent_id),
        page.api.get("agents", agent_id, "versions", limit=_VERSIONS, cursor=query.get("cursor")),
    )
    before, after = _version(page, "before"), _version(page, "after") or agent["version"]
    diff: dict[str, Any] | None = None
    if before is not None:
        diff = await page.api.get("agents", agent_id, "diff", before=before, after=after)
    values: dict[str, Any] = {"agent": agent, "found": versions, "diff": diff, "before": before, "after": after}
    return await asyncio.to_thread(page.render, "agents/versions.html", **values)  # large versions have many lines


async def roll_back(page: PageRequest) -> Response:
    """Roll back to a version, if the agent is still at the version that the page showed."""
    agent_id, to = page.params["id"], number(page.form, "to")
    if to is None:
        raise NotFound("choose the version to roll back to")
    headers = _if_match(page)
    agent = await page.api.send("POST", "agents", agent_id, "rollback", body={"version": to}, headers=headers)
    return page.redirect("agents", agent_id, told=f"Version {agent['version']} has the contents of version {to}.")


def _if_match(page: PageRequest) -> dict[str, str]:
    version = number(page.form, "version")
    return {} if version is None else {"if-match": tag_of(version)}


def _version(page: PageRequest, name: str) -> int | None:
    version = number(page.query, name)
    return None if version is None else min(max(version, 1), MAX_VERSION)


ROUTES = (
    PageRoute("GET", "/agents", list_agents),
    PageRoute("GET", "/agents/{id}", show_agent),
    PageRoute("GET", "/agents/{id}/versions", list_versions),
    PageRoute("GET", "/agents/{id}/file/{ending}", export_agent),
    PageRoute("POST", "/agents/{id}/archive", archive_agent),
    PageRoute("POST", "/agents/{id}/restore", restore_agent),
    PageRoute("POST", "/agents/{id}/rollback", roll_back),
)
