"""Checks of tools: they honour their schemas, and run the author's examples within their effects (G11, G12)."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from capset.definitions.tools.definition import AnyTool
from capset.errors import InternalError, InvalidArguments, unknown
from capset_testing.capability_suite.arguments import for_each_case, valid_arguments
from capset_testing.capability_suite.schema_fit import schema_violation
from capset_testing.capability_suite.session_checks import read_contents
from capset_testing.capability_suite.subject import Arguments, CapabilitySubject, Promise, Trial, expect, outcome_text

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


async def invalid_arguments_are_refused(subject: CapabilitySubject) -> None:
    """Arguments that certainly violate the schema, at any depth, are refused with 422 before the handler starts."""
    for tool in subject.tools:
        # Hypothesis is synchronous: it runs in a thread, with an event loop and a kernel of its own.
        await asyncio.to_thread(_check_refusals, subject.with_tool(tool), tool)


async def unknown_arguments_are_refused(subject: CapabilitySubject) -> None:
    """Unknown arguments are refused even beside valid ones: a misspelt name must not be ignored."""
    for tool in subject.tools:
        arguments = await asyncio.to_thread(_sample_arguments, subject, tool)
        async with subject.with_tool(tool).open() as trial:
            await _check_refusal(trial, tool, {**arguments, _unknown_parameter(tool): 1})


def _check_refusals(subject: CapabilitySubject, tool: AnyTool) -> None:
    from capset_testing.capability_suite.strategies import mutated_data

    schema = tool.arguments.json_schema
    wrong = mutated_data(_valid_arguments(subject, tool)).filter(
        lambda candidate: schema_violation(schema, candidate) is not None
    )
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        trial = runner.run(stack.enter_async_context(subject.open()))
        try:
            for_each_case(wrong, lambda candidate: runner.run(_check_refusal(trial, tool, candidate)))
        finally:
            runner.run(stack.aclose())


async def _check_refusal(trial: Trial, tool: AnyTool, arguments: Arguments) -> None:
    result = await trial.send(tool, arguments)
    if isinstance(result.error, InvalidArguments) and result.error.status == 422:
        return  # only validation raises it
    why = schema_violation(tool.arguments.json_schema, arguments)
    raise AssertionError(
        f"tool {tool.name!r} takes {json.dumps(arguments)}, though {why}: "
        f"expected InvalidArguments, got {outcome_text(result)}"
    )


def _sample_arguments(subject: CapabilitySubject, tool: AnyTool) -> Arguments:
    samples: list[Arguments] = []
    for_each_case(_valid_arguments(subject, tool), samples.append, cases=1)
    expect(samples, f"tool {tool.name!r}: no fitting arguments could be generated; give examples")
    return samples[0]


def _valid_arguments(subject: CapabilitySubject, tool: AnyTool) -> SearchStrategy[Any]:
    return valid_arguments(tool, [dict(example) for example in subject.examples_of(tool) if not callable(example)])


def _unknown_parameter(tool: AnyTool) -> str:
    name = "unknown"
    while name in tool.parameters:
        name += "_"
    return name


async def every_tool_and_parameter_has_an_example(subject: CapabilitySubject) -> None:
    """Every tool and parameter has an example, and every example belongs to a tool."""
    tools = {tool.name: tool for tool in subject.tools}
    for name in subject.examples or ():
        expect(name in tools, f"examples: {unknown('tool', name, tools)}")
    for tool in subject.tools:
        examples = subject.examples_of(tool)
        expect(examples, f"tool {tool.name!r} has no example")
        parameters: set[str] = set()
        for example in examples:
            async with subject.with_tool(tool).open() as trial:
                parameters |= set(await trial.prepare(example))
        missing = [name for name in tool.parameters if name not in parameters]
        expect(not missing, f"tool {tool.name!r}: no example has the parameter {', '.join(map(repr, missing))}")


async def every_example_runs(subject: CapabilitySubject) -> None:
    """Every example runs, in its own session, and returns JSON data that fits the tool's output schema."""
    for tool in subject.tools:
        for example in subject.examples_of(tool):
            async with subject.with_tool(tool).open() as trial:
                arguments = await trial.prepare(example)
                result = await trial.send(tool, arguments)
            label = f"tool {tool.name!r} with {json.dumps(arguments)}"
            expect(result.success, f"{label} fails: {outcome_text(result)}")
            text = json.dumps(result.data, allow_nan=False)
            problem = schema_violation(tool.output.json_schema, json.loads(text))
            expect(problem is None, f"{label} gives {text}, which does not fit its output schema: {problem}")


async def what_is_optional_can_be_left_out(subject: CapabilitySubject) -> None:
    """Check that optional arguments can be left out: the call may fail, but is neither refused nor crashes."""
    for tool in subject.tools:
        needed = set(tool.arguments.json_schema.get("required", ()))
        for example in subject.examples_of(tool):
            for name in [parameter for parameter in tool.parameters if parameter not in needed]:
                async with subject.with_tool(tool).open() as trial:
                    arguments = await trial.prepare(example)
                    if name not in arguments:
                        continue
                    result = await trial.send(tool, {key: arguments[key] for key in arguments if key != name})
                broken = result.error is not None and (result.error.refusal or isinstance(result.error, InternalError))
                expect(not broken, f"tool {tool.name!r} without its optional {name!r} breaks: {outcome_text(result)}")


async def a_tool_that_reads_writes_nothing(subject: CapabilitySubject) -> None:
    """Check that a tool with the effect ``read`` does not write to state, resources, documents or files.

    Such a write would not be recorded before it happens.
    """
    for tool in subject.tools:
        for example in subject.examples_of(tool) if not tool.has_side_effects else ():
            async with subject.with_tool(tool).open() as trial:
                arguments = await trial.prepare(example)
                before = await read_contents(trial)
                await trial.send(tool, arguments)
                after = await read_contents(trial)
            changed = [name for name in after if before.get(name) != after[name]]
            expect(not changed, f"tool {tool.name!r} has the effect 'read', but it changes {', '.join(changed)}")


OF_TOOLS: Final[tuple[Promise, ...]] = (invalid_arguments_are_refused, unknown_arguments_are_refused)
OF_EXAMPLES: Final[tuple[Promise, ...]] = (
    every_tool_and_parameter_has_an_example,
    every_example_runs,
    what_is_optional_can_be_left_out,
    a_tool_that_reads_writes_nothing,
)
