"""Capabilities from imported tool definitions in JSON, all handled by one function of the host (spec 8, W22)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypedDict

from capset.definitions.calls.contexts import Context
from capset.definitions.capabilities import Capability
from capset.definitions.names import checked_permissions
from capset.definitions.tools.definition import AnyTool, make_tool
from capset.definitions.tools.options import Effect
from capset.definitions.tools.schema_tools import adapt_handler, returns_schema
from capset.errors import DefinitionError, unknown
from capset.schemas.json_schema import compile_json_schema
from capset_connect.interop.definitions import DefinedTool, ToolReading, read_tools
from capset_connect.tool_rules import (
    EVERY,
    Rules,
    ToolRules,
    checked_rules,
    effect_of,
    options_of,
    rules_of,
    unknown_arguments,
)

ToolHandler = Callable[[str, dict[str, Any]], Awaitable[Any]] | Callable[[str, dict[str, Any], Context], Awaitable[Any]]
"""``handler(name, arguments)`` or ``handler(name, arguments, context)``, which returns JSON data.

``name`` is the tool's name in its definition. ``arguments`` are validated JSON data, with defaults filled in.
"""


class ImportOptions(TypedDict, total=False):
    """Options that the imports of frameworks pass on to ``import_tools``."""

    description: str
    rules: Mapping[str, ToolRules] | None
    permissions: Iterable[str]
    timeout: float


@dataclass(frozen=True, slots=True)
class ImportedTools:
    """A capability of imported tools, and the reading of their definitions."""

    capability: Capability
    tools: Mapping[str, AnyTool]
    """The tools by their names in the definitions."""
    reading: ToolReading

    @property
    def names(self) -> Mapping[str, str]:
        """The original names of the tools, by their names for models."""
        return self.reading.names

    @property
    def definitions(self) -> list[dict[str, Any]]:  # JSON data
        """The original definitions of the tools."""
        return [deepcopy(dict(tool.given)) for tool in self.reading.tools]


def import_tools(
    definitions: object,
    *,
    name: str,
    handler: ToolHandler,
    effect: Effect,
    description: str = "",
    rules: Mapping[str, ToolRules] | None = None,
    permissions: Iterable[str] = (),
    timeout: float = 60.0,
    skip_refused: bool = False,
) -> ImportedTools:
    """Create a capability from a list of tool definitions.

    Args:
        definitions: definitions of OpenAI, Anthropic, MCP or bare function documents, mixed or not; see ``read_tools``.
        name: the name of the capability.
        handler: the handler of all the tools, sync or async; see ``ToolHandler``.
        effect: the effect of tools without a rule for it. MCP annotations can only strengthen it.
        description: the purpose of the capability.
        rules: rules by the tools' original names, or ``*`` for every tool: effect, permissions, limits, approval,
            timeout, idempotent and allowed arguments.
        permissions: the permissions that a principal needs to call any of the tools.
        timeout: seconds that a call may take, unless a rule overrides it.
        skip_refused: whether to omit the definitions that cannot be tools, which ``reading.refused`` lists. By default,
            they raise an error.

    Raises ``DefinitionError``, listing every definition that cannot be a tool, with the path of the problem.
    """
    reading = read_tools(definitions)
    if reading.refused and not skip_refused:
        reasons = "; ".join(reading.refused)
        raise DefinitionError(
            f"capability {name!r:.80}: {len(reading.refused)} of its definitions cannot be tools: {reasons}",
            hint="correct or remove them, or pass skip_refused=True to omit them",
        )
    owner = f"capability {name!r:.80}: rules"
    checked = checked_rules(owner, rules or {})
    every: ToolRules = {"effect": effect, **checked.get(EVERY, {})}
    effective = checked_rules(owner, {**checked, EVERY: every})
    names = [tool.name for tool in reading.tools]
    if wrong := sorted({*effective} - {EVERY, *names}):
        raise DefinitionError(f"capability {name!r:.80}: rules: {unknown('tool', wrong[0], names)}")
    needed = checked_permissions(f"capability {name!r:.80}", permissions)
    tools = {tool.name: _tool(tool, handler, effective, needed, timeout) for tool in reading.tools}
    text = description or "Tools that others defined."
    return ImportedTools(Capability(name, description=text, tools=tools.values()), MappingProxyType(tools), reading)


def _tool(
    tool: DefinedTool, handler: ToolHandler, rules: Rules, permissions: frozenset[str], timeout: float
) -> AnyTool:
    owner = f"tool {tool.here!r}"
    arguments = compile_json_schema(f"{owner}: its arguments", tool.arguments, fills_defaults=True)
    tool_rules = rules_of(rules, tool.name)
    plain = adapt_handler(owner, partial(handler, tool.name))
    options = options_of(
        f"import:{tool.here}",
        {**tool_rules, "effect": effect_of(tool_rules.get("effect", "destructive"), tool.hints)},
        permissions=permissions,
        policies=(),
        timeout=timeout,
        names=arguments.names,
        unknown=unknown_arguments(rules, tool.name, arguments.names),
    )
    return make_tool(
        tool.here,
        tool.description,
        options,
        arguments=arguments,
        output=returns_schema(owner, tool.returns),
        parameters=tuple(arguments.names),
        shape=plain.shape,
        takes_context=plain.takes_context,
        handler=plain.run,
        title=tool.title,
    )
