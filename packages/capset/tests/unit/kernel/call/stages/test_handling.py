"""Containment: whatever a handler does, one sanitised error comes of it, and nothing else breaks (spec 3, K13)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import json
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import pytest

from capset import Context, Progress, Reply, Tool, ToolError, tool
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
from tests.helpers.kernel.support import ask, desk, read, turns

Shape = Literal["async", "sync", "stream"]
SHAPES: tuple[Shape, ...] = ("async", "sync", "stream")
SECRET = "hunter2 in /srv/private/keys.pem"


class Fatal(BaseException):
    """As KeyboardInterrupt is: nothing that a kernel may keep to itself."""


class Unasked(CapsetError):
    code = "unasked"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    __repr__ = __str__


def failing(shape: Shape, fail: Callable[[], Any], effect: Any = "read") -> Tool[[], int]:
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

    handlers: dict[Shape, Any] = {"async": in_async, "sync": in_sync, "stream": in_stream}
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
    "an error of somebody's own": lambda: Unasked(SECRET, fields=[Field(SECRET, SECRET)]),
    "a group with an error of ours": lambda: ExceptionGroup(SECRET, [ToolError("mine"), Conflict(SECRET)]),
}


@pytest.mark.spec("K13", "G4", "G24")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", UNEXPECTED)
async def test_what_nobody_expected_is_one_sanitised_error(
    case: str, shape: Shape, caplog: pytest.LogCaptureFixture
) -> None:
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
        assert [(record.outcome, record.code, record.decision) for record in records] == [
            ("failed", "internal_error", "allow")
        ] * 2
        assert "hunter2" not in repr(records) + str(result.error) + repr(result.error)
        logged = [log_record for log_record in caplog.records if log_record.name == "capset.kernel"]
        assert [
            record.correlation in one_log.getMessage() for record, one_log in zip(records, logged, strict=True)
        ] == [True] * 2
        assert all(log_record.exc_info for log_record in logged)


@pytest.mark.spec("K13")
@pytest.mark.parametrize("shape", ["async", "stream"])
@pytest.mark.parametrize(
    "error",
    [Fatal(), BaseExceptionGroup("", [ValueError(), BaseExceptionGroup("", [Fatal()])])],
    ids=["alone", "grouped"],
)
async def test_what_ends_the_interpreter_is_not_contained_but_recorded(error: BaseException, shape: Shape) -> None:
    tool = failing(shape, throw(error), effect="write")
    async with desk(tool) as opened:
        with pytest.raises(type(error)):
            await opened.session.call(tool)
        assert (await opened.record()).outcome == "cancelled"


@pytest.mark.spec("G4", "K13")
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_tools_own_error_is_told_word_for_word(shape: Shape, caplog: pytest.LogCaptureFixture) -> None:
    text = "Nothing is called 'x'.\nTry /notes/y; 5 < 6 & \"so\" 🌍"
    tool = failing(shape, throw(ToolError(text, code="no_such_note", status=409)))
    async with desk(tool) as opened:
        error = (await ask(opened.session, "fail"))[-1]
        assert (error.data["message"], error.data["code"], error.data["status"]) == (text, "no_such_note", 409)
        record = await opened.record()
        assert (record.outcome, record.code) == ("failed", "no_such_note")
    assert caplog.records == []


@pytest.mark.spec("G4")
@pytest.mark.parametrize("error", [NotFound("no"), FileError("no"), InvalidArguments("no")], ids=repr)
async def test_an_error_of_ours_out_of_a_handler_is_the_handlers_failure_not_a_refusal(error: CapsetError) -> None:
    tool = failing("async", throw(error), effect="write")
    async with desk(tool) as opened:
        result = await opened.session.try_call(tool)
        assert isinstance(result.error, ToolError)
        assert (result.error.message, result.error.code, result.error.refusal) == ("no", error.code, False)
        assert (await opened.record()).outcome == "failed"


async def test_what_a_store_says_to_a_handler_stays_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    tool = failing("async", throw(StoreError("the database '/srv/private/capset.db' is locked")))
    async with desk(tool) as opened:
        (error,) = await ask(opened.session, "fail")
        assert (error.data["status"], error.data["code"]) == (503, "store_unavailable")
        assert "/srv" not in json.dumps(error.data)
    assert "/srv/private/capset.db" in caplog.text


@pytest.mark.spec("K13")
async def test_a_failure_leaves_other_calls_alone() -> None:
    gate = asyncio.Event()

    @tool(effect="read")
    async def wait(number: int) -> int:
        """Wait, or fail."""
        if number % 3 == 0:
            raise ValueError(number)
        await gate.wait()
        return number

    async with desk(wait) as opened:
        calls = [asyncio.create_task(opened.session.try_call(wait, number)) for number in range(30)]
        await turns()
        gate.set()
        results = await asyncio.gather(*calls)
        assert [result.data for result in results] == [number if number % 3 else None for number in range(30)]
        outcomes = [record.outcome for record in await opened.records()]
        assert (outcomes.count("failed"), outcomes.count("succeeded")) == (10, 20)


@pytest.mark.spec("K13")
async def test_what_was_emitted_before_a_failure_stays_delivered() -> None:
    @tool(effect="read")
    async def count() -> AsyncIterator[Progress | Reply[int]]:
        """Count, and fail."""
        yield Progress(0.1, "one")
        yield Progress(0.2, "two")
        raise ValueError(SECRET)

    async with desk(count) as opened:
        messages = await read(opened.session.stream(count))
        assert [(message.kind, message.data.get("message")) for message in messages[:2]] == [
            ("event", "one"),
            ("event", "two"),
        ]
        assert messages[2].kind == "error"


@pytest.mark.spec("K10", "K9")
@pytest.mark.parametrize(
    "emissions",
    [
        [Reply(1), Reply(2)],
        [Reply(1), Progress(0.5)],
        ["text"],
        [None],
        [Reply],
        [{"kind": "reply"}],
        [Progress(-0.1)],
        [Progress(1.1)],
        [Progress(float("nan"))],
        [Progress("0.5")],  # pyright: ignore[reportArgumentType]
        [Progress(0.5, message=object())],  # pyright: ignore[reportArgumentType]
    ],
    ids=range(11),
)
async def test_what_a_stream_may_not_emit_is_one_error_that_ends_it(emissions: list[Any]) -> None:
    closed: list[bool] = []

    @tool(effect="read")
    async def emit() -> AsyncIterator[Progress | Reply[int]]:
        """Emit."""
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
    @tool(effect="read")
    async def emit() -> AsyncIterator[Progress | Reply[int]]:
        """Emit."""
        yield Progress(1, "a\ud800b")

    async with desk(emit) as opened:
        (event,) = await read(opened.session.stream(emit))
        assert event.data == {"fraction": 1.0, "message": "a?b"}
        assert type(event.data["fraction"]) is float


async def test_sync_handlers_run_in_threads_with_the_callers_context_variables() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    barrier = threading.Barrier(3, timeout=5)

    @tool(effect="read")
    def where(ctx: Context, number: int) -> str:
        """Say where this runs; three at once."""
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


async def test_invoke_runs_async_handlers_in_the_callers_task_and_streams_in_one_of_the_kernels() -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    @tool(effect="read")
    async def where() -> int:
        """Say where this runs."""
        tasks.append(asyncio.current_task())
        return 1

    async with desk(where) as opened:
        await opened.session.call(where)
        await read(opened.session.stream(where))
    assert tasks[0] is asyncio.current_task()
    assert tasks[1] is not asyncio.current_task()


async def test_a_handler_may_be_given_as_an_iterator_that_is_no_generator() -> None:
    class Once:
        def __init__(self) -> None:
            self.left: list[Progress | Reply[int]] = [Reply(7), Progress(0.5)]

        def __aiter__(self) -> Once:
            return self

        async def __anext__(self) -> Progress | Reply[int]:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    @tool(effect="read")
    def iterate() -> AsyncIterator[Progress | Reply[int]]:
        """Iterate."""
        return Once()

    async with desk(iterate) as opened:
        assert [message.kind for message in await read(opened.session.stream(iterate))] == ["event", "reply"]
        assert await opened.session.call(iterate) == 7


async def test_a_wrong_reply_by_name_of_a_raised_error_of_output_keeps_its_code() -> None:
    tool = failing("async", throw(InvalidOutput("shaped by hand")))
    async with desk(tool) as opened, asyncio.timeout(60):
        assert (await ask(opened.session, "fail"))[0].data["code"] == "invalid_output"
