"""Real sessions for one capability each."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from capset import Agent, Capability, Json, Kernel, Message, Principal, Session

FILES = ("session_files:read", "session_files:write")


@asynccontextmanager
async def session_of(capability: Capability, *permissions: str) -> AsyncGenerator[Session]:
    """Open a session of an agent that has only this capability, in a fresh store in memory."""
    agent = Agent("tester", uses=[capability])
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(agent, principal=Principal("user-1", permissions=permissions)) as session,
    ):
        yield session


async def send(session: Session, tool: str, arguments: object) -> Message:
    """Query a tool that only reads as the wire does, with JSON text, and return its last message.

    Text is taken as it is, for what ``json.dumps`` would not write.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    async with session.invoke(Message("query", tool, Json(text.encode()))) as messages:
        received = [message async for message in messages]
    return received[-1]


def fields_of(error: Any) -> dict[str, str]:
    """Return what each refused field was expected to be."""
    return {field.path: field.expected for field in error.fields}
