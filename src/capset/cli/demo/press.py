"""A capability of the demo's own: one tool that needs an approval, and one limited to two calls per minute."""

from __future__ import annotations

from typing import Final

from capset import Capability, tool


@tool(effect="external", approval="ask")
async def publish(title: str) -> str:
    """Publish something; somebody else has to approve it."""
    return f"published: {title}"


@tool(effect="write", limits="2/1m")
async def announce(title: str) -> str:
    """Announce something, twice a minute at most."""
    return f"announced: {title}"


press: Final = Capability("press", description="Publishes and announces.", tools=[publish, announce])
