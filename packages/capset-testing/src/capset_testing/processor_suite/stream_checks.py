"""Checks of emissions, and of a processor with a slow consumer or one that leaves (spec 3, K9, K13–K15)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from pydantic import BaseModel

from capset.definitions.calls.messages import Message
from capset.errors import InternalError, InvalidOutput, counted
from capset_testing.capability_suite.schema_fit import schema_violation
from capset_testing.processor_suite.subject import Arguments, ProcessorSubject, Promise, expect, run_ready_tasks

_MAX_WAITING: Final = 64
"""The maximum number of child tasks' emissions that wait at once; with more, the processor does not wait at all."""


async def it_fails_in_words(subject: ProcessorSubject) -> None:
    """For any valid data, the processor raises only ``ToolError``, or emits errors as messages."""
    for arguments in await subject.data():
        error = (await subject.run(arguments)).error
        is_thrown = isinstance(error, InternalError) and not isinstance(error, InvalidOutput)
        expect(
            not is_thrown,
            f"{subject.describe_call(arguments)}: expected a reply, or an error in its own words; it raised "
            f"{error and error.__cause__!r:.200}; raise ToolError, or emit a message of the kind error",
        )


async def every_emission_fits_its_outbound(subject: ProcessorSubject) -> None:
    """Every emission fits the outbound in kind and type, and its data fits the public JSON Schema."""
    schema = subject.tool.outbound
    contract = subject.contract
    emissions = [f"event {name!r}" for name in contract.events] + [f"reply {name!r}" for name in contract.replies]
    for arguments in await subject.data():
        run = await subject.run(arguments)
        expectation = (
            f"{subject.describe_call(arguments)}: expected only what its outbound has ({', '.join(emissions)})"
        )
        expect(
            not isinstance(run.error, InvalidOutput),
            f"{expectation}; got {_describe_emission(run.watch.last)}, so: {run.error and run.error.message} "
            "Emit instances of the outbound's models, nothing after the reply, or add what is missing to outbound=",
        )
        for message in run.messages:
            if message.kind != "error":
                problem = schema_violation(schema, _envelope(message)) and schema_violation(
                    schema, {**_envelope(message), "data": None}
                )
                expect(
                    problem is None, f"{expectation}; got {_describe_emission(message)}: {problem}; make the two agree"
                )


async def calls_leave_no_state_behind(subject: ProcessorSubject) -> None:
    """Check that the same data leads to messages of the same kinds and types, regardless of earlier calls."""
    for arguments in await subject.data():
        first, second = await subject.run(arguments), await subject.run(arguments)
        if first.is_cut is not second.is_cut:
            continue  # the point where it was cut is random
        expect(
            first.shape == second.shape,
            f"{subject.describe_call(arguments)}: expected the same messages of two calls in two new sessions; got "
            f"first {_shape_text(first.shape)}, then {_shape_text(second.shape)}; keep what lasts in ctx.state or a "
            "resource, or say is_repeatable=False if it depends on time or chance",
        )


def _envelope(message: Message) -> dict[str, Any]:
    envelope: dict[str, Any] = {"kind": message.kind, "type": message.type}
    return envelope if message.data is None else {**envelope, "data": message.data}


def _describe_emission(emission: Message | BaseModel | None) -> str:
    kind, named = getattr(emission, "kind", None), getattr(emission, "type", None)
    data = getattr(emission, "data", None)
    return f"{type(emission).__name__}(kind={kind!r}, type={named!r}, data={data!r:.200})"


def _shape_text(shape: list[tuple[str, str]]) -> str:
    names = [f"{kind} {named}" for kind, named in shape]
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "") or "nothing"


async def it_waits_for_its_consumer(subject: ProcessorSubject) -> None:
    """However long its consumer pauses, the processor does not pile up waiting emissions."""
    limit = subject.contract.buffer + 1
    for arguments in await subject.busiest_arguments():
        async with subject.open() as session:
            stream, watch = subject.stream(session, arguments)
            async with stream:
                for taken in range(10):
                    await run_ready_tasks()
                    expectation = f"{subject.describe_call(arguments)}: expected it to wait for its consumer"
                    expect(
                        not watch.dropped,
                        f"{expectation}; it called emit "
                        f"without awaiting it ({counted(len(watch.dropped), 'time')}), so "
                        "that nothing was sent; write await emit(…)",
                    )
                    waiting = watch.begun_count - taken - limit
                    expect(
                        waiting <= _MAX_WAITING,
                        f"{expectation}; {waiting} more of its emissions were under way after {taken} were "
                        f"taken; wait for some before there are more than {_MAX_WAITING}, as in a task group for each "
                        "batch, or await each emit",
                    )
                    if await subject.next_message(stream) is None:
                        break


async def leaving_ends_it(subject: ProcessorSubject) -> None:
    """Whenever its consumer leaves, the processor ends in time. It leaves no task behind, then or at its own end."""
    for arguments in await subject.busiest_arguments():
        for taken in (0, 1, 2, subject.max_messages):
            if await _check_leaving(subject, arguments, taken) < taken:
                break


async def _check_leaving(subject: ProcessorSubject, arguments: Arguments, count: int) -> int:
    """Take some messages, leave, and check for leftovers; return the number of messages."""
    clock, taken = asyncio.get_running_loop().time, 0
    async with subject.open() as session:
        stream, _ = subject.stream(session, arguments)
        before = asyncio.all_tasks()
        async with stream:
            while taken < count and await subject.next_message(stream) is not None:
                taken += 1
            await run_ready_tasks()
            left_at = clock()
        took = clock() - left_at
        await run_ready_tasks()
        leftovers = [task for task in asyncio.all_tasks() - before if not task.done()]
    label = f"{subject.describe_call(arguments)}, left after {counted(taken, 'message')}"
    expect(
        took <= subject.cleanup,
        f"{label}: expected it to end within {subject.cleanup:g} s; it took {took:.1f} s; let CancelledError through, "
        "and do no more in finally than is needed",
    )
    for task in leftovers:
        task.cancel()
    expect(
        not leftovers,
        f"{label}: expected no task of its own to be left; there are {', '.join(map(_task_name, leftovers))}; "
        "start tasks in an asyncio.TaskGroup",
    )
    return taken


def _task_name(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", task.get_name())


OF_EMISSIONS: Final[tuple[Promise, ...]] = (it_fails_in_words, every_emission_fits_its_outbound)
OF_REPEATABLE: Final[tuple[Promise, ...]] = (calls_leave_no_state_behind,)
ALWAYS: Final[tuple[Promise, ...]] = (it_waits_for_its_consumer, leaving_ends_it)
