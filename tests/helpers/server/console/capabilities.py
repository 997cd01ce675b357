"""Capabilities with everything that the console shows, and evil texts."""

from __future__ import annotations

from pydantic import BaseModel

from capset import Capability, Preset, tool

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>{{7*7}}\u202egnp.exe'


class DeskConfig(BaseModel):
    """What can be configured of the desk."""

    size: int = 3


@tool(effect="write", permissions={"desk:write"}, approval="ask", limits="5/1h", examples=[{"page": 1}])
async def scribble(page: int, text: str = "hello") -> str:
    """Write on the desk."""
    return text


@tool(effect="read", instructions=EVIL, description=EVIL)
async def gaze(word: str = EVIL) -> str:
    return word


drawer = Capability("drawer", title="The drawer", instructions="Keep it shut.")
desk = Capability(
    "desk",
    title="The desk",
    description="A desk with a drawer.",
    category="furniture",
    tools=[scribble],
    presets={"gazing": Preset(tools=[gaze], instructions="Look closely.")},
    uses=[drawer],
    config=DeskConfig,
)
evil = Capability(
    "evil", title=EVIL, description=EVIL, category=EVIL, instructions=EVIL, presets={"p": Preset(tools=[gaze])}
)
many = [Capability(f"many{number:03}", title=f"Number {number}", description="One of many.") for number in range(500)]
