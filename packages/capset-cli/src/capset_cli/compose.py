"""``capset compose``: the composition of an agent, without calling anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.tree import Tree

from capset.composition.compose import compose
from capset.evaluation.evaluate import evaluate
from capset.kernel.registry import Registry
from capset.wire.snapshots import (
    CompositionItemShape,
    DynamicToolkitShape,
    SnapshotShape,
    SnapshotTool,
    UsedCapabilityShape,
    snapshot_shape,
)
from capset_cli.common.configuration import load_configuration
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Attribute, Env, Grant, Who
from capset_cli.common.output import cell, err, escaped, out, print_json
from capset_cli.common.settings import load_settings
from capset_cli.common.upstream import Upstream


@guarded
def compose_command(
    agent: Annotated[
        str, typer.Argument(help="A configuration file (YAML, JSON or TOML), or the name of an installed agent.")
    ],
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    principal: Who = None,
    as_json: AsJson = False,
) -> Exit:
    """Compose an agent, and show where everything in it comes from: a tree of its capabilities, and its three hashes.

    Tools that are not in play are shown with the reason. Exits with 1 if a policy failed.
    """
    settings = load_settings(principal=principal, grant=grant, attribute=attribute, env=env)
    registry = Registry.installed()
    definition = registry.agents.get(agent) or load_configuration(Path(agent), registry, Upstream(settings.db)).agent
    composition = compose(definition)
    snapshot = asyncio.run(evaluate(composition, principal=settings.principal, env=settings.env))
    shape, code = snapshot_shape(snapshot), Exit.FAILED if snapshot.failures else Exit.DONE
    if as_json:
        print_json(shape.plain())
        return code
    for notice in shape.notices:
        err().print(f"[yellow]notice:[/] {escaped(notice)}", soft_wrap=True)
    out().print(tree_of(shape))
    return code


def tree_of(shape: SnapshotShape) -> Tree:
    """Return the tree of an evaluated composition."""
    tree = Tree(f"[bold]{cell(shape.agent)}[/] as seen by {cell(shape.principal)}")
    tools = {tool.name: tool for tool in shape.tools}
    direct = [entry for entry in shape.explained if not entry.within]
    for used in shape.uses:
        branch = tree.add(f"[bold]{cell(used.id)}[/]{_path_note(used)}")
        _add_choices(branch, used)
        entries = [entry for entry in direct if (entry.capability, entry.path) == (used.id, used.path)]
        _add_entries(branch, [entry for entry in entries if entry.preset is None], tools, used)
        for preset in [name for name, is_on in used.presets.items() if is_on]:
            if preset_entries := [entry for entry in entries if entry.preset == preset]:
                _add_entries(branch.add(f"preset [bold]{preset}[/]"), preset_entries, tools, used)
    if own_entries := [entry for entry in direct if entry.capability is None]:
        _add_entries(tree.add(f"{cell(shape.agent)} itself"), own_entries, tools)
    for within in dict.fromkeys((*entry.within, entry.path[0]) for entry in shape.explained if entry.within):
        around = " → ".join(within[1:-1])
        branch = tree.add(f"block [bold]{cell(within[-1])}[/]" + (f" [dim]in {cell(around)}[/]" if around else ""))
        for entry in shape.explained:
            if (*entry.within, entry.path[0]) == within:
                path = " → ".join(entry.path[1:])
                branch.add(_line(entry) + (f" [dim]by {cell(path)}[/]" if path else ""))
    for toolkit in shape.toolkits:
        _add_toolkit(tree, toolkit, shape)
    for name in shape.dynamic:
        tree.add(f"[bold]{cell(name)}()[/] [dim]decides at each step what else is used[/]")
    if shape.system_text:
        tree.add("[bold]system text[/]").add(escaped(shape.system_text))
    hashes = tree.add(f"[bold]hashes[/] [dim]{shape.profile}[/]")
    for name in ("static_hash", "runtime_hash", "prompt_hash"):
        hashes.add(f"{name:<12} {getattr(shape, name)}")
    return tree


def _add_toolkit(tree: Tree, toolkit: DynamicToolkitShape, shape: SnapshotShape) -> None:
    """Add a dynamic toolkit, with its tools for this principal, or the reason why it was not made."""
    note = f" [dim]made for {cell(shape.principal)}[/]" if toolkit.in_play else f" not made — {cell(toolkit.reason)}"
    branch = tree.add(f"toolkit [bold]{cell(toolkit.path)}[/]{note}")
    for tool in shape.tools:
        if tool.name in toolkit.tools:
            branch.add("".join(_tool(tool, None)))


def presets_line(presets: Sequence[tuple[str, bool]]) -> str:
    """Return the presets of a capability, enabled and disabled, as markup."""
    return "  ".join(f"[green]●[/] {name}" if is_on else f"[dim]○ {name}[/]" for name, is_on in presets)


def _path_note(used: UsedCapabilityShape) -> str:
    """Return the path that leads to a capability, if the agent does not name it itself."""
    path = used.path[1:-1]
    needed = f" [dim]needed by {cell(' → '.join(path))}[/]" if path else ""
    return f"{needed} [dim]added at run time[/]" if used.is_dynamic else needed


def _add_choices(branch: Tree, used: UsedCapabilityShape) -> None:
    if used.presets:
        branch.add(f"[dim]presets[/]  {presets_line(list(used.presets.items()))}")
    if used.config is not None:
        branch.add(f"[dim]config[/]   {cell(json.dumps(used.config, ensure_ascii=False))}")


def _add_entries(
    branch: Tree,
    entries: Sequence[CompositionItemShape],
    tools: dict[str, SnapshotTool],
    used: UsedCapabilityShape | None = None,
) -> None:
    own_names = {exposed_name: own_name for own_name, exposed_name in used.names.items()} if used else {}
    for entry in entries:
        if entry.surface == "tool" and entry.name in tools:
            branch.add("".join(_tool(tools[entry.name], own_names.get(entry.name))))
        else:
            branch.add(_line(entry))


def _line(entry: CompositionItemShape) -> str:
    return f"[dim]{entry.surface:<11}[/] {cell(entry.name)}"


def _tool(tool: SnapshotTool, own_name: str | None) -> Iterator[str]:
    yield "[green]●[/] " if tool.in_play else "[red]○[/] "
    yield tool.name
    if own_name is not None:
        yield f" [dim]({own_name})[/]"
    needs = f", needs {' and '.join(tool.permissions)}" if tool.permissions else ""
    yield f" [dim]{tool.effect}{needs}[/]"
    if not tool.in_play:
        yield f" — {cell(tool.reason)}"
