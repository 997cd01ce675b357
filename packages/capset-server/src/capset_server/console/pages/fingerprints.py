"""Fingerprints: what a hash covers, where it was live, what changed since, and what differs between any two."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from capset.errors import InvalidArguments
from capset_server.console.api import RestRefusal
from capset_server.console.forms import number
from capset_server.console.page import PageRequest, PageRoute

COMPARED_AGENTS: Final = 5
"""Number of agents of a hash whose current hashes are looked up; the others have a link."""
AGENTS: Final = 50
"""Number of agents of a hash on a page."""
RECENT: Final = 20
INSTALLED: Final = 60
"""Number of installed capabilities on a page."""
CHANGES: Final = 200
"""Maximum number of changes of a comparison that are shown."""
_HASH: Final = re.compile("[0-9a-f]{64}", re.ASCII)
_OF_LINK: Final[Mapping[str, str]] = {
    "agent": "static_hash",
    "block": "static_hash",
    "runtime": "runtime_hash",
    "prompt": "prompt_hash",
}
"""The member of a link with the current hash, by kind of hash."""
Json = Mapping[str, Any]


async def list_fingerprints(page: PageRequest) -> Response:
    """Show the newest turns with their hashes, what is installed, and forms for any hash."""
    may_audit = page.caller.has("capset:audit")
    cursor = page.query.get("cursor")
    links = await page.api.get("links", limit=RECENT, cursor=cursor) if may_audit else None
    installed = await page.api.get("fingerprints")
    at = number(page.query, "installed") or 0
    capabilities = installed["capabilities"][at : at + INSTALLED]
    more = at + INSTALLED if at + INSTALLED < len(installed["capabilities"]) else None
    return page.render("fingerprints/list.html", links=links, installed=installed, shown=capabilities, more=more)


async def find(page: PageRequest) -> Response:
    """Redirect to the page of a hash, or to the comparison of two."""
    before, after = (page.query.get(name, "").strip() for name in ("before", "after"))
    if not before:
        raise InvalidArguments("Invalid request: a hash is expected, or two hashes, or the ids of two links")
    return page.redirect("fingerprints", before, "diff", after) if after else page.redirect("fingerprints", before)


async def show_fingerprint(page: PageRequest) -> Response:
    """Show what a hash covers, when it was live, and the current hashes of its agents."""
    fingerprint = page.params["hash"]
    sightings = await page.api.find("fingerprints", fingerprint, "sightings")
    try:
        content = await page.api.get("fingerprints", fingerprint)
    except RestRefusal as refusal:
        if refusal.status != 404 or not (sightings and sightings["links"]):
            raise
        content = None  # a link names it, but its payload is not stored
    agents: list[Json] = sightings["agents"] if sightings else []
    since = await asyncio.gather(*[_since(page, content, agent) for agent in agents[:COMPARED_AGENTS]])
    return page.render(
        "fingerprints/detail.html",
        hash=fingerprint,
        found=content,
        sightings=sightings,
        since=since,
        others=agents[COMPARED_AGENTS:AGENTS],
        has_more_agents=len(agents) > AGENTS,
        is_hash=is_hash,
    )


async def _since(page: PageRequest, content: Json | None, agent: Json) -> Json:
    """Return an agent that had a hash, its newest link, and its current hash of the same kind."""
    newest = (await page.api.get("links", agent_id=agent["agent_id"], limit=1))["items"]
    return {
        "agent": agent,
        "newest": newest[0] if newest else None,
        "now": _now(content, newest[0] if newest else None),
    }


def _now(content: Json | None, link: Json | None) -> str | None:
    if content is None or link is None:
        return None
    if content["kind"] in _OF_LINK:
        return link[_OF_LINK[content["kind"]]]
    name = content["payload"].get("name") if content["kind"] == "tool" else None
    return next((ref["hash"] for ref in link["tool_refs"] if ref["name"] == name), None)


async def diff(page: PageRequest) -> Response:
    """Show what differs between two hashes of one kind, or between two links."""
    before, after = page.params["before"], page.params["after"]
    common: dict[str, Any] = {"before": before, "after": after, "is_hash": is_hash, "most": CHANGES}
    if not (is_hash(before) and is_hash(after)):
        difference = await page.api.get("links", "diff", before=before, after=after)
        return page.render("fingerprints/links_diff.html", found=difference, **common)
    difference = await page.api.get("fingerprints", before, "diff", after)
    of_tools = [change for change in difference["changes"] if change["path"].startswith("tools[")]
    came = [change["after"] for change in of_tools if change["kind"] == "added"]
    went = [change["before"] for change in of_tools if change["kind"] == "removed"]
    others = [
        change
        for change in difference["changes"]
        if change not in of_tools or change["kind"] not in ("added", "removed")
    ]
    values: dict[str, Any] = {"found": difference, "came": came, "went": went, "others": others, **common}
    return await asyncio.to_thread(page.render, "fingerprints/diff.html", **values)  # large ones have many lines


def is_hash(value: object) -> bool:
    """Return whether a value is a hash: 64 hexadecimal digits."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


ROUTES = (
    PageRoute("GET", "/fingerprints", list_fingerprints),
    PageRoute("GET", "/fingerprints/find", find),
    PageRoute("GET", "/fingerprints/{hash}", show_fingerprint),
    PageRoute("GET", "/fingerprints/{before}/diff/{after}", diff),
)
