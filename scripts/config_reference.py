"""``python -m scripts.config_reference``: write the reference part of the guide to configuration files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from capset.adapters.config_file import configuration_schema

PAGE: Final = Path(__file__).parents[1] / "docs" / "guide" / "configuration.md"
BEGIN: Final = "<!-- Made by python -m scripts.config_reference; what is below is not written by hand. -->"
_TITLES: Final = {
    "": "The file",
    "ActionShape": "An action",
    "GovernanceShape": "Governance",
    "AllowanceShape": "An allowance",
    "BudgetShape": "A budget",
    "AuditShape": "Audit",
    "McpServerShape": "An MCP server",
    "ToolRulesShape": "Rules of a tool",
    "LayersShape": "The origin's form: `layers`",
    "CapabilitiesLayerShape": "`layers.capabilities`",
    "OriginActionShape": "An action of `layers.capabilities.actions`",
    "SecurityShape": "`layers.capabilities.security`",
}

Node = dict[str, Any]
"""A part of a JSON Schema."""


def render(page: str) -> str:
    """Return the page with its reference part anew."""
    by_hand, _, _ = page.partition(BEGIN)
    schema = configuration_schema()
    parts = {"": schema, **schema["$defs"]}
    missing = sorted(parts.keys() - _TITLES.keys())
    assert not missing, f"a heading is missing for {missing}"
    sections = "\n".join("\n".join(_section(title, parts[name])) for name, title in _TITLES.items())
    return f"{by_hand}{BEGIN}\n\n{sections}"


def _section(title: str, schema: Node) -> Iterator[str]:
    yield f"### {title}\n"
    yield f"{' '.join(schema['description'].split())}\n"
    yield from ("| member | type | |", "|---|---|---|")
    for name, inner in schema["properties"].items():
        said = " ".join(inner.get("description", "").replace("|", "\\|").split())
        needed = "required; " if name in schema.get("required", ()) else ""
        yield f"| `{name}` | {_type(inner)} | {needed}{said} |"
    yield ""


def _type(schema: Node) -> str:
    if "$ref" in schema:
        return _link(schema["$ref"].rpartition("/")[2])
    if options := [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]:
        return " or ".join(dict.fromkeys(_type(one) for one in options))
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object":
        members = schema.get("properties")
        return f"mapping of {', '.join(f'`{name}`' for name in members)}" if members else "mapping"
    return "text" if kind == "string" else kind


def _link(name: str) -> str:
    title = _TITLES[name].replace("`", "")
    anchor = "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter in "-_")
    return f"[{title}](#{anchor})"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
