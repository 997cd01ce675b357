"""Checks that tools honour their schemas: no other arguments reach a handler (spec 4, G11, G12)."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from capset.definitions.tools.definition import AnyTool
from capset.errors import InvalidArguments
from capset.testing.capability_suite.arguments import each, valid
from capset.testing.capability_suite.schema_fit import misfit
from capset.testing.capability_suite.subject import Arguments, Bench, CapabilitySubject, Promise, expect, told

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


async def invalid_arguments_are_refused(subject: CapabilitySubject) -> None:
    """Arguments that certainly violate the schema, at any depth, are refused with 422 before the handler starts."""
    for tool in subject.tools:
        # Hypothesis has no event loop of its own: it gets a thread, with a kernel in it.
        await asyncio.to_thread(_refuses, subject.with_tool(tool), tool)


async def unknown_arguments_are_refused(subject: CapabilitySubject) -> None:
    """Unknown arguments are refused even beside valid ones: a misspelt name must not be ignored."""
    for tool in subject.tools:
        given = await asyncio.to_thread(_some_valid, subject, tool)
        async with subject.with_tool(tool).open() as bench:
            await _refused(bench, tool, {**given, _unknown_to(tool): 1})


def _refuses(subject: CapabilitySubject, tool: AnyTool) -> None:
    from capset.testing.capability_suite.strategies import changed

    schema = tool.arguments.json_schema
    wrong = changed(_valid(subject, tool)).filter(lambda made: misfit(schema, made) is not None)
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        bench = runner.run(stack.enter_async_context(subject.open()))
        try:
            each(wrong, lambda made: runner.run(_refused(bench, tool, made)))
        finally:
            runner.run(stack.aclose())


async def _refused(bench: Bench, tool: AnyTool, made: Arguments) -> None:
    result = await bench.send(tool, made)
    if isinstance(result.error, InvalidArguments) and result.error.status == 422:
        return  # raised by nothing behind the validation
    why = misfit(tool.arguments.json_schema, made)
    raise AssertionError(
        f"tool {tool.name!r} takes {json.dumps(made)}, though {why}: expected InvalidArguments, got {told(result)}"
    )


def _some_valid(subject: CapabilitySubject, tool: AnyTool) -> Arguments:
    found: list[Arguments] = []
    each(_valid(subject, tool), found.append, cases=1)
    expect(found, f"tool {tool.name!r}: no arguments could be made up that fit; give examples of them")
    return found[0]


def _valid(subject: CapabilitySubject, tool: AnyTool) -> SearchStrategy[Any]:
    return valid(tool, [dict(one) for one in subject.examples_of(tool) if not callable(one)])


def _unknown_to(tool: AnyTool) -> str:
    name = "unknown"
    while name in tool.parameters:
        name += "_"
    return name


OF_TOOLS: Final[tuple[Promise, ...]] = (invalid_arguments_are_refused, unknown_arguments_are_refused)
