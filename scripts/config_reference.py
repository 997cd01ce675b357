"""``python -m scripts.config_reference``: write the reference parts of the guides to configuration files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

from capset_connect.config_file import configuration_schema

GUIDE: Final = Path(__file__).parents[1] / "docs" / "guide"
BEGIN: Final = "<!-- Made by python -m scripts.config_reference; what is below is not written by hand. -->"
_WHOLE: Final = {
    "": "The file",
    "ActionShape": "An action",
    "GovernanceShape": "Governance",
    "ApproverRuleShape": "A rule for approvers",
    "AllowanceShape": "An allowance",
    "BudgetShape": "A budget",
    "AuditShape": "Audit",
    "CapabilityEntry": "A capability",
    "SubAgentEntry": "A sub-agent",
    "AgentDefinitionShape": "A definition in place",
}
_SERVERS: Final = {
    "McpServerShape": "An MCP server",
    "McpResourceShape": "A resource",
    "ApiShape": "An API",
    "ClientCredentialsShape": "Client credentials",
    "ToolRulesShape": "Rules of a tool",
}
PAGES: Final = {
    "configuration.md": _WHOLE,
    "gateway.md": _SERVERS,
    "connections.md": {"ProviderShape": "A provider", "UserCredentialShape": "Credentials of users"},
    "approvals-where-people-are.md": {"ChannelShape": "A channel"},
}
"""The sections of each page, by the names of their shapes."""

Node = dict[str, Any]
"""A part of a JSON Schema."""


def render(name: str, page: str) -> str:
    """Return the page of a name with its reference part anew."""
    by_hand, _, _ = page.partition(BEGIN)
    schema = configuration_schema()
    parts = {"": schema, **schema["$defs"]}
    missing = sorted(parts.keys() - {part for titles in PAGES.values() for part in titles})
    assert not missing, f"a heading is missing for {missing}"
    sections = "\n".join("\n".join(_section(name, title, parts[part])) for part, title in PAGES[name].items())
    return f"{by_hand}{BEGIN}\n\n{sections}"


def _section(page: str, title: str, schema: Node) -> Iterator[str]:
    yield f"### {title}\n"
    yield f"{' '.join(schema['description'].split())}\n"
    yield from ("| member | type | meaning |", "|---|---|---|")
    for name, inner in schema["properties"].items():
        meaning = " ".join(inner.get("description", "").replace("|", "\\|").split())
        needed = ["Required."] if name in schema.get("required", ()) else []
        yield f"| `{name}` | {_type(page, inner)} | {' '.join([*needed, meaning])} |"
    yield ""


def _type(page: str, schema: Node) -> str:
    if "$ref" in schema:
        return _link(page, schema["$ref"].rpartition("/")[2])
    if options := [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]:
        single = " or ".join(dict.fromkeys(_type(page, option) for option in options if option.get("type") != "array"))
        lists = [_type(page, option) for option in options if option.get("type") == "array"]
        many = ["a list of them" if text == f"list of {single}" else text for text in lists]
        return " or ".join(filter(None, [single, *many]))
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {_type(page, schema.get('items', {}))}"
    if kind == "object":
        members: Node | None = schema.get("properties")
        values: Any = schema.get("additionalProperties")
        if isinstance(values, dict) and "$ref" in values:
            return f"mapping of names to {_type(page, cast('Node', values))}"
        return f"mapping of {', '.join(f'`{name}`' for name in members)}" if members else "mapping"
    return "text" if kind == "string" else kind


def _link(page: str, name: str) -> str:
    target, title = next((target_page, titles[name]) for target_page, titles in PAGES.items() if name in titles)
    title = title.replace("`", "")
    anchor = "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter in "-_")
    return f"[{title}]({target if target != page else ''}#{anchor})"


if __name__ == "__main__":
    for one in PAGES:
        (GUIDE / one).write_text(render(one, (GUIDE / one).read_text(encoding="utf-8")), encoding="utf-8")
