"""Checks by the author's examples: they cover everything, they run, and they keep to their tools' effects."""

from __future__ import annotations

import json
from typing import Final

from capset.errors import InternalError, unknown
from capset.testing.capability_suite.schema_fit import misfit
from capset.testing.capability_suite.session_checks import look
from capset.testing.capability_suite.subject import CapabilitySubject, Promise, expect, told


async def every_tool_and_parameter_has_an_example(subject: CapabilitySubject) -> None:
    """Every tool and parameter has an example, and every example belongs to a tool."""
    own = {one.name: one for one in subject.tools}
    for name in subject.examples or ():
        expect(name in own, f"examples: {unknown('tool', name, own)}")
    for tool in subject.tools:
        examples = subject.examples_of(tool)
        expect(examples, f"tool {tool.name!r} has no example")
        shown: set[str] = set()
        for example in examples:
            async with subject.with_tool(tool).open() as bench:
                shown |= set(await bench.prepared(example))
        missing = [name for name in tool.parameters if name not in shown]
        expect(not missing, f"tool {tool.name!r}: no example has the parameter {', '.join(map(repr, missing))}")


async def every_example_runs(subject: CapabilitySubject) -> None:
    """Every example runs, in a session of its own, and gives JSON data that fits the tool's output schema."""
    for tool in subject.tools:
        for example in subject.examples_of(tool):
            async with subject.with_tool(tool).open() as bench:
                arguments = await bench.prepared(example)
                result = await bench.send(tool, arguments)
            what = f"tool {tool.name!r} with {json.dumps(arguments)}"
            expect(result.success, f"{what} fails: {told(result)}")
            text = json.dumps(result.data, allow_nan=False)
            problem = misfit(tool.output.json_schema, json.loads(text))
            expect(problem is None, f"{what} gives {text}, which does not fit its output schema: {problem}")


async def what_is_optional_can_be_left_out(subject: CapabilitySubject) -> None:
    """Check that optional arguments can be left out: the call may fail, but a handler knows its own defaults."""
    for tool in subject.tools:
        needed = set(tool.arguments.json_schema.get("required", ()))
        for example in subject.examples_of(tool):
            for name in [one for one in tool.parameters if one not in needed]:
                async with subject.with_tool(tool).open() as bench:
                    arguments = await bench.prepared(example)
                    if name not in arguments:
                        continue
                    result = await bench.send(tool, {key: arguments[key] for key in arguments if key != name})
                broken = result.error is not None and (result.error.refusal or isinstance(result.error, InternalError))
                expect(not broken, f"tool {tool.name!r} without its optional {name!r} breaks: {told(result)}")


async def a_tool_that_reads_writes_nothing(subject: CapabilitySubject) -> None:
    """Check that a tool with the effect ``read`` does not write to state, resources, documents or files.

    Such a write would not be recorded before it happens.
    """
    for tool in subject.tools:
        for example in subject.examples_of(tool) if not tool.has_side_effects else ():
            async with subject.with_tool(tool).open() as bench:
                arguments = await bench.prepared(example)
                before = await look(bench)
                await bench.send(tool, arguments)
                after = await look(bench)
            changed = [what for what in after if before.get(what) != after[what]]
            expect(not changed, f"tool {tool.name!r} has the effect 'read', but it changes {', '.join(changed)}")


OF_EXAMPLES: Final[tuple[Promise, ...]] = (
    every_tool_and_parameter_has_an_example,
    every_example_runs,
    what_is_optional_can_be_left_out,
    a_tool_that_reads_writes_nothing,
)
