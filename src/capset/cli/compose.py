"""``capset compose``: the composition of an agent, without calling anything."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from capset.adapters.agents.files import read_agent_file
from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Attribute, Env, Grant, Who
from capset.cli.common.output import err, out, print_json, verbatim
from capset.cli.common.settings import load_settings
from capset.cli.common.trees import tree_of
from capset.composition.compose import compose
from capset.evaluation.evaluate import evaluate
from capset.kernel.registry import Registry
from capset.wire.snapshots import snapshot_shape


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

    Tools that are not in play say why.
    """
    settings = load_settings(principal=principal, grant=grant, attribute=attribute, env=env)
    registry = Registry.installed()
    composition = compose(registry.agents.get(agent) or read_agent_file(Path(agent), registry))
    shape = snapshot_shape(asyncio.run(evaluate(composition, principal=settings.principal, env=settings.env)))
    if as_json:
        print_json(shape.plain())
        return Exit.DONE
    for notice in shape.notices:
        err().print(f"[yellow]notice:[/] {verbatim(notice)}", soft_wrap=True)
    out().print(tree_of(shape))
    return Exit.DONE
