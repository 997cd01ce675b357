"""Trying again: transient errors of idempotent tools that have said nothing yet (spec 4, G25)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from capset import Context, DefinitionError, Message, Progress, Reply, ToolError, handles, tool
from capset.definitions.governance.limits import Budget
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.retries import Retry
from capset.errors import DeadlineExceeded, InternalError, InvalidOutput, LimitExceeded, TransientError
from tests.helpers.kernel.streams.support import Done, Step, made
from tests.helpers.kernel.support import Desk, TappedStore, desk, read
from tests.waiting import until

pytestmark = pytest.mark.spec("G25")


class Flaky:
    """Tools that fail ``failures`` times, with ``error``, and then give how often they were started."""

    def __init__(self, failures: int, error: BaseException | None = None) -> None:
        self.failures = failures
        self.error = error or TransientError("the line was busy")
        self.starts = 0

    def start(self) -> int:
        self.starts += 1
        if self.starts <= self.failures:
            raise self.error
        return self.starts

    def tool(self, shape: str = "async", *, emits: bool = False, **options: Any) -> AnyTool:
        options = {"idempotent": True, "retry": Retry(3, base=0.0), **options}

        async def flaky() -> int:
            return self.start()

        async def stream() -> AsyncIterator[Progress | Reply[int]]:
            if emits:
                yield Progress(0.5)
            yield Reply(self.start())

        async def handle(message: Any, emit: Any, ctx: Context) -> None:
            if emits:
                await emit(Step(data=0))
            await emit(Done(data=self.start()))

        if shape == "processor":
            return made(handles(handle), name="flaky", **options)
        functions: dict[str, Any] = {"async": flaky, "sync": self.start, "stream": stream}
        return tool(name="flaky", description="Fail at first.", **options)(functions[shape])


async def outcome(opened: Desk, shape: str) -> Message:
    """Call the tool, and return what ended the call."""
    name, data = ("Work.Do", {"to": 1}) if shape == "processor" else ("flaky", {})
    return (await read(opened.session.invoke(Message("command", name, data))))[-1]


@pytest.mark.spec("G20")
@pytest.mark.parametrize("shape", ["async", "sync", "stream", "processor"])
async def test_a_tool_is_tried_again_until_it_works_or_has_no_attempt_left(shape: str, store: str) -> None:
    flaky = Flaky(2)
    async with desk(flaky.tool(shape), store=store) as opened:
        assert (await outcome(opened, shape)).data == 3
        flaky.failures = 99
        error = await outcome(opened, shape)
        assert (error.kind, error.data["code"], error.data["status"]) == ("error", "transient", 503)
        assert (error.data["message"], flaky.starts) == ("the line was busy", 6)
        records = [(record.outcome, record.attempts, record.code) for record in await opened.records()]
        assert records == [("succeeded", 3, None), ("failed", 3, "transient")]


@pytest.mark.parametrize("shape", ["stream", "processor"])
async def test_what_has_said_something_is_not_tried_again(shape: str) -> None:
    flaky = Flaky(1)
    async with desk(flaky.tool(shape, emits=True)) as opened:
        assert (await outcome(opened, shape)).data["code"] == "transient"
        assert (flaky.starts, (await opened.record()).attempts) == (1, 1)
        flaky.starts = 0
        name, data = ("Work.Do", {"to": 1}) if shape == "processor" else ("flaky", {})
        result = await opened.session.try_message(Message("command", name, data))
        assert isinstance(result.error, TransientError)
        assert flaky.starts == 1, "whether somebody listened makes no difference"


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        *[(error, Retry(3, base=0.0)) for error in (RuntimeError("broken"), InvalidOutput("odd"), TimeoutError())],
        (ToolError("no", code="transient", status=503), Retry(3, base=0.0)),
        (TransientError("the line was busy"), None),
    ],
)
async def test_only_transient_errors_are_tried_again_and_only_by_retry(error: Exception, retry: Retry | None) -> None:
    flaky = Flaky(1, error)
    flaky_tool = flaky.tool(retry=retry)
    async with desk(flaky_tool) as opened:
        result = await opened.session.try_call(flaky_tool)
        assert isinstance(result.error, ToolError | InternalError)
        assert (flaky.starts, (await opened.record()).attempts) == (1, 1)


async def test_every_attempt_has_the_arguments_that_were_given() -> None:
    flaky, attempts = Flaky(2), list[list[int]]()

    @tool(effect="read", idempotent=True, retry=Retry(3, base=0.0))
    async def eat(items: list[int]) -> int:
        """Empty the list, and fail twice."""
        attempts.append([*items])
        items.clear()
        return flaky.start()

    async with desk(eat) as opened:
        assert await opened.session.call(eat, [1, 2]) == 3
        assert attempts == [[1, 2]] * 3
        assert (await opened.record()).arguments == '{"items":[1,2]}'


@pytest.mark.parametrize("retry", [2, Retry(2)])
def test_a_tool_that_is_not_idempotent_is_never_tried_again(retry: Any) -> None:
    for shape in ("async", "processor"):
        with pytest.raises(DefinitionError, match="'flaky' is not idempotent"):
            Flaky(1).tool(shape, idempotent=False, retry=retry)


@pytest.mark.parametrize("deadline_owner", ["tool", "call"])
async def test_nobody_waits_beyond_the_deadline(deadline_owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset.kernel.call.stages.run.random.uniform", max)  # the longest that it may be
    timeout = 1_800 if deadline_owner == "tool" else None
    flaky_tool = Flaky(99).tool(retry=Retry(50, base=3_600, cap=3_600), timeout=timeout)
    async with desk(flaky_tool) as opened:
        session = opened.session.options(timeout=1_800) if deadline_owner == "call" else opened.session
        with pytest.raises(TransientError):  # at once, since no time would be left
            await session.call(flaky_tool)
        assert (await opened.record()).attempts == 1


async def test_an_attempt_that_is_late_ends_the_call() -> None:
    flaky = Flaky(1)

    @tool(effect="read", idempotent=True, retry=Retry(50, base=0.0), timeout=0.1)
    async def slow() -> int:
        """Fail once, then hang."""
        flaky.start()
        await asyncio.sleep(60)
        return 1

    async with desk(slow) as opened:
        with pytest.raises(DeadlineExceeded):
            await opened.session.call(slow)
        record = await opened.record()
        assert (record.outcome, record.attempts) == ("timed_out", 2)


async def test_the_pauses_are_random_up_to_a_bound_that_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        bounds.append((low, high))
        return 0.0

    monkeypatch.setattr("capset.kernel.call.stages.run.random.uniform", uniform)
    flaky_tool = Flaky(5).tool(retry=Retry(6, base=0.1, cap=0.5))
    async with desk(flaky_tool) as opened:
        assert await opened.session.call(flaky_tool) == 6
    assert bounds == [(0, 0.1), (0, 0.2), (0, 0.4), (0, 0.5), (0, 0.5)]


@pytest.mark.spec("G14")
async def test_a_call_counts_once_however_often_it_is_tried() -> None:
    flaky_tool = Flaky(2).tool(limits="2/1h")
    async with desk(flaky_tool) as opened:
        assert await opened.session.call(flaky_tool) == 3
        assert await opened.session.call(flaky_tool) == 4
        for session in (opened.session, opened.session.options(budget=Budget(calls=1))):
            with pytest.raises(LimitExceeded):
                await session.call(flaky_tool)
        assert [record.attempts for record in await opened.records()] == [3, 1, None, None]


@pytest.mark.spec("G23")
async def test_one_intent_stands_for_all_attempts() -> None:
    flaky, phases = Flaky(2), list[str]()
    flaky_tool = flaky.tool(effect="external")
    async with desk(flaky_tool, store=TappedStore(phases.append)) as opened:
        await opened.session.call(flaky_tool)
    assert (phases, flaky.starts) == (["intent", "outcome"], 3)


async def test_a_processor_of_a_duplex_stream_is_not_started_again() -> None:
    flaky = Flaky(1)
    async with desk(flaky.tool("processor")) as opened:
        async with opened.session.open("Work.Do") as stream:
            await stream.send({"to": 1})
            stream.finish()
            messages = [message async for message in stream]
        assert messages[-1].data["code"] == "transient"
        assert (flaky.starts, (await opened.record()).attempts) == (1, 1)


async def test_cancelling_ends_the_trying() -> None:
    flaky = Flaky(99)
    flaky_tool = flaky.tool(retry=Retry(50, base=60, cap=60))
    async with desk(flaky_tool) as opened:
        calling = asyncio.ensure_future(opened.session.call(flaky_tool))
        await until(lambda: flaky.starts)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await opened.records()
        assert flaky.starts == 1
