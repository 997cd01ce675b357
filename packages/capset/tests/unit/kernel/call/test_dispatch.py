"""A tool that calls another: through the whole road, as the same principal (spec 1, C31)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from capset import Context, Progress, Reply, Request, policy, tool
from capset.errors import NoOutcome, PermissionDenied, ToolError
from tests.helpers.kernel.support import ask, desk, read
from tests.virtual_time import anyio_backend

__all__ = ["anyio_backend"]


@tool(effect="read", permissions={"vault:open"})
async def open_vault(code: int) -> str:
    """Open the vault."""
    return f"gold {code}"


@tool(effect="read")
async def stranger() -> int:
    """Be no tool of this agent."""
    raise AssertionError("it ran")


@tool(effect="read")
async def silent() -> AsyncIterator[Progress | Reply[int]]:
    """Say nothing in the end."""
    yield Progress(1.0)


@tool(effect="read")
async def steal(ctx: Context, how: str) -> str:
    """Try to get at the vault."""
    match how:
        case "refused":
            try:
                return await ctx.call(open_vault, 1)
            except PermissionDenied as error:
                return f"caught: {error}"
        case "passed on":
            return await ctx.call(open_vault, 1)
        case "bad":
            return await ctx.call(open_vault, "x", extra=2)  # pyright: ignore[reportCallIssue]
        case "stranger":
            return str(await ctx.call(stranger))
        case _:
            return str(await ctx.call(silent))


@pytest.mark.spec("C31")
async def test_the_callers_principal_is_asked_not_the_tools() -> None:
    async with desk(open_vault, steal) as opened:
        caught = await opened.session.call(steal, "refused")
        assert caught == "caught: Permission denied: user-1 lacks the permission vault:open"
        assert (await opened.record(tool="open_vault")).outcome == "denied"
    async with desk(open_vault, steal, permissions={"vault:open"}) as opened:
        assert await opened.session.call(steal, "passed on") == "gold 1"


@pytest.mark.spec("C31", "G4")
async def test_a_refusal_that_a_handler_lets_through_is_that_handlers_failure() -> None:
    async with desk(open_vault, steal) as opened:
        with pytest.raises(ToolError) as raised:
            await opened.session.call(steal, "passed on")
        assert (raised.value.code, raised.value.status) == ("permission_denied", 403)
        assert raised.value.refusal is False
        assert (await opened.record(tool="steal")).outcome == "failed"


@pytest.mark.spec("C31")
async def test_its_arguments_are_validated_and_its_errors_list_fields() -> None:
    async with desk(open_vault, steal, permissions={"vault:open"}) as opened:
        with pytest.raises(ToolError) as raised:
            await opened.session.call(steal, "bad")
        assert {field.path for field in raised.value.fields} == {"code", "extra"}
        assert raised.value.code == "invalid_arguments"


@pytest.mark.spec("C31")
async def test_only_tools_of_the_agent_can_be_called() -> None:
    async with desk(steal) as opened:
        with pytest.raises(ToolError) as raised:
            await opened.session.call(steal, "stranger")
        assert raised.value.code == "not_found"
        assert (await opened.record(tool="stranger")).outcome == "not_found"


@pytest.mark.spec("K8", "K10")
async def test_a_nested_call_without_a_reply_is_no_outcome() -> None:
    async with desk(silent, steal) as opened:
        with pytest.raises(NoOutcome):
            await opened.session.call(steal, "silent")
        assert (await opened.record(tool="silent")).outcome == "succeeded"


@pytest.mark.spec("C31")
async def test_nested_calls_may_run_at_once() -> None:
    running = 0
    peak = 0

    @tool
    async def work(number: int) -> int:
        """Work."""
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.001)
        running -= 1
        return number

    @tool
    async def spread(ctx: Context) -> list[int]:
        """Spread the work."""
        return list(await asyncio.gather(*(ctx.call(work, number) for number in range(10))))

    async with desk(work, spread) as opened:
        assert await opened.session.call(spread) == list(range(10))
        assert peak == 10
        around = await opened.record(tool="spread")
        assert {record.causation for record in await opened.records(tool="work")} == {around.id}


@pytest.mark.spec("C31", "F19")
async def test_policies_gate_nested_calls_too() -> None:
    @policy
    def small(request: Request) -> bool:
        return request.arguments is None or request.arguments["number"] < 5

    @tool(policies=[small])
    async def inner(number: int) -> int:
        """Take a small number."""
        return number

    @tool
    async def outer(ctx: Context, number: int) -> int:
        """Pass it on."""
        return await ctx.call(inner, number=number)

    async with desk(inner, outer) as opened:
        assert await opened.session.call(outer, 4) == 4
        assert (await ask(opened.session, "outer", {"number": 5}))[0].data["code"] == "permission_denied"


async def test_a_nested_streams_events_stay_inside() -> None:
    @tool(effect="read")
    async def inner() -> AsyncIterator[Progress | Reply[int]]:
        """Emit."""
        yield Progress(0.5)
        yield Reply(1)

    @tool(effect="read")
    async def outer(ctx: Context) -> int:
        """Call it."""
        return await ctx.call(inner)

    async with desk(inner, outer) as opened:
        assert [message.kind for message in await read(opened.session.stream(outer))] == ["reply"]


@pytest.mark.spec("C33")
async def test_what_a_handler_sees_of_its_call() -> None:
    @tool(effect="read")
    async def look(ctx: Context) -> list[str]:
        """Look around."""
        await ctx.files.write("/a.txt", b"x")
        return [ctx.principal.id, ctx.session.id, ctx.correlation, str(ctx.env["tier"])]

    async with desk(look, env={"tier": "pro"}) as opened:
        call_context = await opened.session.call(look)
        record = await opened.record()
        assert call_context == ["user-1", opened.session.id, record.correlation, "pro"]
        assert (await opened.session.files.read("/a.txt"))[1] == b"x"


async def test_the_environment_cannot_be_changed() -> None:
    env = {"tier": "free"}

    @tool(effect="read")
    async def promote(ctx: Context) -> int:
        """Try to be more."""
        ctx.env["tier"] = "pro"  # pyright: ignore[reportIndexIssue]
        return 1

    async with desk(promote, env=env) as opened:
        env["tier"] = "pro"
        assert opened.session.snapshot.env["tier"] == "free"
        assert (await opened.session.try_call(promote)).success is False
