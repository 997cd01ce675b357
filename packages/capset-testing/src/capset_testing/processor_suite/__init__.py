"""The test suite for stream processors: each promise to the kernel and to callers is one check.

``processor_suite`` returns the checks for one tool from ``Tool.from_processor``. Each check raises ``AssertionError``
if the processor breaks the promise, with the expectation, the observation, and a remedy. With pytest::

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
from capset_testing.capability_suite.arguments import is_valid
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
    max_messages: int = 100,
    patience: float = 1.0,
    cleanup: float = 1.0,
) -> tuple[Check[ProcessorSubject], ...]:
    """Return the checks of a processor.

    Args:
        tool: the processor under test, in its own agent, with a store in memory. It is really run: one with effects
            outside the session should have a harmless target.
        examples: valid arguments as JSON data; ``{"data": …}`` if the data is not an object. Without examples,
            hypothesis generates arguments from the schema, in addition to the tool's own examples.
        uses: other capabilities that the processor needs, for their helpers, state or tools.
        permissions: permissions of the user, in addition to those that the tools need.
        env: facts of the host for policies.
        is_repeatable: whether the same data always leads to messages of the same kinds and types. Set it to ``False``
            if they depend on time or chance; the check for that is then left out.
        max_messages: the number of messages to read before a stream is cut, since it may be endless.
        patience: seconds to wait for the next message before the stream is cut.
        cleanup: seconds within which the processor must end after its consumer has left.

    Raises ``CapsetError`` if hypothesis is missing, which the extra ``testing`` installs, and ``DefinitionError`` if
    the tool is not a processor, if an example does not fit it, or if the agent cannot be composed.
    """
    if find_spec("hypothesis") is None:
        raise CapsetError("the processor suite needs hypothesis", hint=install_command("testing"))
    if not isinstance(tool, Tool) or tool.contract is None:  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
        raise DefinitionError(
            f"processor_suite takes a tool that Tool.from_processor made; got {tool!r:.80}",
            hint="use capability_suite for tools that are functions",
        )
    for name, number in (("max_messages", max_messages), ("patience", patience), ("cleanup", cleanup)):
        if not number > 0:
            raise DefinitionError(f"processor_suite: {name} must be a positive number; got {number!r}")
    example_arguments = tuple(dict(example) for example in examples)
    for example in example_arguments:
        if not is_valid(tool, example):
            raise DefinitionError(f"processor_suite: the example {example!r:.200} does not fit the tool {tool.name!r}")
    subject = ProcessorSubject(
        tool,
        example_arguments,
        tuple(uses),
        frozenset(permissions),
        dict(env or {}),
        int(max_messages),
        float(patience),
        float(cleanup),
    )
    promises = [*definition_checks.ALWAYS, *stream_checks.OF_EMISSIONS, *stream_checks.ALWAYS]
    if is_repeatable:
        promises += stream_checks.OF_REPEATABLE
    return tuple(Check(promise, subject) for promise in promises)


__all__ = ["Arguments", "Check", "processor_suite"]
