"""Matching of request paths to route templates, a set as small as the set of routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

_ANY: Final = "{}"
_REST: Final = "{path}"
_HERE: Final = ""
"""The key of a node's own template: path segments are never empty."""
MCP_PATHS: Final = ("/mcp", "/mcp/agents/{id}", "/mcp/sessions/{id}")


class Routes:
    """Matcher of paths to templates, such as ``/v1/agents/{id}``, in a microsecond; routers take far longer."""

    def __init__(self, templates: Iterable[str]) -> None:
        self._root: dict[str, Any] = {}
        for template in templates:
            node = self._root
            for segment in template.split("/")[1:]:
                is_named = segment.startswith("{")
                node = node.setdefault(segment if not is_named or segment == _REST else _ANY, {})
            node[_HERE] = template

    def of(self, path: str) -> str | None:
        """Return the template of a path, ``None`` for none; literal segments precede parameters."""
        return _find(self._root, path.split("/")[1:], 0)


def _find(node: dict[str, Any], segments: list[str], at: int) -> str | None:
    if at == len(segments):
        return node.get(_HERE)
    segment = segments[at]
    if segment:
        for key in (segment, _ANY):
            if (child := node.get(key)) is not None and (found := _find(child, segments, at + 1)) is not None:
                return found
    rest = node.get(_REST)
    return None if rest is None else rest[_HERE]
