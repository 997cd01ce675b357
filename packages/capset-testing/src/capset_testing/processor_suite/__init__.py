"""The test suite for stream processors: each promise to the kernel and to callers is one check.

It makes the checks of one tool from ``Tool.from_processor``; each raises ``AssertionError`` if the processor breaks the
promise, with the expectation, the observation, and a remedy. With pytest::

    checks = processor_suite(count_up, examples=[{"to": 3}])

    @pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)
    async def test_count_up(check):
        await check()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from capset.definitions.capabilities import AnyCapability
from capset.definitions.references import AnyRef
from capset.definitions.tools.definition import AnyTool, Tool
from capset.errors import CapsetError, DefinitionError
from capset.extras import install_command
from capset_testing.capability_suite.arguments import fits
from capset_testing.checks import Check
from capset_testing.processor_suite import definition_checks, stream_checks
from capset_testing.processor_suite.subject import Arguments, ProcessorSubject


def processor_suite(
    tool: AnyTool,
    *,
    examples: Iterable[Arguments] = (),
    uses: Iterable[AnyCapability | AnyRef] = (),
    permissions: Iterable[str] = (),
    env: Mapping[str, Any] | None = None,
    is_repeatable: bool = True,
    most: int = 100,
    patience: float = 1.0,
    cleanup: float = 1.0,
) -> tuple[Check[ProcessorSubject], ...]:
    """Return every check of a processor.

    Args:
        tool: the processor under test, in an agent of its own, in memory. It is really run: one that reaches out of the
            session should have a harmless target.
        examples: valid arguments, as JSON data; ``{"data": …}`` if its data is no object. Without them, hypothesis
            makes some up from the schema, beside the tool's own examples.
        uses: the capabilities it needs beside it, for their helpers, state or tools.
        permissions: the user's permissions beside those that the tools need.
        env: the host's knowledge of this environment.
        is_repeatable: whether the same data leads to messages of the same kinds and types every time. Give ``False`` if
            they depend on time or chance; the check of that is left out.
        most: number of messages of a stream to read before it is cut: it may be endless.
        patience: seconds to wait for the next message before the stream is cut.
        cleanup: seconds within which it must have ended once its consumer has left.

    Raises ``CapsetError`` if hypothesis is missing, which the extra ``testing`` installs, and ``DefinitionError`` for a
    tool that is no processor, examples that do not fit it, and an agent that cannot be composed.
    """
    if find_spec("hypothesis") is None:
        raise CapsetError("the processor suite needs hypothesis", hint=install_command("testing"))
    if not isinstance(tool, Tool) or tool.contract is None:  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
        raise DefinitionError(
            f"processor_suite takes a tool that Tool.from_processor made; got {tool!r:.80}",
            hint="capability_suite tries tools that are functions",
        )
    for name, number in (("most", most), ("patience", patience), ("cleanup", cleanup)):
        if not number > 0:
            raise DefinitionError(f"processor_suite: {name} must be a positive number; got {number!r}")
    example_arguments = tuple(dict(example) for example in examples)
    for example in example_arguments:
        if not fits(tool, example):
            raise DefinitionError(f"processor_suite: the example {example!r:.200} does not fit the tool {tool.name!r}")
    subject = ProcessorSubject(
        tool,
        example_arguments,
        tuple(uses),
        frozenset(permissions),
        dict(env or {}),
        int(most),
        float(patience),
        float(cleanup),
    )
    promises = [*definition_checks.ALWAYS, *stream_checks.OF_EMISSIONS, *stream_checks.ALWAYS]
    if is_repeatable:
        promises += stream_checks.OF_REPEATABLE
    return tuple(Check(promise, subject) for promise in promises)


__all__ = ["Arguments", "Check", "processor_suite"]
