"""The tools in play for a caller, as data; listing them runs nothing (spec 3, K18)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from capset.composition.installation import InstalledTool
from capset.definitions.calls.contexts import Context
from capset.definitions.tools.options import Effect
from capset.errors import DefinitionError
from capset.kernel.call.context import CallContext


@dataclass(frozen=True, eq=False, slots=True)
class ToolView:
    """A tool in play, under the name that its callers use here.

    ``qualified`` is ``capability.tool``. ``inbound`` and ``outbound`` are the JSON Schemas of its messages,
    ``arguments`` is that of a model's arguments; these and the ``examples`` are the definition's own JSON data and must
    not be changed. ``hash`` is the tool's hash, 64 hexadecimal digits.
    """

    name: str
    qualified: str
    kind: Literal["command", "query"]
    type: str
    description: str
    inbound: Mapping[str, Any]
    outbound: Mapping[str, Any]
    arguments: Mapping[str, Any]
    effect: Effect
    permissions: tuple[str, ...]
    examples: tuple[Mapping[str, Any], ...]
    cost: float | None
    hash: str


def tools_of(ctx: Context) -> Mapping[str, ToolView]:
    """Return the tools of the caller's snapshot by name: those in play for this principal here and now.

    They are sorted by name. A tool that is not in play is absent, indistinguishable from one that does not exist.
    Raises ``DefinitionError`` for a context that is not the kernel's.
    """
    if not isinstance(ctx, CallContext):
        raise DefinitionError(f"tools_of takes the Context that a handler receives; got {ctx!r:.80}")
    snapshot = ctx.origin.context.snapshot
    tools = snapshot.tools
    return MappingProxyType({ref.name: _view(tools[ref.name], ref.hash) for ref in snapshot.tool_refs})


def _view(installed: InstalledTool, hash: str) -> ToolView:
    # The message types of a function's tool are derived from its name here.
    tool = replace(installed.tool, name=installed.name) if installed.name != installed.tool.name else installed.tool
    return ToolView(
        name=installed.name,
        qualified=installed.qualified_name,
        kind=tool.kind,
        type=tool.type,
        description=tool.description,
        inbound=tool.inbound,
        outbound=tool.outbound,
        arguments=tool.arguments.json_schema,
        effect=tool.effect,
        permissions=tuple(sorted(tool.permissions)),
        examples=tool.examples,
        cost=tool.cost,
        hash=hash,
    )
