"""Whole traces of hooks: who is told of what, in which order, and that nothing they do changes an outcome (F23)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from capset import (
    Agent,
    Capability,
    Context,
    Hooks,
    Kernel,
    Policy,
    Preset,
    Principal,
    Progress,
    Reply,
    Request,
    ToolError,
    Toolkit,
    allow,
    compose,
    deny,
    dynamic_toolkit,
    evaluate,
    tool,
)
from capset.errors import DeadlineExceeded, InternalError, InvalidArguments, PermissionDenied
from tests.helpers.evaluation.things import Trace
from tests.helpers.kernel.support import read, records_of, turns

WHO = Principal("ada", permissions=["a:b"])
pytestmark = pytest.mark.spec("F23")


def gate(id: str, answer: Any = True) -> Policy:
    return Policy(id, lambda request: answer)


def everything(trace: Trace) -> tuple[Agent, Any]:
    """Return an agent with hooks and a gate at every level, and its one tool."""

    @tool(effect="read", policies=[gate("p-tool")], hooks=trace.hooks("tool"))
    async def work(number: int) -> int:
        """Work."""
        return number

    inner = Toolkit("inner", [work], policies=[gate("p-inner")], hooks=trace.hooks("inner"))
    outer = Toolkit("outer", [inner], policies=[gate("p-outer")], hooks=trace.hooks("outer"))
    preset = Preset(tools=[outer], policies=[gate("p-preset")], hooks=trace.hooks("preset"))
    capability = Capability(
        "kit", presets={"more": preset}, default=["more"], policies=[gate("p-kit")], hooks=trace.hooks("kit")
    )
    agent = Agent("agent", uses=[capability], policies=[gate("p-agent")], hooks=trace.hooks("agent"))
    return agent, work


LEVELS = ["agent", "kit", "preset", "outer", "inner", "tool"]
OWNERS = {"agent": "agent", "kit": "kit", "preset": "kit", "outer": "outer", "inner": "inner", "tool": "work"}
ASKED = [
    f"{teller} p-{level}@{OWNERS[level]} allow"
    for depth, level in enumerate(LEVELS, start=1)
    for teller in [*LEVELS[:depth], "run"]
]


async def test_a_policy_is_told_to_what_stands_around_its_owner_then_to_the_run() -> None:
    trace = Trace()
    agent, _ = everything(trace)
    await evaluate(compose(agent), principal=WHO, hooks=trace.hooks("run"))
    assert trace.take() == ASKED
    await evaluate(compose(agent), principal=WHO)
    assert trace.take() == [line for line in ASKED if not line.startswith("run")]


async def test_a_call_is_told_of_in_the_same_order() -> None:
    trace = Trace()
    agent, work = everything(trace)
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(agent, principal=WHO, hooks=trace.hooks("run")) as session,
    ):
        assert trace.take() == ASKED
        for _ in range(2):
            assert await session.call(work, 7) == 7
            assert trace.take() == [*ASKED, *(f"{teller} work()" for teller in [*LEVELS, "run"])]
        record = (await records_of(kernel.audit))[0]
    event = trace.executed[0]
    assert (event.tool, event.name, dict(event.arguments), event.result) == (work, "work", {"number": 7}, 7)
    assert (event.error, event.principal, event.session) == (None, WHO, session.id)
    assert (event.record, event.correlation, event.duration_us) == (record.id, record.correlation, record.duration_us)
    at_call = trace.asked[-1].request
    assert (at_call.tool, dict(at_call.arguments or {})) == (work, {"number": 7})


async def test_a_shared_policy_is_told_of_once_and_to_its_first_owner() -> None:
    trace, shared = Trace(), gate("shared")

    def kit(name: str) -> Toolkit:
        @tool(name=f"{name}_tool", effect="read", policies=[shared], hooks=trace.hooks(f"{name}-tool"))
        async def work() -> None:
            """Work."""

        return Toolkit(name, [work], hooks=trace.hooks(name), policies=[shared] if name == "second" else [])

    agent = Agent("agent", tools=[kit("first"), kit("second")])
    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=WHO) as session:
        assert trace.take() == ["first shared@first_tool allow", "first-tool shared@first_tool allow"]
        await session.call(session.snapshot.tools["second_tool"].tool)
        assert trace.take() == ["second shared@second allow", "second second_tool()", "second-tool second_tool()"]


async def test_the_hooks_around_one_way_are_not_around_the_gates_of_the_other() -> None:
    trace = Trace()

    @tool(effect="read", hooks=trace.hooks("tool"))
    async def work() -> None:
        """Work."""

    kits = [Toolkit(name, [work], policies=[gate(f"p-{name}")], hooks=trace.hooks(name)) for name in ("a", "b")]
    async with Kernel(store="memory://") as kernel, kernel.open(Agent("agent", tools=kits), principal=WHO) as session:
        evaluations = ["a p-a@a allow", "b p-b@b allow"]
        assert trace.take() == evaluations
        await session.call(work)
        assert trace.take() == [*evaluations, "a work()", "b work()", "tool work()"]


async def test_one_object_in_several_places_is_told_once() -> None:
    trace = Trace()
    hooks, inner = trace.hooks("hooks"), trace.hooks("inner")

    @tool(effect="read", hooks=hooks, policies=[gate("p")])
    async def work() -> None:
        """Work."""

    agent = Agent("agent", tools=[Toolkit("kit", [work], hooks=inner)], hooks=hooks)
    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=WHO, hooks=hooks) as session:
        evaluations = ["hooks p@work allow", "inner p@work allow"]
        assert trace.take() == evaluations
        await session.call(work)
        assert trace.take() == [*evaluations, "hooks work()", "inner work()"]


async def test_what_dynamic_toolkits_make_is_told_as_if_it_had_always_been_there() -> None:
    trace = Trace()

    @tool(effect="read", policies=[gate("p-made")], hooks=trace.hooks("made"))
    async def made() -> None:
        """Be made."""

    @dynamic_toolkit(policies=[gate("p-kit")], hooks=trace.hooks("kit"))
    def kit(context: object) -> list[Any]:
        return [made]

    agent = Agent("agent", tools=[kit], hooks=trace.hooks("agent"))
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(agent, principal=WHO, hooks=trace.hooks("run")) as session,
    ):
        evaluations = [f"{teller} p-kit@kit allow" for teller in ("agent", "kit", "run")]
        evaluations += [f"{teller} p-made@made allow" for teller in ("agent", "kit", "made", "run")]
        assert trace.take() == evaluations
        await session.call(made)
        assert trace.take() == [*evaluations, *(f"{teller} made()" for teller in ("agent", "kit", "made", "run"))]


async def test_nested_calls_are_told_of_inside_out() -> None:
    trace = Trace()

    @tool(effect="read", hooks=trace.hooks("inner"))
    async def inner() -> int:
        """Be inside."""
        return 1

    @tool(effect="read", hooks=trace.hooks("outer"))
    async def outer(ctx: Context) -> int:
        """Be around."""
        return await ctx.call(inner) + 1

    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(Agent("agent", tools=[inner, outer]), principal=WHO, hooks=trace.hooks("run")) as session,
    ):
        assert await session.call(outer) == 2
    assert trace.take() == ["inner inner()", "run inner()", "outer outer()", "run outer()"]
    assert len({event.correlation for event in trace.executed}) == 1


@tool(effect="write")
async def fails(how: str) -> int:
    """Fail."""
    match how:
        case "tool error":
            raise ToolError("no such thing", code="no_such_thing")
        case "defect":
            raise RuntimeError("hunter2")
        case "output":
            return "not a number"  # pyright: ignore[reportReturnType]
        case _:
            await asyncio.sleep(60)
    return 1


@pytest.mark.parametrize(
    ("how", "error"),
    [("tool error", ToolError), ("defect", InternalError), ("output", InternalError), ("late", DeadlineExceeded)],
)
async def test_a_call_that_fails_is_told_of_with_its_error(how: str, error: type[Exception]) -> None:
    trace = Trace()
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(Agent("agent", tools=[fails]), principal=WHO, hooks=trace.hooks("run")) as session,
    ):
        result = await session.options(timeout=0.05).try_call(fails, how)
        (event,) = trace.executed
        assert isinstance(event.error, error)
        assert event.error is result.error
        assert event.result is None
        assert "hunter2" not in event.error.message


async def test_a_call_that_never_reached_its_handler_is_no_execution() -> None:
    trace = Trace()

    @tool(effect="read", policies=[Policy("late", lambda request: deny("no"), phase="call")])
    async def denied() -> None:
        """Be denied."""

    @tool(effect="read", permissions=["c:d"])
    async def barred() -> None:
        """Be barred."""

    @tool(effect="read")
    async def picky(number: int) -> None:
        """Be picky."""

    agent = Agent("agent", tools=[denied, barred, picky])
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(agent, principal=WHO, hooks=trace.hooks("run")) as session,
    ):
        with pytest.raises(PermissionDenied):
            await session.call(denied)
        with pytest.raises(PermissionDenied):
            await session.call(barred)
        with pytest.raises(InvalidArguments):
            await session.call(picky, "x")  # pyright: ignore[reportArgumentType]
        await session.try_message(session.message("unknown", {}))
        assert trace.take() == ["run late@denied deny"]
        assert len(await records_of(kernel.audit)) == 4


async def test_a_streamed_call_is_told_of_once_it_is_on_record_and_before_its_reader_is_done() -> None:
    trace = Trace()

    @tool(effect="read")
    async def streams() -> AsyncIterator[Progress | Reply[int]]:
        """Stream."""
        yield Progress(0.5)
        yield Reply(3)

    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(Agent("agent", tools=[streams]), principal=WHO, hooks=trace.hooks("run")) as session,
    ):
        messages = await read(session.stream(streams))
        assert [message.kind for message in messages] == ["event", "reply"]
        assert trace.take() == ["run streams()"]
        assert trace.executed[0].result == 3


async def test_a_cancelled_call_is_on_record_and_nobody_is_told() -> None:
    trace = Trace()
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(Agent("agent", tools=[fails]), principal=WHO, hooks=trace.hooks("run")) as session,
    ):
        call = asyncio.create_task(session.call(fails, "hang"))
        await turns()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert trace.executed == []
        assert [record.outcome for record in await records_of(kernel.audit)] == ["cancelled"]


def hashes(hooks: Hooks | None, run: Hooks | None) -> set[str]:
    plain_tool = tool(name="one", effect="read", hooks=hooks, description="D.", policies=[gate("p")])(meaningless)
    dynamic_kit = dynamic_toolkit(name="made", hooks=hooks)(lambda context: [])
    kit = Toolkit("kit", [plain_tool, dynamic_kit], hooks=hooks)
    capability = Capability(
        "c", tools=[kit], hooks=hooks, presets={"p": Preset(tools=[kit], hooks=hooks)}, default=["p"]
    )
    composition = compose(Agent("a", uses=[capability], tools=[kit], hooks=hooks))
    snapshot = asyncio.run(evaluate(composition, principal=WHO, hooks=run))
    return {
        snapshot.static_hash,
        snapshot.runtime_hash,
        snapshot.prompt_hash,
        *(ref.hash for ref in snapshot.tool_refs),
    }


async def meaningless() -> None: ...


@pytest.mark.spec("F11")
def test_no_hash_covers_a_hook() -> None:
    hooks = Hooks(on_tool_executed=print, on_policy_evaluated=print)
    assert hashes(None, None) == hashes(hooks, None) == hashes(None, hooks) == hashes(hooks, hooks)


async def test_a_policy_that_is_not_asked_is_not_told_of() -> None:
    trace = Trace()
    snapshot_policy, only = (
        Policy("held", lambda request: allow(), "snapshot"),
        Policy("only", lambda request: True, phase="evaluate"),
    )

    @tool(
        effect="read",
        policies=[snapshot_policy, only, Policy("call", lambda request: request.tool is not None, phase="call")],
    )
    async def work() -> None:
        """Work."""

    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(Agent("agent", tools=[work]), principal=WHO, hooks=trace.hooks("run")) as session,
    ):
        assert trace.take() == ["run held@work allow", "run only@work allow"]
        await session.call(work)
        assert trace.take() == ["run call@work allow", "run work()"]


async def test_hooks_are_told_of_questions_at_their_own_request() -> None:
    requests: list[Request] = []
    hooks = Hooks(on_policy_evaluated=lambda event: requests.append(event.request))

    @tool(effect="read", policies=[gate("p")])
    async def work(number: int) -> None:
        """Work."""

    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(Agent("agent", tools=[work]), principal=WHO, env={"tier": "pro"}, hooks=hooks) as session,
    ):
        await session.call(work, 3)
    assert [
        (request.tool, request.arguments and dict(request.arguments), request.env["tier"]) for request in requests
    ] == [
        (None, None, "pro"),
        (work, {"number": 3}, "pro"),
    ]
