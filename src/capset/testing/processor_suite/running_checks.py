"""Checks of emissions: they match the outbound, errors are messages, and calls share no state (spec 3, K9, K13)."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from capset.definitions.messages import Message
from capset.errors import InternalError, InvalidOutput
from capset.testing.capability_suite.schema_fit import misfit
from capset.testing.processor_suite.subject import ProcessorSubject, Promise, expect


async def it_fails_in_words(subject: ProcessorSubject) -> None:
    """For any valid data, it raises only ``ToolError``, and errors are emitted as messages."""
    for arguments in await subject.data():
        error = (await subject.run(arguments)).error
        is_thrown = isinstance(error, InternalError) and not isinstance(error, InvalidOutput)
        expect(
            not is_thrown,
            f"{subject.told(arguments)}: expected a reply, or an error in its own words; it raised "
            f"{error and error.__cause__!r:.200}; raise ToolError, or emit a message of the kind error",
        )


async def every_emission_fits_its_outbound(subject: ProcessorSubject) -> None:
    """By its kind and type, and by its data against the public JSON Schema."""
    schema = subject.tool.outbound
    contract = subject.contract
    there = [f"event {name!r}" for name in contract.events] + [f"reply {name!r}" for name in contract.replies]
    for arguments in await subject.data():
        run = await subject.run(arguments)
        what = f"{subject.told(arguments)}: expected only what its outbound has ({', '.join(there)})"
        expect(
            not isinstance(run.error, InvalidOutput),
            f"{what}; got {_shown(run.watch.last)}, so: {run.error and run.error.message} "
            "Emit instances of the outbound's models, nothing after the reply, or add what is missing to outbound=",
        )
        for message in run.messages:
            if message.kind != "error":
                problem = misfit(schema, _envelope(message)) and misfit(schema, {**_envelope(message), "data": None})
                expect(problem is None, f"{what}; got {_shown(message)}: {problem}; make the two agree")


async def calls_leave_no_state_behind(subject: ProcessorSubject) -> None:
    """After any other calls, the same data leads to messages of the same kinds and types."""
    for arguments in await subject.data():
        first, second = await subject.run(arguments), await subject.run(arguments)
        if first.is_cut is not second.is_cut:
            continue  # the point where it was cut is random
        expect(
            first.shape == second.shape,
            f"{subject.told(arguments)}: expected the same messages of two calls in two new sessions; got first "
            f"{_listed(first.shape)}, then {_listed(second.shape)}; keep what lasts in ctx.state or a resource, "
            "or say is_repeatable=False if it depends on time or chance",
        )


def _envelope(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"kind": message.kind, "type": message.type}
    return told if message.data is None else {**told, "data": message.data}


def _shown(emission: Message | BaseModel | None) -> str:
    kind, named = getattr(emission, "kind", None), getattr(emission, "type", None)
    data = getattr(emission, "data", None)
    return f"{type(emission).__name__}(kind={kind!r}, type={named!r}, data={data!r:.200})"


def _listed(shape: list[tuple[str, str]]) -> str:
    names = [f"{kind} {named}" for kind, named in shape]
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "") or "nothing"


ALWAYS: Final[tuple[Promise, ...]] = (it_fails_in_words, every_emission_fits_its_outbound)
OF_REPEATABLE: Final[tuple[Promise, ...]] = (calls_leave_no_state_behind,)
