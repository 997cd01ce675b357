"""Containment: whatever a handler does, one sanitised error comes of it, and nothing else breaks (spec 3, K13)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import json
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Capability, Context, Progress, Reply, Tool, ToolError, tool
from capset.errors import (
    CapsetError,
    Conflict,
    DefinitionError,
    Field,
    FileError,
    ForeignAnswer,
    InternalError,
    InvalidArguments,
    InvalidOutput,
    NotFound,
    StoreError,
)
from capset_testing import session_for
from tests.helpers.kernel.support import ask, desk, read

reads = tool(effect="read", description="For a test.")
SHAPES = ("async", "sync", "stream")
SECRET = "hunter2 in /srv/private/keys.pem"


class Fatal(BaseException):
    """As KeyboardInterrupt is: nothing that a kernel may keep to itself."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    __repr__ = __str__


def failing(shape: str, fail: Callable[[], Any], effect: Any = "read") -> Tool[[], int]:
    async def in_async() -> int:
        """Fail."""
        await asyncio.sleep(0)
        return fail()

    def in_sync() -> int:
        """Fail."""
        return fail()

    async def in_stream() -> AsyncIterator[Progress | Reply[int]]:
        """Fail."""
        yield Progress(0.1, "before")
        yield Reply(fail())

    handlers: dict[str, Any] = {"async": in_async, "sync": in_sync, "stream": in_stream}
    return tool(name="fail", effect=effect)(handlers[shape])


