"""``capset compose``: what an agent file comes to, without calling anything."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.tree import Tree

from capset.adapters.agent_file import read_agent_file
from capset.cli.exits import Exit, guarded
from capset.cli.options import AsJson, Env, Grant, Who
from capset.cli.output import err, out, print_json, verbatim
from capset.cli.settings import load_settings
from capset.composition.compose import compose
from capset.evaluation.snapshot import evaluate
from capset.kernel.registry import Registry
from capset.wire.snapshots import SnapshotShape, snapshot_shape


@guarded
def compose_command(
    agent: Annotated[Path, typer.Argument(help="An agent file: YAML, JSON or TOML.")],
    grant: Grant = None,
    env: Env = None,
    principal: Who = None,
    as_json: AsJson = False,
) -> Exit:
    """Compose an agent file and show its prompt, its tools, why some are not in play, and its three hashes."""
    settings = load_settings(principal=principal, grant=grant, env=env)
    composition = compose(read_agent_file(agent, Registry.installed()))
    shape = snapshot_shape(asyncio.run(evaluate(composition, principal=settings.principal, env=settings.env)))
    if as_json:
        print_json(shape.plain())
        return Exit.DONE
    for notice in shape.notices:
        err().print(f"[yellow]notice:[/] {verbatim(notice)}", soft_wrap=True)
    out().print(_tree(shape))
    return Exit.DONE


def _tree(shape: SnapshotShape) -> Tree:
    tree = Tree(f"[bold]{verbatim(shape.agent)}[/] as seen by {verbatim(shape.principal)}")
    for capability in shape.capabilities:
        branch = tree.add(f"[bold]{capability}[/]")
        for tool in shape.tools:
            if tool.capability == capability:
                mark = "[green]●[/]" if tool.in_play else "[red]○[/]"
                why = "" if tool.in_play else f" — {verbatim(tool.reason)}"
                branch.add(f"{mark} {tool.name} [dim]{tool.effect}[/]{why}")
    if shape.system_text:
        tree.add("[bold]system text[/]").add(verbatim(shape.system_text))
    hashes = tree.add(f"[bold]hashes[/] [dim]{shape.profile}[/]")
    for name in ("static_hash", "runtime_hash", "prompt_hash"):
        hashes.add(f"{name:<12} {getattr(shape, name)}")
    return tree
