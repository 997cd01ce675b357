"""Capabilities with every surface, and an agent that configures them; see ``fingerprints.json``."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field

from capset import Agent, Capability, Context, ContextMessage, Preset, Resource
from capset.definitions.resources import Documents
from tests.golden.subjects import billing, described, gated, office_hours, renamed, scalars


class Settings(BaseModel):
    limit: int = 10
    tags: set[str] = {"delta", "alpha", "charlie", "bravo"}


class Visits(BaseModel):
    count: int = Field(0, ge=0)


class Diary(BaseModel):
    pages: list[str] = []
    mood: str = "good"


def recent(ctx: Context) -> str:
    return "what was said last"


notebook = Resource("notebook", list[str], scope="session", default=list)
totals = Resource("totals", dict[str, int], scope="org", default=dict)
texts = Documents("texts", scope="user")
leaf = Capability("leaf", instructions="Be a leaf.", files={"/docs/leaf.txt": "A leaf."})
kept = Capability(
    "kept",
    resources=[notebook, texts, totals],
    state={"session": Visits, "user": Diary},
    files={"/docs/a.txt": "One.", "/docs/b.bin": b"\x00\xff"},
    model_settings={"temperature": 0.5},
    secrets=["API_KEY"],
    expose=["notebook"],
)
told = Capability(
    "told",
    context=[
        "Plain text.",
        {"userPreferences": "tea", "places": {"home": ["A", "B"], "work": None}},
        ["several", {"of": "them"}],
        ContextMessage("assistant", "Hello."),
        recent,
    ],
)
configured = Capability("configured", config=Settings, policies=[office_hours], tools=[renamed, scalars])
switched = Capability(
    "switched",
    instructions="Base.",
    tools=[scalars],
    uses=[leaf, configured, lambda ctx: [leaf], leaf],
    presets={
        "zeta": Preset(instructions="Zeta.", tools=[renamed], policies=[billing], resources=[notebook]),
        "alpha": Preset(context=[{"alpha": "on"}], state={"session": Visits}),
        "off": Preset(instructions="Off.", files={"/off.txt": "off"}),
    },
    default=["alpha", "zeta"],
)
WITH_PARTS: Final = (leaf, kept, told, configured, switched)

equipped = Agent(
    "equipped",
    system_prompt="Work.",
    tools=[described, gated],
    policies=[office_hours],
    context=["not hashed"],
    uses=[
        switched.with_presets(off=True, zeta=False).with_names(prefix="s_"),
        configured.with_config(Settings(limit=3)).with_names(rename={"renamed-Tool_1": "say"}),
        kept,
        told,
    ],
)
