"""Trying again: transient errors of idempotent tools that have said nothing yet (spec 4, G25)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from capset import Agent, Capability, Context, DefinitionError, Message, Principal, Progress, Reply, ToolError, tool
from capset.definitions.governance.limits import Budget
from capset.definitions.tools.definition import AnyTool, Tool
from capset.definitions.tools.retries import Retry
from capset.errors import DeadlineExceeded, InternalError, InvalidOutput, LimitExceeded, TransientError
from capset.kernel.kernel import Kernel
from tests.helpers.kernel.streams.support import Done, Step, made
from tests.helpers.kernel.support import Desk, TappedStore, ask, desk, read
from tests.waiting import until

SHAPES = ("async", "sync", "stream", "processor")


class Flaky:
    """Tools that fail ``failures`` times, with ``error``, and then give how often they were started."""

    def __init__(self, failures: int, error: BaseException | None = None) -> None:
        self.failures = failures
        self.error = error or TransientError("the line was busy")
        self.started: list[float] = []

    def start(self) -> int:
        """Count one start."""
        self.started.append(time.monotonic())
        if len(self.started) <= self.failures:
            raise self.error
        return len(self.started)

    def tool(self, shape: str = "async", *, emits: bool = False, **options: Any) -> AnyTool:
        """Return the tool of a shape; where it ``emits``, it says something before it fails."""
        options = {"idempotent": True, "retry": Retry(3, base=0.0), **options}

        async def flaky() -> int:
            """Fail at first."""
            return self.start()

        def flaky_sync() -> int:
            """Fail at first."""
            return self.start()

        async def flaky_stream() -> AsyncIterator[Progress | Reply[int]]:
            """Fail at first."""
            if emits:
                yield Progress(0.5)
            yield Reply(self.start())

        async def process(messages: Any, emit: Any, ctx: Context) -> None:
            async for _ in messages:
                if emits:
                    await emit(Step(data=0))
                await emit(Done(data=self.start()))

        if shape == "processor":
            return made(lambda: process, name="flaky", **options)
        function: Any = {"async": flaky, "sync": flaky_sync, "stream": flaky_stream}[shape]
        return tool(name="flaky", **options)(function)


async def outcome(opened: Desk, shape: str) -> Message:
    """Call the tool, and return what ended the call."""
    if shape == "processor":
        return (await read(opened.session.invoke(Message("command", "Work.Do", {"to": 1}))))[-1]
    return (await ask(opened.session, "flaky"))[-1]


@pytest.mark.spec("G25")
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_tool_of_every_shape_is_tried_again_until_it_works(shape: str, store: str) -> None:
    flaky = Flaky(2)
    async with desk(flaky.tool(shape), store=store) as opened:
        assert (await outcome(opened, shape)).data == 3
        record = await opened.record()
        assert (record.outcome, record.attempts, record.code) == ("succeeded", 3, None)


@pytest.mark.spec("G25", "G20")
@pytest.mark.parametrize("shape", SHAPES)
async def test_after_the_last_attempt_its_error_is_the_call_s(shape: str) -> None:
    flaky = Flaky(99)
    async with desk(flaky.tool(shape)) as opened:
        error = await outcome(opened, shape)
        assert (error.kind, error.data["code"], error.data["status"]) == ("error", "transient", 503)
        assert error.data["message"] == "the line was busy"
        assert len(flaky.started) == 3
        record = await opened.record()
        assert (record.outcome, record.attempts, record.code) == ("failed", 3, "transient")


@pytest.mark.spec("G25")
@pytest.mark.parametrize("shape", ["stream", "processor"])
async def test_what_has_said_something_is_not_tried_again(shape: str) -> None:
    flaky = Flaky(1)
    async with desk(flaky.tool(shape, emits=True)) as opened:
        assert (await outcome(opened, shape)).data["code"] == "transient"
        assert (len(flaky.started), (await opened.record()).attempts) == (1, 1)
    unheard = Flaky(1)
    async with desk(unheard.tool(shape, emits=True)) as opened:
        name, data = ("Work.Do", {"to": 1}) if shape == "processor" else ("flaky", {})
        result = await opened.session.try_message(Message("command", name, data))
        assert isinstance(result.error, TransientError)
        assert len(unheard.started) == 1, "whether somebody listened makes no difference"


@pytest.mark.spec("G25")
@pytest.mark.parametrize(
    "error",
    [ToolError("no", code="transient", status=503), RuntimeError("broken"), InvalidOutput("odd"), TimeoutError()],
)
async def test_only_transient_errors_are_tried_again(error: Exception) -> None:
    flaky = Flaky(1, error)
    async with desk(flaky.tool()) as opened:
        result = await opened.session.try_call(flaky_of(opened))
        assert isinstance(result.error, ToolError | InternalError)
        assert (len(flaky.started), (await opened.record()).attempts) == (1, 1)


def flaky_of(opened: Desk) -> Tool[[], int]:
    return opened.session.snapshot.tools["flaky"].tool


@pytest.mark.spec("G25")
async def test_every_attempt_has_the_arguments_that_were_given() -> None:
    attempts: list[list[int]] = []

    @tool(effect="read", idempotent=True, retry=Retry(3, base=0.0))
    async def eat(items: list[int]) -> int:
        """Empty the list, and fail twice."""
        attempts.append([*items])
        items.clear()
        if len(attempts) < 3:
            raise TransientError("busy")
        return len(attempts)

    async with desk(eat) as opened:
        assert await opened.session.call(eat, [1, 2]) == 3
        assert attempts == [[1, 2]] * 3
        assert (await opened.record()).arguments == '{"items":[1,2]}'


@pytest.mark.spec("G25")
async def test_without_retry_a_transient_error_is_the_end() -> None:
    flaky = Flaky(1)
    async with desk(flaky.tool(retry=None)) as opened:
        with pytest.raises(TransientError):
            await opened.session.call(flaky_of(opened))
        assert (len(flaky.started), (await opened.record()).attempts) == (1, 1)


@pytest.mark.spec("G25")
@pytest.mark.parametrize("retry", [2, Retry(2)])
def test_a_tool_that_is_not_idempotent_cannot_have_it(retry: Any) -> None:
    with pytest.raises(DefinitionError, match="tool 'flaky' is not idempotent, so it is never tried again"):
        Flaky(1).tool(idempotent=False, retry=retry)
    with pytest.raises(DefinitionError, match="not idempotent"):
        Flaky(1).tool("processor", idempotent=False, retry=retry)


@pytest.mark.spec("G25")
@pytest.mark.parametrize("deadline_owner", ["tool", "call"])
async def test_nobody_waits_beyond_the_deadline(deadline_owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "capset.kernel.call.stages.run.random.uniform", lambda low, high: high
    )  # the longest that it may be
    flaky = Flaky(99)
    flaky_tool = flaky.tool(retry=Retry(50, base=3_600, cap=3_600), timeout=1_800 if deadline_owner == "tool" else None)
    async with desk(flaky_tool) as opened:
        session = opened.session.options(timeout=1_800) if deadline_owner == "call" else opened.session
        with pytest.raises(TransientError):  # at once, since no time would be left
            await session.call(flaky_tool)
        assert (await opened.record()).attempts == 1


@pytest.mark.spec("G25")
async def test_an_attempt_that_is_late_ends_the_call() -> None:
    started: list[int] = []

    @tool(effect="read", idempotent=True, retry=Retry(50, base=0.0), timeout=0.1)
    async def slow() -> int:
        """Fail once, then hang."""
        started.append(1)
        if len(started) == 1:
            raise TransientError("busy")
        await asyncio.sleep(60)
        return 1

    async with desk(slow) as opened:
        with pytest.raises(DeadlineExceeded):
            await opened.session.call(slow)
        record = await opened.record()
        assert (record.outcome, record.attempts) == ("timed_out", 2)


@pytest.mark.spec("G25")
async def test_the_pauses_are_random_up_to_a_bound_that_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        bounds.append((low, high))
        return 0.0

    monkeypatch.setattr("capset.kernel.call.stages.run.random.uniform", uniform)
    flaky = Flaky(5)
    async with desk(flaky.tool(retry=Retry(6, base=0.1, cap=0.5))) as opened:
        assert await opened.session.call(flaky_of(opened)) == 6
    assert bounds == [(0, 0.1), (0, 0.2), (0, 0.4), (0, 0.5), (0, 0.5)]


@pytest.mark.spec("G14", "G25")
async def test_a_call_counts_once_however_often_it_is_tried() -> None:
    flaky = Flaky(2)
    async with desk(flaky.tool(limits="2/1h")) as opened:
        flaky_tool = flaky_of(opened)
        assert await opened.session.call(flaky_tool) == 3
        assert await opened.session.call(flaky_tool) == 4
        with pytest.raises(LimitExceeded):
            await opened.session.call(flaky_tool)
        spending = opened.session.options(budget=Budget(calls=1))
        with pytest.raises(LimitExceeded):
            await spending.call(flaky_tool)
        assert [record.attempts for record in await opened.records()] == [3, 1, None, None]


@pytest.mark.spec("G23", "G25")
async def test_one_intent_stands_for_all_attempts() -> None:
    flaky, phases = Flaky(2), list[str]()
    flaky_tool = flaky.tool(effect="external")
    async with desk(flaky_tool, store=TappedStore(phases.append)) as opened:
        await opened.session.call(flaky_tool)
    assert (phases, len(flaky.started)) == (["intent", "outcome"], 3)


@pytest.mark.spec("G25")
async def test_a_processor_of_a_duplex_stream_is_not_started_again() -> None:
    flaky = Flaky(1)
    async with desk(flaky.tool("processor")) as opened:
        async with opened.session.open("Work.Do") as stream:
            await stream.send({"to": 1})
            stream.finish()
            messages = [message async for message in stream]
        assert messages[-1].data["code"] == "transient"
        assert (len(flaky.started), (await opened.record()).attempts) == (1, 1)


@pytest.mark.spec("G25")
async def test_cancelling_ends_the_trying() -> None:
    flaky = Flaky(99)
    flaky_tool = flaky.tool(retry=Retry(50, base=60, cap=60))
    agent = Agent("tester", uses=[Capability("kit", tools=[flaky_tool])])
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=Principal("ada")) as session:
        calling = asyncio.ensure_future(session.call(flaky_tool))
        await until(lambda: flaky.started)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await kernel.audit.flush()
        assert len(flaky.started) == 1
