"""Sessions with a memory, and its tools by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capset import Capability, Session, Tool
from capset_tools.memory import Memory, MemoryConfig

READ, WRITE = BOTH = ("memory:read", "memory:write")
MemoryCapability = Capability[Memory, MemoryConfig]


def tool_of(capability: MemoryCapability, name: str) -> Tool[..., Any]:
    (tool,) = [candidate for candidate in capability.every_tool if candidate.name == name]
    return tool


async def remember(session: Session, capability: MemoryCapability, *texts: str) -> list[Mapping[str, Any]]:
    return [await session.call(tool_of(capability, "remember"), text=text) for text in texts]


async def recall(session: Session, capability: MemoryCapability, query: str, **more: Any) -> list[str]:
    recalled = await session.call(tool_of(capability, "recall"), query=query, **more)
    assert recalled["count"] == len(recalled["memories"])
    return [memory["text"] for memory in recalled["memories"]]


async def forget(session: Session, capability: MemoryCapability, id: str) -> Mapping[str, Any]:
    return await session.call(tool_of(capability, "forget"), id=id)
