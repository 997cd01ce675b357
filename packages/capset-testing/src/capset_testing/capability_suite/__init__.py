"""The test suite for capabilities: each promise to their users is one check.

``capability_suite`` returns the checks for one capability, or for a reference with a config. Each check raises
``AssertionError`` if the capability breaks the promise. With pytest::

    checks = capability_suite(forecast, examples={"get_forecast": [{"city": "Oslo", "days": 3}]})

    @pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)
    async def test_forecast(check):
        await check()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from capset.definitions.capabilities import AnyCapability
from capset.definitions.references import AnyRef, as_ref
from capset.errors import CapsetError
from capset.extras import install_command
from capset_testing.capability_suite import definition_checks, hash_checks, session_checks, tool_checks
from capset_testing.capability_suite.subject import Arguments, CapabilitySubject, Check, Example, Promise


def capability_suite(
    capability: AnyCapability | AnyRef,
    *,
    examples: Mapping[str, Sequence[Example]] | None = None,
    config: BaseModel | None = None,
    permissions: Iterable[str] = (),
    env: Mapping[str, Any] | None = None,
    workspace: str | Path | None = None,
) -> tuple[Check, ...]:
    """Return the checks that apply to a capability.

    Args:
        capability: the capability under test, alone in an agent, with a store in memory. Its tools are really called:
            those with effects outside the session should have a harmless target.
        examples: valid arguments for each tool, by its own name: JSON data, or an async function that prepares a
            session for the arguments and returns them. Together, the examples must use every parameter. Without
            examples, the checks that run tools are left out.
        config: the capability's config; by default, its defaults.
        permissions: permissions of the user, in addition to those that the tools need.
        env: facts of the host for policies.
        workspace: the folder of the host that the tools may read.

    Raises ``CapsetError`` if hypothesis is missing, which the extra ``testing`` installs, and ``DefinitionError`` if
    the config does not belong to the capability.
    """
    if find_spec("hypothesis") is None:
        raise CapsetError("the capability suite needs hypothesis", hint=install_command("testing"))
    ref = as_ref("capability_suite", capability)
    examples_by_tool = None if examples is None else {name: tuple(some) for name, some in examples.items()}
    subject = CapabilitySubject(
        ref if config is None else ref.with_config(config),
        examples_by_tool,
        frozenset(permissions),
        dict(env or {}),
        workspace,
    )
    return tuple(Check(promise, subject) for promise in _promises(subject))


def _promises(subject: CapabilitySubject) -> Iterable[Promise]:
    capability, has_tools = subject.capability, bool(subject.tools)
    has_examples = has_tools and subject.examples is not None
    yield from (*session_checks.FIRST, *definition_checks.ALWAYS, *hash_checks.ALWAYS)
    if has_tools:
        yield from (*definition_checks.OF_TOOLS, *tool_checks.OF_TOOLS)
    if has_examples:
        yield from (*tool_checks.OF_EXAMPLES, *session_checks.OF_EXAMPLES)
    if capability.config is not None:
        yield from definition_checks.OF_CONFIG
    if capability.presets:
        yield from definition_checks.OF_PRESETS
    if capability.helpers is not None:
        yield from (*session_checks.OF_HELPERS, *definition_checks.OF_HELPERS)
    if any(part.context for part in capability.parts.values()):
        yield from session_checks.OF_CONTEXT
    if capability.expose:
        yield from session_checks.OF_EXPOSED


__all__ = ["Arguments", "Check", "Example", "capability_suite"]