def throw(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


UNEXPECTED: dict[str, Callable[[], BaseException]] = {
    "an exception": lambda: ValueError(SECRET),
    "of the system": lambda: FileNotFoundError(2, "No such file", "/srv/private/keys.pem"),
    "a timeout": lambda: TimeoutError(SECRET),
    "a group": lambda: ExceptionGroup(SECRET, [ValueError(SECRET), ExceptionGroup(SECRET, [KeyError(SECRET)])]),
    "a group with a tool's error": lambda: ExceptionGroup(SECRET, [ToolError("mine"), ValueError(SECRET)]),
    "a group with a cancellation": lambda: BaseExceptionGroup(SECRET, [ValueError(SECRET), asyncio.CancelledError()]),
    "a stray cancellation": lambda: asyncio.CancelledError(SECRET),
    "a cancelled future": lambda: concurrent.futures.CancelledError(SECRET),
    "StopIteration": lambda: StopIteration(SECRET),
    "StopAsyncIteration": lambda: StopAsyncIteration(SECRET),
    "no memory": lambda: MemoryError(SECRET),
    "what cannot be printed": Unprintable,
    "the end of the host": lambda: SystemExit(0),
    "an assertion": lambda: AssertionError(SECRET),
    "an error of a definition": lambda: DefinitionError(SECRET, hint=SECRET),
    "a conflict": lambda: Conflict(SECRET),
    "another server's answer": lambda: ForeignAnswer(SECRET),
    "an error of somebody's own": lambda: CapsetError(SECRET, fields=[Field(SECRET, SECRET)]),
    "a group with an error of ours": lambda: ExceptionGroup(SECRET, [ToolError("mine"), Conflict(SECRET)]),
}


@pytest.mark.spec("K13", "G4", "G24")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", UNEXPECTED)
async def test_what_nobody_expects_is_one_safe_error(case: str, shape: str, caplog: pytest.LogCaptureFixture) -> None:
    tool = failing(shape, throw(UNEXPECTED[case]()), effect="write")
    async with desk(tool) as opened:
        async with asyncio.timeout(60):
            *events, error = await ask(opened.session, "fail")
            result = await opened.session.try_call(tool)
        assert [event.kind for event in events] == (["event"] if shape == "stream" else [])
        assert error.kind == "error"
        assert error.data == {
            "code": "internal_error",
            "status": 500,
            "message": "The tool 'fail' failed unexpectedly; the log has the details.",
            "retryable": False,
            "correlation": error.meta and error.meta.correlation,
        }
        assert isinstance(result.error, InternalError)
        records = await opened.records()
        logged = [log_record for log_record in caplog.records if log_record.name == "capset.kernel"]
        assert len(records) == 2
        for record, log_record in zip(records, logged, strict=True):
            assert (record.outcome, record.code, record.decision) == ("failed", "internal_error", "allow")
            assert record.correlation in log_record.getMessage()
            assert log_record.exc_info
        assert "hunter2" not in repr(records) + str(result.error) + repr(result.error)


@pytest.mark.spec("K13")
@pytest.mark.parametrize("shape", ["async", "stream"])
@pytest.mark.parametrize("error", [Fatal(), BaseExceptionGroup("", [ValueError(), BaseExceptionGroup("", [Fatal()])])])
async def test_what_ends_the_interpreter_is_not_contained_but_recorded(error: BaseException, shape: str) -> None:
    tool = failing(shape, throw(error), effect="write")
    async with desk(tool) as opened:
        with pytest.raises(type(error)):
            await opened.session.call(tool)
        assert (await opened.record()).outcome == "cancelled"


@pytest.mark.spec("G4", "K13")
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_tools_own_error_is_told_word_for_word(shape: str, caplog: pytest.LogCaptureFixture) -> None:
    text = "Nothing is called 'x'.\nTry /notes/y; 5 < 6 & \"so\" 🌍"
    tool = failing(shape, throw(ToolError(text, code="no_such_note", status=409)))
    async with desk(tool) as opened:
        error = (await ask(opened.session, "fail"))[-1]
        assert (error.data["message"], error.data["code"], error.data["status"]) == (text, "no_such_note", 409)
        record = await opened.record()
        assert (record.outcome, record.code) == ("failed", "no_such_note")
    assert caplog.records == []


@pytest.mark.spec("G4")
@pytest.mark.parametrize("error", [NotFound("no"), FileError("no"), InvalidArguments("no"), InvalidOutput("no")])
async def test_an_error_of_ours_out_of_a_handler_is_the_handlers_failure_not_a_refusal(error: CapsetError) -> None:
    tool = failing("async", throw(error), effect="write")
    async with desk(tool) as opened:
        with pytest.raises(InvalidOutput if isinstance(error, InvalidOutput) else ToolError) as raised:
            await opened.session.call(tool)
        assert (raised.value.message, raised.value.code, raised.value.refusal) == ("no", error.code, False)
        assert (await opened.record()).outcome == "failed"


async def test_what_a_store_says_to_a_handler_stays_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    tool = failing("async", throw(StoreError("the database '/srv/private/capset.db' is locked")))
    async with desk(tool) as opened:
        (error,) = await ask(opened.session, "fail")
        assert (error.data["status"], error.data["code"]) == (503, "store_unavailable")
        assert "/srv" not in json.dumps(error.data)
    assert "/srv/private/capset.db" in caplog.text


@pytest.mark.spec("K10", "K9")
@pytest.mark.parametrize(
    "emissions",
    [
        *([Reply(1), Reply(2)], [Reply(1), Progress(0.5)]),
        *(["text"], [None], [Reply], [{"kind": "reply"}]),
        *([Progress(-0.1)], [Progress(1.1)], [Progress(float("nan"))]),
        [Progress("0.5")],  # pyright: ignore[reportArgumentType]
        [Progress(0.5, message=object())],  # pyright: ignore[reportArgumentType]
    ],
    ids=range(11),
)
async def test_what_a_stream_may_not_emit_is_one_error_that_ends_it(emissions: list[Any]) -> None:
    closed: list[bool] = []

    @reads
    async def emit() -> AsyncIterator[Progress | Reply[int]]:
        try:
            for emission in emissions:
                yield emission
            raise AssertionError("the stream went on")
        finally:
            closed.append(True)

    async with desk(emit) as opened:
        messages = await read(opened.session.stream(emit))
        assert [(message.kind, message.data["code"]) for message in messages] == [("error", "invalid_output")]
        assert closed == [True]
        assert (await opened.record()).outcome == "failed"


async def test_progress_is_text_that_every_wire_can_carry() -> None:
    @reads
    async def emit() -> AsyncIterator[Progress | Reply[int]]:
        yield Progress(1, "a\ud800b")

    async with desk(emit) as opened:
        (event,) = await read(opened.session.stream(emit))
        assert event.data == {"fraction": 1.0, "message": "a?b"}
        assert type(event.data["fraction"]) is float


async def test_sync_handlers_run_in_threads_with_the_callers_context_variables() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    barrier = threading.Barrier(3, timeout=5)

    @reads
    def where(ctx: Context, number: int) -> str:
        barrier.wait()
        assert threading.current_thread() is not threading.main_thread()
        inherited = variable.get()
        variable.set("changed by the handler")
        return f"{inherited} {number} {ctx.principal.id}"

    async with desk(where) as opened:
        variable.set("mine")
        results = await asyncio.gather(*(opened.session.call(where, number) for number in range(3)))
        assert results == [f"mine {number} user-1" for number in range(3)]
        assert variable.get() == "mine"


async def test_a_handler_may_be_given_as_an_iterator_that_is_no_generator() -> None:
    class Once:
        def __init__(self) -> None:
            self.left: list[Progress | Reply[int]] = [Progress(0.5), Reply(7)]

        def __aiter__(self) -> Once:
            return self

        async def __anext__(self) -> Progress | Reply[int]:
            if self.left:
                return self.left.pop(0)
            raise StopAsyncIteration

    @reads
    def iterate() -> AsyncIterator[Progress | Reply[int]]:
        return Once()

    async with desk(iterate) as opened:
        assert [message.kind for message in await read(opened.session.stream(iterate))] == ["event", "reply"]
        assert await opened.session.call(iterate) == 7


class Counts(BaseModel):
    hits: int = 0


@pytest.mark.spec("C33")
async def test_a_handler_that_cannot_wait_finds_the_state_that_other_calls_wrote() -> None:
    @tool
    async def count(ctx: Context) -> None:
        """Count one."""
        await ctx.state(Counts).increment("hits")

    @tool
    def show(ctx: Context) -> int:
        """Show the count."""
        return ctx.session.state.hits

    kit = Capability("kit", tools=[count, show], state={"session": Counts})
    async with session_for(kit) as opened:
        for hits in range(3):
            assert await opened.session.call(show) == hits
            await opened.session.call(count)
