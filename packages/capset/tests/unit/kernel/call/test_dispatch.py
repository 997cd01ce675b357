"""A tool that calls another: through the whole road, as the same principal (spec 1, C31)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from capset import Context, Policy, Progress, Reply, Request, tool
from capset.errors import NoOutcome, PermissionDenied, ToolError
from tests.helpers.evaluation.things import make
from tests.helpers.kernel.support import desk, read
from tests.virtual_time import anyio_backend

__all__ = ["anyio_backend"]


def is_small(request: Request) -> bool:
    return request.arguments is None or request.arguments["code"] < 5


reads = tool(effect="read", description="For a test.")


@tool(effect="read", permissions={"vault:open"}, policies=[Policy("small", is_small)])
async def open_vault(code: int) -> str:
    """Open the vault."""
    return f"gold {code}"


@reads
async def silent() -> AsyncIterator[Progress | Reply[int]]:
    yield Progress(1.0)


@reads
async def emit() -> AsyncIterator[Progress | Reply[int]]:
    yield Progress(0.5)
    yield Reply(1)


@reads
async def steal(ctx: Context, how: str) -> str:
    match how:
        case "caught":
            with pytest.raises(PermissionDenied, match="user-1 lacks the permission vault:open"):
                await ctx.call(open_vault, 1)
            return "caught"
        case "passed on":
            return await ctx.call(open_vault, 1)
        case "large":
            return await ctx.call(open_vault, 5)
        case "bad":
            return await ctx.call(open_vault, "x", extra=2)  # pyright: ignore[reportCallIssue]
        case "stranger":
            return await ctx.call(make("stranger"))
        case "silent":
            return str(await ctx.call(silent))
        case _:
            return str(await ctx.call(emit))


@pytest.mark.spec("C31")
async def test_the_callers_principal_is_asked_not_the_tools() -> None:
    async with desk(open_vault, steal) as opened:
        assert await opened.session.call(steal, "caught") == "caught"
        assert (await opened.record(tool="open_vault")).outcome == "denied"
    async with desk(open_vault, steal, permissions={"vault:open"}) as opened:
        assert await opened.session.call(steal, "passed on") == "gold 1"


@pytest.mark.spec("C31", "F19", "G4")
@pytest.mark.parametrize(
    ("how", "permissions", "ending", "fields"),
    [
        ("passed on", [], ("permission_denied", 403), set()),
        ("large", ["vault:open"], ("permission_denied", 403), set()),
        ("bad", ["vault:open"], ("invalid_arguments", 422), {"code", "extra"}),
        ("stranger", [], ("not_found", 404), set()),
    ],
)
async def test_a_refusal_that_a_handler_lets_through_is_that_handlers_failure(
    how: str, permissions: list[str], ending: tuple[str, int], fields: set[str]
) -> None:
    async with desk(open_vault, steal, permissions=permissions) as opened:
        with pytest.raises(ToolError) as raised:
            await opened.session.call(steal, how)
        assert ((raised.value.code, raised.value.status), raised.value.refusal) == (ending, False)
        assert {field.path for field in raised.value.fields} == fields
        inner, outer = await opened.records()
        assert (inner.code, outer.tool, outer.outcome) == (ending[0], "steal", "failed")


@pytest.mark.spec("K8", "K10")
async def test_a_nested_call_without_a_reply_is_no_outcome() -> None:
    async with desk(silent, steal) as opened:
        with pytest.raises(NoOutcome):
            await opened.session.call(steal, "silent")
        assert (await opened.record(tool="silent")).outcome == "succeeded"


@pytest.mark.spec("C31")
async def test_nested_calls_may_run_at_once() -> None:
    at_once = asyncio.Barrier(10)

    @tool
    async def work(number: int) -> int:
        """Work, ten at once."""
        await at_once.wait()
        return number

    @tool
    async def spread(ctx: Context) -> list[int]:
        """Spread the work."""
        return list(await asyncio.gather(*(ctx.call(work, number) for number in range(10))))

    async with desk(work, spread) as opened, asyncio.timeout(60):
        assert await opened.session.call(spread) == list(range(10))
        around = await opened.record(tool="spread")
        assert {record.causation for record in await opened.records(tool="work")} == {around.id}


async def test_a_nested_streams_events_stay_inside() -> None:
    async with desk(emit, steal) as opened:
        assert [message.kind for message in await read(opened.session.stream(steal, "streamed"))] == ["reply"]


@pytest.mark.spec("C33")
async def test_what_a_handler_sees_of_its_call_and_its_environment_cannot_be_changed() -> None:
    @reads
    async def look(ctx: Context) -> list[str]:
        await ctx.files.write("/a.txt", b"x")
        with pytest.raises(TypeError):
            ctx.env["tier"] = "pro"  # pyright: ignore[reportIndexIssue]
        return [ctx.principal.id, ctx.session.id, ctx.correlation, str(ctx.env["tier"])]

    env = {"tier": "free"}
    async with desk(look, env=env) as opened:
        env["tier"] = "pro"
        seen = await opened.session.call(look)
        assert seen == ["user-1", opened.session.id, (await opened.record()).correlation, "free"]
        assert (await opened.session.files.read("/a.txt"))[1] == b"x"
