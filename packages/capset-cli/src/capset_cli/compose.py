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
from capset.wire.snapshots import ExplainedShape, MadeShape, SnapshotShape, SnapshotTool, UsedShape, snapshot_shape
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Attribute, Env, Grant, Who
from capset_cli.common.output import cell, err, out, print_json, verbatim
from capset_cli.common.settings import load_settings
from capset_cli.common.upstream import Upstream
from capset_connect.agent_files.files import read_agent_file


@guarded
def compose_command(
    agent: Annotated[
        str, typer.Argument(help="An agent file (YAML, JSON or TOML), or the name of an installed agent.")
    ],
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    principal: Who = None,
    as_json: AsJson = False,
) -> Exit:
    """Compose an agent, and show where everything in it comes from: a tree of its capabilities, and its three hashes.

    Tools that are not in play say why. It ends with 1 if a policy failed.
    """
    settings = load_settings(principal=principal, grant=grant, attribute=attribute, env=env)
    registry = Registry.installed()
    found = registry.agents.get(agent) or read_agent_file(Path(agent), registry, upstream=Upstream(settings.db))
    composition = compose(found)
    snapshot = asyncio.run(evaluate(composition, principal=settings.principal, env=settings.env))
    shape, code = snapshot_shape(snapshot), Exit.FAILED if snapshot.failures else Exit.DONE
    if as_json:
        print_json(shape.plain())
        return code
    for notice in shape.notices:
        err().print(f"[yellow]notice:[/] {verbatim(notice)}", soft_wrap=True)
    out().print(tree_of(shape))
    return code


def tree_of(shape: SnapshotShape) -> Tree:
    """Return the tree of an evaluated composition."""
    tree = Tree(f"[bold]{cell(shape.agent)}[/] as seen by {cell(shape.principal)}")
    tools = {tool.name: tool for tool in shape.tools}
    own = [one for one in shape.explained if not one.within]
    for used in shape.uses:
        branch = tree.add(f"[bold]{cell(used.id)}[/]{_why(used)}")
        _add_choices(branch, used)
        brought = [one for one in own if (one.capability, one.path) == (used.id, used.path)]
        _add_brought(branch, [one for one in brought if one.preset is None], tools, used)
        for preset in [name for name, is_on in used.presets.items() if is_on]:
            if inside := [one for one in brought if one.preset == preset]:
                _add_brought(branch.add(f"preset [bold]{preset}[/]"), inside, tools, used)
    if itself := [one for one in own if one.capability is None]:
        _add_brought(tree.add(f"{cell(shape.agent)} itself"), itself, tools)
    for within in dict.fromkeys((*one.within, one.path[0]) for one in shape.explained if one.within):
        around = " → ".join(within[1:-1])
        branch = tree.add(f"block [bold]{cell(within[-1])}[/]" + (f" [dim]in {cell(around)}[/]" if around else ""))
        for one in shape.explained:
            if (*one.within, one.path[0]) == within:
                way = " → ".join(one.path[1:])
                branch.add(_line(one) + (f" [dim]by {cell(way)}[/]" if way else ""))
    for made in shape.toolkits:
        _add_made(tree, made, shape)
    for name in shape.dynamic:
        tree.add(f"[bold]{cell(name)}()[/] [dim]decides at each step what else is used[/]")
    if shape.system_text:
        tree.add("[bold]system text[/]").add(verbatim(shape.system_text))
    hashes = tree.add(f"[bold]hashes[/] [dim]{shape.profile}[/]")
    for name in ("static_hash", "runtime_hash", "prompt_hash"):
        hashes.add(f"{name:<12} {getattr(shape, name)}")
    return tree


def _add_made(tree: Tree, made: MadeShape, shape: SnapshotShape) -> None:
    """Add a dynamic toolkit, with its tools for this principal, or the reason why it was not made."""
    told = f" [dim]made for {cell(shape.principal)}[/]" if made.in_play else f" not made — {cell(made.reason)}"
    branch = tree.add(f"toolkit [bold]{cell(made.path)}[/]{told}")
    for tool in shape.tools:
        if tool.name in made.tools:
            branch.add("".join(_tool(tool, None)))


def presets_line(presets: Sequence[tuple[str, bool]]) -> str:
    """Return the presets of a capability, enabled and disabled, as markup."""
    return "  ".join(f"[green]●[/] {name}" if is_on else f"[dim]○ {name}[/]" for name, is_on in presets)


def _why(used: UsedShape) -> str:
    """Return the path by which a capability came, if the agent does not name it itself."""
    way = used.path[1:-1]
    needed = f" [dim]needed by {cell(' → '.join(way))}[/]" if way else ""
    return f"{needed} [dim]added at run time[/]" if used.is_dynamic else needed


def _add_choices(branch: Tree, used: UsedShape) -> None:
    if used.presets:
        branch.add(f"[dim]presets[/]  {presets_line(list(used.presets.items()))}")
    if used.config is not None:
        branch.add(f"[dim]config[/]   {cell(json.dumps(used.config, ensure_ascii=False))}")


def _add_brought(
    branch: Tree, brought: Sequence[ExplainedShape], tools: dict[str, SnapshotTool], used: UsedShape | None = None
) -> None:
    own_names = {here: own for own, here in used.names.items()} if used else {}
    for one in brought:
        if one.surface == "tool" and one.name in tools:
            branch.add("".join(_tool(tools[one.name], own_names.get(one.name))))
        else:
            branch.add(_line(one))


def _line(one: ExplainedShape) -> str:
    return f"[dim]{one.surface:<11}[/] {cell(one.name)}"


def _tool(tool: SnapshotTool, own_name: str | None) -> Iterator[str]:
    yield "[green]●[/] " if tool.in_play else "[red]○[/] "
    yield tool.name
    if own_name is not None:
        yield f" [dim]({own_name})[/]"
    needs = f", needs {' and '.join(tool.permissions)}" if tool.permissions else ""
    yield f" [dim]{tool.effect}{needs}[/]"
    if not tool.in_play:
        yield f" — {cell(tool.reason)}"
