"""The code behind tools, on the wire (spec 2, F35)."""

from __future__ import annotations

from collections.abc import Mapping

from capset.definitions.tools.definition import AnyTool
from capset.evaluation.code import Code, CodeKind, code_of
from capset.wire.shapes import Shape


class CodeShape(Shape):
    """The hash of some code, of which no other hash says anything, and whose code it is; without one, why not.

    ``name`` and ``version`` are the distribution's; where there is none, ``name`` is that of the package, or of the
    module's file.
    """

    hash: str | None = None
    kind: CodeKind | None = None
    name: str | None = None
    version: str | None = None
    reason: str | None = None


class ToolsCodeShape(CodeShape):
    """The code behind some tools, by their names."""

    tools: list[str]


def code_shape(code: Code) -> CodeShape:
    """Return the wire shape of the code behind a tool."""
    return CodeShape(hash=code.hash, kind=code.kind, name=code.name, version=code.version, reason=code.reason)


def code_shapes(tools: Mapping[str, AnyTool]) -> list[ToolsCodeShape]:
    """Return the code behind some tools, each once, in the order of the tools' names."""
    found: dict[Code, list[str]] = {}
    for name, tool in sorted(tools.items()):
        found.setdefault(code_of(tool), []).append(name)
    return [ToolsCodeShape(**dict(code_shape(code)), tools=names) for code, names in found.items()]
