"""Two versions of one agent that differ in everything that can differ."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from capset import Agent, Capability, Policy, Principal, Request, Tool, allow, deny, policy, tool
from capset.evaluation.policies import PolicyMode
from capset.evaluation.snapshot.capture import capture
from capset.evaluation.snapshot.envelope import SnapshotEnvelope

ANYONE = Principal("user-1", permissions=["notes:read", "notes:write"])


def envelope_of(
    agent: Agent,
    *,
    principal: Principal = ANYONE,
    env: Mapping[str, Any] | None = None,
    agent_id: str = "agent-1",
    has_static: bool = True,
    context: Mapping[str, Any] | None = None,
    mode: PolicyMode = "authoritative",
) -> SnapshotEnvelope:
    """Return what is kept of one evaluation of an agent."""
    captured = capture(
        agent,
        principal=principal,
        env=env,
        agent_id=agent_id,
        session_context=context,
        policy_mode=mode,
        include_static=has_static,
    )
    return asyncio.run(captured).envelope


@policy
def by_day(request: Request) -> Any:
    return allow() if request.env.get("day", True) else deny("closed at night")


@policy
def always(request: Request) -> bool:
    return True


def finder(limit: int, description: str, permissions: list[str]) -> Tool[..., Any]:
    def find_notes(query: str, limit: Annotated[int, Field(le=limit)] = 5) -> list[str]:
        return []

    find_notes.__annotations__["limit"] = Annotated[int, Field(le=limit)]
    return tool(effect="read", description=description, permissions=permissions)(find_notes)


def plain(name: str, *policies: Policy, **more: Any) -> Tool[..., Any]:
    def handler(path: str) -> int:
        """Do."""
        return 1

    return tool(name=name, policies=policies, **more)(handler)


def notes(tools: list[Tool[..., Any]], **more: Any) -> Capability:
    return Capability("notes", tools=tools, **more)


def agent(**more: Any) -> Agent:
    return Agent("librarian", **more)


ALIKE = plain("list_notes", effect="read")
EARLIER = agent(
    system_prompt="You keep a library of notes, and nothing else whatever people ask of you. Measure.",
    instructions=["Answer in one paragraph."],
    uses=[
        notes(
            [
                finder(10, "Find notes.", ["notes:read"]),
                ALIKE,
                plain("delete_note", effect="destructive", permissions=["notes:write"]),
            ],
            policies=[by_day],
            instructions="Search first.",
        )
    ],
)
LATER = agent(
    system_prompt="You keep a library of notes, and nothing else whatever people ask of you. Judge.",
    instructions=["Answer in one paragraph.", "Name your sources."],
    uses=[
        notes(
            [
                finder(20, "Find notes by any word.", ["notes:read", "notes:write"]),
                ALIKE,
                plain("export_notes", always, effect="read"),
            ],
            policies=[by_day, always],
            instructions="Search first.",
        )
    ],
)


def earlier(**more: Any) -> SnapshotEnvelope:
    more.setdefault("env", {"tier": "free", "region": "eu"})
    return envelope_of(EARLIER, **more)


def later(**more: Any) -> SnapshotEnvelope:
    more.setdefault("env", {"tier": "pro", "region": "eu"})
    return envelope_of(LATER, **more)
