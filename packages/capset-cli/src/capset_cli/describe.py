"""``capset describe``: one capability, or one of its tools."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from rich.tree import Tree

from capset.errors import NotFound, unknown
from capset.kernel.registry import Registry
from capset.wire.capabilities import (
    CapabilityDetail,
    PresetShape,
    ToolkitShape,
    ToolShape,
    capability_detail,
    readiness_of,
)
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson
from capset_cli.common.output import cell, escaped, out, pretty, print_json, short_hash
from capset_cli.common.remote import Url, run_on_server, select_server

_APPROVALS: Final = {"auto": "", "ask": "each call needs approval", "dynamic": "some calls need approval"}


@guarded
def describe_command(
    id: Annotated[str, typer.Argument(help="CAPABILITY or CAPABILITY.TOOL", metavar="ID")],
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Describe a capability, or one of its tools."""
    name, _, tool_name = id.partition(".")
    server = select_server(url)
    if server is not None:
        detail = run_on_server(server, lambda client: client.capabilities.get(name))
    else:
        capability = Registry.installed().get(name)
        detail = capability_detail(capability, readiness_of(capability))
    tool = _find_tool(detail, tool_name) if tool_name else None
    if as_json:
        print_json((tool or detail).plain())
        return Exit.DONE
    if tool is not None:
        out().print(_tool_tree(tool, full=True))
        return Exit.DONE
    out().print(_tree(detail))
    return Exit.DONE


def _tree(detail: CapabilityDetail) -> Tree:
    tree = Tree(f"[bold]{escaped(detail.name)}[/] ({detail.id}, {detail.status})")
    if detail.description:
        tree.add(escaped(detail.description))
    fields = {
        "version": detail.version,
        "risk": None if detail.risk == "low" else detail.risk,
        "aliases": ", ".join(detail.aliases),
        "uses": ", ".join(detail.uses),
        "data": ", ".join(
            f"{data_name} (clients may read it)" if _is_exposed(data_name, detail) else data_name
            for data_name in detail.data
        ),
        "secrets": ", ".join(detail.secrets),
        "here": "; ".join(f"{name}: {text}" for name, text in detail.readiness.items()),
        "limits": ", ".join(detail.limits),
    }
    for name, text in fields.items():
        if text:
            tree.add(f"[bold]{name}[/] {cell(text)}")
    for text in detail.instructions:
        tree.add("[bold]instructions[/]").add(escaped(text))
    for preset in detail.presets:
        _add_preset(tree, preset)
    if detail.config is not None:
        tree.add("[bold]config[/]").add(escaped(pretty(detail.config)))
    for member in detail.tools:
        tree.add(_tool_tree(member, full=False))
    for member in detail.toolkits:
        _add_toolkit(tree, member)
    return tree


def _is_exposed(name: str, detail: CapabilityDetail) -> bool:
    return name.partition(".")[2] in detail.expose


def _add_preset(tree: Tree, preset: PresetShape) -> None:
    mark = "[green]●[/]" if preset.default else "○"
    branch = tree.add(f"{mark} preset [bold]{preset.name}[/] [dim]{'on' if preset.default else 'off'} by default[/]")
    for text in preset.instructions:
        branch.add("[bold]instructions[/]").add(escaped(text))
    if preset.tools:
        branch.add(f"[bold]tools[/] {', '.join(preset.tools)}")
    if more := [addition for addition in preset.adds if addition not in ("instructions", "tools")]:
        branch.add(f"[bold]adds[/] {', '.join(more)}")


def _add_toolkit(tree: Tree, toolkit: ToolkitShape) -> None:
    members = "its members are made at run time" if toolkit.is_dynamic else ", ".join(toolkit.members) or "empty"
    gates = f", behind {cell(' and '.join(toolkit.policies))}" if toolkit.policies else ""
    branch = tree.add(f"toolkit [bold]{toolkit.name}[/] [dim]{members}{gates}, {short_hash(toolkit.hash)}[/]")
    for text in toolkit.instructions:
        branch.add("[bold]instructions[/]").add(escaped(text))


def _find_tool(detail: CapabilityDetail, name: str) -> ToolShape:
    tools = {f"{detail.id}.{tool.name}": tool for tool in detail.tools}
    full_name = f"{detail.id}.{name}"
    if full_name not in tools:
        raise NotFound(unknown("tool", full_name, tools))
    return tools[full_name]


def _tool_tree(tool: ToolShape, *, full: bool) -> Tree:
    properties = [
        tool.effect,
        "idempotent" if tool.idempotent else "",
        f"needs {' and '.join(tool.permissions)}" if tool.permissions else "",
        _APPROVALS[tool.approval],
        f"at most {cell(' and '.join(tool.limits))}" if tool.limits else "",
        f"costs {tool.cost:g}" if tool.cost is not None else "",
        short_hash(tool.hash),
    ]
    tree = Tree(f"[bold]{tool.name}[/] [dim]{', '.join(filter(None, properties))}[/]")
    tree.add(escaped(tool.description if full else tool.description.splitlines()[0]))
    if full:
        if tool.version:
            tree.add(f"[bold]version[/] {cell(tool.version)}")
        for text in tool.instructions:
            tree.add("[bold]instructions[/]").add(escaped(text))
        for example in tool.examples:
            tree.add("[bold]example[/]").add(escaped(pretty(example)))
        tree.add("[bold]arguments[/]").add(escaped(pretty(tool.schema_)))
        tree.add("[bold]result[/]").add(escaped(pretty(tool.output)))
    return tree
