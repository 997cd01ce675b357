"""``capset schema``: the JSON Schema of configuration files, for editors."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from capset.kernel.registry import Registry
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson
from capset_cli.common.output import print_json
from capset_connect.config_file import configuration_schema


@guarded
def schema_command(
    any_: Annotated[
        bool, typer.Option("--any", help="Allow any capability, not just those that are installed here.")
    ] = False,
    as_json: AsJson = False,
) -> Exit:
    """Print the JSON Schema of configuration files, with the capabilities, presets and configs installed here."""
    schema = configuration_schema(None if any_ else Registry.installed().capabilities.values())
    if as_json:
        print_json(schema)
    else:
        print(json.dumps(schema, indent=2), flush=True)
    return Exit.DONE
