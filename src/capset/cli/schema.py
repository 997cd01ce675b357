"""``capset schema``: the JSON Schema of agent files, for editors."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from capset.cli.exits import Exit, guarded
from capset.cli.options import AsJson
from capset.cli.output import print_json
from capset.kernel.registry import Registry
from capset.wire.agent_schema import agent_file_schema


@guarded
def schema_command(
    any_: Annotated[
        bool, typer.Option("--any", help="Take any capability, not just those that are installed here.")
    ] = False,
    as_json: AsJson = False,
) -> Exit:
    """Print the JSON Schema of agent files, with the capabilities, presets and configs that are installed here."""
    schema = agent_file_schema(None if any_ else Registry.installed().capabilities.values())
    if as_json:
        print_json(schema)
    else:
        print(json.dumps(schema, indent=2), flush=True)
    return Exit.DONE
