"""``python -m scripts.capability_pages``: write the facts of the built-in capabilities into their pages.

Each page below docs/capabilities has a block for each capability that it is about, between two comments; the index
has one of all. What stands in them comes from the definitions. A page of a capability that has none gets it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final

from capset import Capability
from capset.wire.capabilities import CapabilityDetail, ToolShape, capability_detail

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ROOT / "docs" / "capabilities"
ALL: Final = "all"
"""Whose facts the index has."""
_END: Final = "<!-- end of facts -->"
BLOCK: Final = re.compile(rf"<!-- facts of (\S+), by scripts/capability_pages\.py -->\n(.*?){_END}\n", re.DOTALL)

EXTRAS: Final = {
    "http": "`web`",
    "web_fetch": "`web`",
    "research": "`web`",
    "sandbox": "`sandbox`",
    "email": "`email`",
    "database": "none for SQLite, `postgres` for PostgreSQL",
}
"""What is to be installed with capset, as in `capset[web]`."""

UNTOLD: Final = {
    "noop": "it brings nothing to tell of",
    "current_time": "its tool says all that there is to say",
    "web_fetch": "its tool says all that there is to say",
}
"""Why some have no instructions."""

Node = dict[str, Any]
"""A part of a JSON Schema."""


def capabilities() -> dict[str, CapabilityDetail]:
    """Return the built-ins by id, as pyproject.toml registers them, installed anew or not."""
    project = tomllib.loads((ROOT / "packages/capset-tools/pyproject.toml").read_text("utf-8"))["project"]
    details: dict[str, CapabilityDetail] = {}
    for name, value in project["entry-points"]["capset.capabilities"].items():
        capability: Capability[Any, Any] = EntryPoint(name, value, "capset.capabilities").load()
        details[capability.name] = capability_detail(capability)
    return details


def page_of(name: str) -> Path:
    """Return the page that a capability is described on; the forms of one share theirs."""
    return PAGES / f"{name.partition(':')[0]}.md"


def render(page: str, details: dict[str, CapabilityDetail]) -> str:
    """Return a page with the facts in its blocks as they are now."""

    def block(match: re.Match[str]) -> str:
        return _block(match[1], _index(details) if match[1] == ALL else facts(details[match[1]]))

    return BLOCK.sub(block, page)


def facts(detail: CapabilityDetail) -> str:
    """Return the facts of one capability."""
    parts = ["\n".join(("| | |", "|---|---|", *(f"| {label} | {_cell(text)} |" for label, text in _rows(detail))))]
    if ":" in detail.id:  # a form of another, which says the rest
        return parts[0]
    for tool in detail.tools:
        parts += _tool(tool)
    if detail.config is not None:
        rows = (
            f"| `{name}` | {_cell(_type(node))}{_default(node)} | {_cell(node.get('description', ''))} |"
            for name, node in detail.config.get("properties", {}).items()
        )
        parts.append("\n".join(("| config | type | |", "|---|---|---|", *rows)))
    return "\n\n".join(parts)


def _rows(detail: CapabilityDetail) -> Iterator[tuple[str, str]]:
    yield "id", f"`{detail.id}`"
    yield "title", detail.name
    yield "what it is for", detail.description
    yield "icon", f"`{detail.icon}`" if detail.icon else "none"
    yield "category", detail.category or "none"
    yield "risk, status", f"{detail.risk}, {detail.status}"
    yield "permissions", ", ".join(_permissions(detail)) or "none"
    yield "extra", EXTRAS.get(detail.id.partition(":")[0], "none")
    if detail.uses:
        yield "uses", ", ".join(f"`{name}`" for name in detail.uses)
    if detail.presets:
        yield (
            "presets",
            ", ".join(f"`{preset.name}` ({'on' if preset.default else 'off'})" for preset in detail.presets),
        )
    if detail.data:
        yield "keeps", ", ".join(f"`{name}`" for name in detail.data)
    if detail.secrets:
        yield "secrets", ", ".join(f"`{secret}`" for secret in detail.secrets)
    has_instructions = detail.instructions or any(preset.instructions for preset in detail.presets)
    if not has_instructions and detail.id not in UNTOLD:
        raise SystemExit(f"{detail.id} has no instructions: say why in UNTOLD of scripts/capability_pages.py")
    yield (
        "instructions",
        f"`capset describe {detail.id}` shows them" if has_instructions else f"none: {UNTOLD[detail.id]}",
    )


def _permissions(detail: CapabilityDetail) -> list[str]:
    return sorted({f"`{permission}`" for tool in detail.tools for permission in tool.permissions})


def _tool(tool: ToolShape) -> Iterator[str]:
    needs = "".join(f", needs `{permission}`" for permission in tool.permissions)
    yield f"**`{tool.name}`** ({tool.effect}{needs}): {tool.description.splitlines()[0]}"
    required = tool.schema_.get("required", ())
    rows = [
        f"| `{name}` | {_cell(_type(node))}{'' if name in required else _default(node)} | {_said(node)} |"
        for name, node in tool.schema_.get("properties", {}).items()
    ]
    gives = [
        f"| → `{name}` | {_cell(_type(node))} | {_said(node)} |"
        for name, node in tool.output.get("properties", {}).items()
    ]
    yield "\n".join(("| parameter, → result | type | |", "|---|---|---|", *rows, *gives)) if rows or gives else ""


def _said(node: Node) -> str:
    return _cell(node.get("description", ""))


def _default(node: Node) -> str:
    if "default" not in node:
        return ", optional"
    return f", by default `{_cell(json.dumps(node['default'], ensure_ascii=False))}`"


def _type(node: Node) -> str:
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return "any JSON" if name == "JsonValue" else name
    if options := node.get("anyOf") or node.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(option) for option in options))
    if "enum" in node or "const" in node:
        return " or ".join(f"`{json.dumps(choice)}`" for choice in node.get("enum", [node.get("const")]))
    kind = node.get("type", "any JSON")
    if kind == "array":
        items = _type(node.get("items", {}))
        return f"list of ({items})" if " or " in items else f"list of {items}"
    if kind == "object" and node.get("additionalProperties"):
        return f"object of {_type(node['additionalProperties'])}"
    minimum, maximum = (f"{node[key]:,}" if key in node else "" for key in ("minimum", "maximum"))
    return f"{kind} {minimum}–{maximum}" if minimum and maximum else f"{kind} up to {maximum}" if maximum else kind


def _index(details: dict[str, CapabilityDetail]) -> str:
    rows = ["| id | what it is for | tools | permissions |", "|---|---|---|---|"]
    for name, detail in sorted(details.items()):
        tools = ", ".join(f"`{tool.name}`" for tool in detail.tools) or "none"
        permissions = ", ".join(_permissions(detail)) or "none"
        rows.append(f"| [`{name}`]({page_of(name).name}) | {_cell(detail.description)} | {tools} | {permissions} |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def _block(name: str, content: str) -> str:
    return f"<!-- facts of {name}, by scripts/capability_pages.py -->\n{content}\n{_END}\n"


def main() -> None:
    """Write what has changed, and name the pages that are missing."""
    details = capabilities()
    for name in details:
        page = page_of(name)
        if not page.exists():
            print("missing:", page.relative_to(ROOT))
            continue
        text = page.read_text("utf-8")
        if name not in [match[1] for match in BLOCK.finditer(text)]:
            title, _, rest = text.partition("\n")
            page.write_text(f"{title}\n\n{_block(name, '')}{rest}", "utf-8", newline="\n")
    for page in PAGES.glob("*.md"):
        page.write_text(render(page.read_text("utf-8"), details), "utf-8", newline="\n")


if __name__ == "__main__":
    main()
