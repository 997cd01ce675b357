"""Those who operate the gateway: what they declare is the same for every server, and made of no case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator, who approves every tool that is approved without being named."""

    name: str
    asks: bool
    """Whether every call waits for an approval, apart from those of tools that are said to read only."""
    bounds: bool
    """Whether results are bounded as GuardBench's own controls bound them, not as capset does by itself."""

    def rules(self, offers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the rules for tools, as ``capset mcp diff --json`` shows them."""
        if not self.asks:
            return {}
        reading = [offer["tool"] for offer in offers if _is_said_to_read(offer["now"] or {})]
        return {"*": {"approval": "ask"}} | {tool: {"effect": "read", "approval": "auto"} for tool in reading}

    def governance(self, result_bytes: int) -> dict[str, Any]:
        """Return the governance, where ``result_bytes`` is the bound of GuardBench's own controls."""
        return {"result_bytes": result_bytes} if self.bounds else {}


def _is_said_to_read(shape: Mapping[str, Any]) -> bool:
    return shape.get("annotations", {}).get("readOnlyHint") is True


OPERATORS: Final = (
    Operator("capset-pins", asks=False, bounds=False),
    Operator("capset-rules", asks=True, bounds=True),
)
