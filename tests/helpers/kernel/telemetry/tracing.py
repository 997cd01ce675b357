"""Tools whose calls are traced, and a session to call them in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from pydantic import Field, SecretStr

from capset import (
    Agent,
    Capability,
    Context,
    Kernel,
    Principal,
    Progress,
    Reply,
    Session,
    ToolError,
    tool,
)
from capset.definitions.tools.definition import AnyTool
from tests.traces import Traces

SECRET = "hunter2"


@tool(effect="read")
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


@tool(effect="read")
async def twice(ctx: Context, name: str) -> list[str]:
    """Greet somebody twice."""
    return [await ctx.call(greet, name=name) for _ in range(2)]


@tool(effect="read")
async def fail(why: str) -> str:
    """Fail on purpose."""
    raise ToolError(f"no: {why}", code="refused_politely", status=409)


@tool(effect="read")
async def crash() -> str:
    """Fail by mistake."""
    raise RuntimeError(f"the password is {SECRET}")


@tool(effect="read", permissions={"vault:open"})
async def unlock(code: str) -> str:
    """Open the vault."""
    return code


@tool(effect="read")
async def count(to: int) -> AsyncIterator[Progress | Reply[int]]:
    """Count."""
    for number in range(to):
        yield Progress(number / to)
    yield Reply(to)


@tool(effect="write")
async def login(
    user: str, password: str, pin: SecretStr, key: Annotated[str, Field(json_schema_extra={"writeOnly": True})]
) -> dict[str, str]:
    """Log in."""
    return {"user": user, "token": f"{SECRET}-token", "pin": pin.get_secret_value()[:0]}


@asynccontextmanager
async def traced(
    traces: Traces, *tools: AnyTool, content: bool | None = None, **settings: Any
) -> AsyncGenerator[Session]:
    agent = Agent("tester", uses=[Capability("kit", tools=tools or (greet, twice, fail, crash, unlock, count, login))])
    async with (
        Kernel(store="memory://", observers=[traces.observer(content=content)], **settings) as kernel,
        kernel.open(agent, principal=Principal("ada", org="acme"), agent_id="agent-1") as session,
    ):
        yield session
