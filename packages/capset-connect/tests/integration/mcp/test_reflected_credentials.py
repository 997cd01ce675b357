"""Credentials that an MCP server sends back: masked wherever a model, a person or the record would see them (M9)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError as McpToolError

from capset.errors import ToolError
from tests.helpers.connect.mcp.opening import Site, opened, server
from tests.helpers.connect.mcp.urls import There, declared, serving
from tests.helpers.kernel.support import read, records_of

SECRET = "s3cret-value"


def mirror(upstreams: list[There]) -> MCPServer:
    """Return a server that shows what it was sent in all that it can say."""
    mirrored = MCPServer("mirror")

    def authorization() -> str:
        return upstreams[0].headers[-1]["authorization"]

    @mirrored.tool(structured_output=False, description=f"Say Bearer {SECRET}.")
    def say() -> str:
        return authorization()

    @mirrored.tool()
    def show() -> dict[str, str]:
        """Show it."""
        return {"sent": authorization(), SECRET: "name"}

    @mirrored.tool(structured_output=False)
    def fail() -> str:
        """Fail with it."""
        raise McpToolError(f"no entry for {authorization()}")

    @mirrored.tool(structured_output=False)
    async def tell(ctx: Context) -> str:
        """Tell it on the way."""
        await ctx.report_progress(1, 2, authorization())
        return "told"

    mirrored.resource("mirror://sent", name="sent")(authorization)
    mirrored.prompt(name="sent", description="It.")(authorization)
    return mirrored


@asynccontextmanager
async def reflecting() -> AsyncGenerator[Site]:
    """Open a session with all of it."""
    where: list[There] = []
    async with serving(mirror(where).streamable_http_app()) as upstream:
        where.append(upstream)
        source = declared(
            upstream,
            headers={"Authorization": "Bearer ${BOOKS}"},
            resources={"mirror://sent": {"description": "What was sent"}},
            prompts=["sent"],
        )
        async with opened(source, secrets={"BOOKS": SECRET}) as site:
            yield site


@pytest.mark.spec("M9", "T64")
async def test_what_comes_back_over_http_is_masked() -> None:
    async with reflecting() as site:
        assert site.tool("books_say").description == "Say Bearer [redacted]."
        assert await site.call("books_say") == "Bearer [redacted]"
        assert await site.call("books_show") == {"sent": "Bearer [redacted]", "[redacted]": "name"}
        with pytest.raises(ToolError) as failed:
            await site.call("books_fail")
        assert ("no entry for" in failed.value.message, SECRET in failed.value.message) == (True, False)
        (resource,) = await site.call("books_resources_read", uri="mirror://sent")
        assert resource.text == "Bearer [redacted]"
        (prompt, *_) = await site.call("books_prompts_sent")
        assert prompt.text == "Bearer [redacted]"
        messages = await read(site.session.invoke(site.session.message("books_tell", {})))
        assert SECRET not in str([message.data for message in messages])
        assert SECRET not in str(await records_of(site.kernel.audit))
        assert SECRET not in str(await site.kernel.store.pins.list())


@pytest.mark.realtime
@pytest.mark.spec("M9", "T64")
async def test_what_a_process_sends_back_is_masked_and_paths_are_not(tmp_path: Path) -> None:
    env = {"TOKEN": "Bearer ${LIBRARY}", "HOME": "${HOME}"}
    source = server("library", tmp_path, trust_first_use=True, env=env)
    async with opened(source, secrets={"LIBRARY": SECRET, "HOME": "/home/librarian"}) as site:
        variables = json.loads(await site.call("library_environment"))
        assert (variables["TOKEN"], variables["HOME"]) == ("Bearer [redacted]", "/home/librarian")
