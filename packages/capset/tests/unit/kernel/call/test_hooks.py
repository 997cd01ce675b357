"""Whole traces of hooks: who is told of what, in which order; whatever hooks do, no outcome is another (F23)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
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
    Tool,
    ToolError,
    Toolkit,
    allow,
    compose,
    deny,
    dynamic_toolkit,
    evaluate,
    tool,
)
from capset.definitions.governance.hooks import PolicyEvaluated, ToolExecuted
from capset.errors import DeadlineExceeded, InternalError, InvalidArguments, NotFound, PermissionDenied
from capset.evaluation import containment
from tests.helpers.evaluation.things import Trace, make, says
from tests.helpers.kernel.support import Desk, read, too_late, turns

WHO = Principal("ada", permissions=["a:b"])
pytestmark = pytest.mark.spec("F23")


@pytest.fixture
def trace() -> Trace:
    return Trace()


@asynccontextmanager
async def opened(agent: Agent | Tool[..., Any], hooks: Hooks | None = None, **options: Any) -> AsyncGenerator[Desk]:
    """Open a session of an agent, or of one that has a tool alone."""
    opened_agent = agent if isinstance(agent, Agent) else Agent("agent", tools=[agent])
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(opened_agent, principal=WHO, hooks=hooks, **options) as session,
    ):
        yield Desk(kernel, session)


def everything(trace: Trace) -> tuple[Agent, Any]:
    """Return an agent with hooks and a gate at every level, and its one tool."""

    @tool(effect="read", policies=[says("p-tool", True)], hooks=trace.hooks("tool"))
    async def work(number: int) -> int:
        """Work."""
        return number

    inner = Toolkit("inner", [work], policies=[says("p-inner", True)], hooks=trace.hooks("inner"))
    outer = Toolkit("outer", [inner], policies=[says("p-outer", True)], hooks=trace.hooks("outer"))
    preset = Preset(tools=[outer], policies=[says("p-preset", True)], hooks=trace.hooks("preset"))
    capability = Capability(
        "kit", presets={"more": preset}, default=["more"], policies=[says("p-kit", True)], hooks=trace.hooks("kit")
    )
    agent = Agent("agent", uses=[capability], policies=[says("p-agent", True)], hooks=trace.hooks("agent"))
    return agent, work


LEVELS = ["agent", "kit", "preset", "outer", "inner", "tool"]
OWNERS = {"agent": "agent", "kit": "kit", "preset": "kit", "outer": "outer", "inner": "inner", "tool": "work"}
ASKED = [
    f"{teller} p-{level}@{OWNERS[level]} allow"
    for depth, level in enumerate(LEVELS, start=1)
    for teller in [*LEVELS[:depth], "run"]
]


async def test_policies_and_calls_are_told_of_to_what_stands_around_them_then_to_the_run(trace: Trace) -> None:
    agent, work = everything(trace)
    await evaluate(compose(agent), principal=WHO)
    assert trace.take() == [line for line in ASKED if not line.startswith("run")]
    async with opened(agent, trace.hooks("run")) as desk:
        assert trace.take() == ASKED
        for _ in range(2):
            assert await desk.session.call(work, 7) == 7
            assert trace.take() == [*ASKED, *(f"{teller} work()" for teller in [*LEVELS, "run"])]
        record = (await desk.records())[0]
    event = trace.executed[0]
    assert (event.tool, event.name, dict(event.arguments), event.result) == (work, "work", {"number": 7}, 7)
    assert (event.error, event.principal, event.session) == (None, WHO, desk.session.id)
    assert (event.record, event.correlation, event.duration_us) == (record.id, record.correlation, record.duration_us)
    request = trace.asked[-1].request
    assert (request.tool, request.arguments) == (work, {"number": 7})


async def test_a_shared_policy_is_told_of_once_and_to_its_first_owner(trace: Trace) -> None:
    shared = says("shared", True)

    def kit(name: str) -> Toolkit:
        work = make(f"{name}_tool", shared, hooks=trace.hooks(f"{name}-tool"))
        return Toolkit(name, [work], hooks=trace.hooks(name), policies=[shared] if name == "second" else [])

    async with opened(Agent("agent", tools=[kit("first"), kit("second")])) as desk:
        assert trace.take() == ["first shared@first_tool allow", "first-tool shared@first_tool allow"]
        await desk.session.call(desk.session.snapshot.tools["second_tool"].tool)
        assert trace.take() == ["second shared@second allow", "second second_tool()", "second-tool second_tool()"]


async def test_the_hooks_around_one_way_are_not_around_the_gates_of_the_other(trace: Trace) -> None:
    work = make("work", hooks=trace.hooks("tool"))
    kits = [Toolkit(name, [work], policies=[says(f"p-{name}", True)], hooks=trace.hooks(name)) for name in ("a", "b")]
    async with opened(Agent("agent", tools=kits)) as desk:
        evaluations = ["a p-a@a allow", "b p-b@b allow"]
        assert trace.take() == evaluations
        await desk.session.call(work)
        assert trace.take() == [*evaluations, "a work()", "b work()", "tool work()"]


async def test_one_object_in_several_places_is_told_once(trace: Trace) -> None:
    hooks = trace.hooks("hooks")
    work = make("work", says("p", True), hooks=hooks)
    agent = Agent("agent", tools=[Toolkit("kit", [work], hooks=trace.hooks("inner"))], hooks=hooks)
    async with opened(agent, hooks) as desk:
        evaluations = ["hooks p@work allow", "inner p@work allow"]
        assert trace.take() == evaluations
        await desk.session.call(work)
        assert trace.take() == [*evaluations, "hooks work()", "inner work()"]


async def test_what_dynamic_toolkits_make_is_told_as_if_it_had_always_been_there(trace: Trace) -> None:
    made = make("made", says("p-made", True), hooks=trace.hooks("made"))

    @dynamic_toolkit(policies=[says("p-kit", True)], hooks=trace.hooks("kit"))
    def kit(context: object) -> list[Any]:
        return [made]

    async with opened(Agent("agent", tools=[kit], hooks=trace.hooks("agent")), trace.hooks("run")) as desk:
        evaluations = [f"{teller} p-kit@kit allow" for teller in ("agent", "kit", "run")]
        evaluations += [f"{teller} p-made@made allow" for teller in ("agent", "kit", "made", "run")]
        assert trace.take() == evaluations
        await desk.session.call(made)
        assert trace.take() == [*evaluations, *(f"{teller} made()" for teller in ("agent", "kit", "made", "run"))]


async def test_nested_calls_are_told_of_inside_out(trace: Trace) -> None:
    inner = make("inner", hooks=trace.hooks("inner"))

    @tool(effect="read", hooks=trace.hooks("outer"))
    async def outer(ctx: Context) -> str:
        """Be around."""
        return await ctx.call(inner)

    async with opened(Agent("agent", tools=[inner, outer]), trace.hooks("run")) as desk:
        assert await desk.session.call(outer) == "inner"
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
async def test_a_call_that_fails_is_told_of_with_its_error(how: str, error: type[Exception], trace: Trace) -> None:
    async with opened(fails, trace.hooks("run")) as desk:
        result = await desk.session.options(timeout=0.05).try_call(fails, how)
        (event,) = trace.executed
        assert isinstance(event.error, error)
        assert event.error is result.error
        assert event.result is None
        assert "hunter2" not in event.error.message


async def test_a_call_that_never_reached_its_handler_is_no_execution(trace: Trace) -> None:
    denied, barred = make("denied", says("late", deny("no"), phase="call")), make("barred", permissions=["c:d"])
    agent = Agent("agent", tools=[denied, barred, make("slow")])
    async with opened(agent, trace.hooks("run")) as desk:
        for name, arguments, error in (
            ("denied", {}, PermissionDenied),
            ("barred", {}, PermissionDenied),
            ("slow", {"number": 1}, InvalidArguments),
            ("unknown", {}, NotFound),
        ):
            result = await desk.session.try_message(desk.session.message(name, arguments))
            assert type(result.error) is error
        assert isinstance((await too_late(desk.session, make("slow"))).error, DeadlineExceeded)
        assert trace.take() == ["run late@denied deny"]
        assert len(await desk.records()) == 5


async def test_a_streamed_call_is_told_of_once_it_is_on_record_and_before_its_reader_is_done(trace: Trace) -> None:
    @tool(effect="read")
    async def streams() -> AsyncIterator[Progress | Reply[int]]:
        """Stream."""
        yield Progress(0.5)
        yield Reply(3)

    async with opened(streams, trace.hooks("run")) as desk:
        messages = await read(desk.session.stream(streams))
        assert [message.kind for message in messages] == ["event", "reply"]
        assert (trace.take(), trace.executed[0].result) == (["run streams()"], 3)


async def test_a_cancelled_call_is_on_record_and_nobody_is_told(trace: Trace) -> None:
    async with opened(fails, trace.hooks("run")) as desk:
        call = asyncio.create_task(desk.session.call(fails, "hang"))
        await turns()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert trace.executed == []
        assert (await desk.record()).outcome == "cancelled"


def hashes(hooks: Hooks | None, run: Hooks | None) -> set[str]:
    dynamic_kit = dynamic_toolkit(name="made", hooks=hooks)(lambda context: [])
    kit = Toolkit("kit", [make("work", says("p", True), hooks=hooks), dynamic_kit], hooks=hooks)
    preset = Preset(tools=[kit], hooks=hooks)
    capability = Capability("c", tools=[kit], hooks=hooks, presets={"p": preset}, default=["p"])
    composition = compose(Agent("a", uses=[capability], tools=[kit], hooks=hooks))
    snapshot = asyncio.run(evaluate(composition, principal=WHO, hooks=run))
    tool_hashes = [ref.hash for ref in snapshot.tool_refs]
    return {snapshot.static_hash, snapshot.runtime_hash, snapshot.prompt_hash, *tool_hashes}


@pytest.mark.spec("F11")
def test_no_hash_covers_a_hook() -> None:
    hooks = Hooks(on_tool_executed=print, on_policy_evaluated=print)
    assert hashes(None, None) == hashes(hooks, None) == hashes(None, hooks) == hashes(hooks, hooks)


async def test_a_policy_that_is_not_asked_is_not_told_of(trace: Trace) -> None:
    held, only = says("held", allow(), binding="snapshot"), says("only", True, phase="evaluate")
    at_calls = Policy("call", lambda request: request.tool is not None, phase="call")
    work = make("work", held, only, at_calls)
    async with opened(work, trace.hooks("run")) as desk:
        assert trace.take() == ["run held@work allow", "run only@work allow"]
        await desk.session.call(work)
        assert trace.take() == ["run call@work allow", "run work()"]


async def test_hooks_are_told_of_questions_at_their_own_request() -> None:
    requests: list[Request] = []
    hooks = Hooks(on_policy_evaluated=lambda event: requests.append(event.request))

    @tool(effect="read", policies=[says("p", True)])
    async def work(number: int) -> None:
        """Work."""

    async with opened(work, hooks, env={"tier": "pro"}) as desk:
        await desk.session.call(work, 3)
    told = [(request.tool, request.arguments, request.env["tier"]) for request in requests]
    assert told == [(None, None, "pro"), (work, {"number": 3}, "pro")]


def raises_now(event: object) -> None:
    raise RuntimeError


async def raises_later(event: object) -> None:
    await asyncio.sleep(0)
    raise RuntimeError


async def cancels(event: object) -> None:
    raise asyncio.CancelledError


def exits(event: object) -> None:
    raise SystemExit(3)


async def hangs(event: object) -> None:
    await asyncio.sleep(60)


def answers(event: object) -> Any:
    return "something"


class Callable_:
    def __call__(self, event: object) -> None:
        raise RuntimeError


@pytest.mark.parametrize("hook", [raises_now, raises_later, cancels, exits, hangs, answers, Callable_()])
async def test_a_hook_that_fails_is_logged_by_name_and_changes_nothing(
    hook: Any, trace: Trace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containment, "HOOK_SECONDS", 0.02)
    hooks = Hooks(on_policy_evaluated=hook, on_tool_executed=hook)
    work = make("work", says("p", True), effect="write", hooks=hooks)
    async with opened(work, trace.hooks("run")) as desk:
        assert await desk.session.call(work) == "work"
        told = ["run p@work allow", "run p@work allow", "run work()"]
        assert trace.take() == told, "the next ones are told all the same"
        assert (await desk.record()).outcome == "succeeded"
    name = getattr(hook, "__name__", "Callable_")
    logged = [log_record.getMessage() for log_record in caplog.records if log_record.name == "capset.hooks"]
    events = ("PolicyEvaluated", "PolicyEvaluated", "ToolExecuted")
    assert logged == [f"the hook {name} failed on {event}" for event in events]
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_a_hook_that_takes_its_cancellation_for_an_end_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def swallows(event: object) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

    monkeypatch.setattr(containment, "HOOK_SECONDS", 0.02)
    async with opened(fails, Hooks(on_tool_executed=swallows)) as desk:
        assert isinstance((await desk.session.try_call(fails, "tool error")).error, ToolError)


async def test_a_cancellation_from_outside_is_not_a_hooks_failure(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(fails, Hooks(on_tool_executed=hangs)) as desk:
        call = asyncio.create_task(desk.session.try_call(fails, "tool error"))
        await turns(50)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await desk.record()).outcome == "failed", "it had ended before"
    assert [log_record for log_record in caplog.records if log_record.name == "capset.hooks"] == []


async def test_hooks_cannot_change_what_is_decided_of_or_done() -> None:
    def meddle(event: PolicyEvaluated | ToolExecuted) -> None:
        if isinstance(event, ToolExecuted):
            with pytest.raises(TypeError):
                event.arguments["numbers"] = []  # pyright: ignore[reportIndexIssue]
        elif event.request.arguments is not None:
            event.request.arguments["numbers"].append(99)

    @tool(effect="read", policies=[says("p", True)], hooks=Hooks(on_policy_evaluated=meddle, on_tool_executed=meddle))
    async def work(numbers: list[int]) -> int:
        """Work."""
        return sum(numbers)

    async with opened(work) as desk:
        assert await desk.session.call(work, [1, 2]) == 3
        assert "99" not in (await desk.record()).arguments
