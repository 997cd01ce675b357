"""Configuration files generated from tool definitions, with a module of handler stubs (W28)."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from capset.definitions.tools.options import Effect
from capset_connect.interop.definitions import DefinedTool
from capset_connect.tool_rules import effect_of

_HEAD: Final = '''"""Handlers of the actions in {configuration}. Each takes valid arguments, and returns JSON data."""

from __future__ import annotations

from typing import Any

from capset import ToolError


def _unwritten(name: str) -> ToolError:
    return ToolError(f"The action {{name}} is not written yet.", code="not_written", status=501)
'''
_HANDLER: Final = """

async def {function}(params: dict[str, Any]) -> Any:
    raise _unwritten("{name}")
"""


@dataclass(frozen=True, slots=True)
class ToolConfiguration:
    """A configuration with an action for each tool, and the source of the Python module with their handlers."""

    content: dict[str, Any]  # JSON data
    handlers: str


def configuration_of(
    tools: Iterable[DefinedTool], *, effect: Effect, configuration: str, module: str
) -> ToolConfiguration:
    """Return a configuration of tools, with handler stubs that raise until they are implemented.

    ``effect`` is the effect of every tool; MCP hints can only strengthen it. ``configuration`` and ``module`` are the
    names of the two files, which must be in the same folder.
    """
    actions: list[dict[str, Any]] = []
    handlers = [_HEAD.format(configuration=ascii(configuration)[1:-1].replace('"', "'"))]
    taken: set[str] = {"Any", "ToolError", *dir(builtins)}
    for tool in tools:
        function = _function_name(tool.here, taken)
        title = _title(tool)
        action: dict[str, Any] = {
            "name": tool.here,
            **({"title": title} if title != tool.here else {}),
            "description": tool.description,
            "handler": f"./{module}:{function}",
            "effect": effect_of(effect, tool.hints),
            "permissions": [],
            "parameters": dict(tool.arguments),
            **({"returns": dict(tool.returns)} if tool.returns is not None else {}),
        }
        actions.append(action)
        # The module is code: of a definition, it contains only names, which are safe there.
        handlers.append(_HANDLER.format(function=function, name=tool.here))
    return ToolConfiguration({"actions": actions}, "".join(handlers))


def _title(tool: DefinedTool) -> str:
    """Return the title of an action. It includes the tool's original name if the action's name differs."""
    if tool.title is None or tool.title == tool.name:
        return tool.name
    return tool.title if tool.here == tool.name else f"{tool.title} ({tool.name})"


def _function_name(name: str, taken: set[str]) -> str:
    """Return an unused function name for a tool, and add it to ``taken``."""
    base = re.sub("[^A-Za-z0-9_]", "_", name)
    base = base if base.isidentifier() and not base.startswith("_") else f"tool_{base.lstrip('_')}"
    base = f"{base}_" if keyword.iskeyword(base) or keyword.issoftkeyword(base) else base
    candidate, number = base, 1
    while candidate in taken:
        number += 1
        candidate = f"{base}_{number}"
    taken.add(candidate)
    return candidate
