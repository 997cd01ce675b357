"""``capset schema``: the JSON Schemas of agent files and of configuration files, for editors."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from capset.errors import DefinitionError
from capset.kernel.registry import Registry
from capset.wire.agent_schema import agent_file_schema
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson
from capset_cli.common.output import print_json


class Kind(StrEnum):
    """The kinds of files that have a schema."""

    AGENT = "agent"
    CONFIG = "config"


@guarded
def schema_command(
    kind: Annotated[Kind, typer.Argument(help="The schema of agent files or of configuration files.")] = Kind.AGENT,
    any_: Annotated[
        bool, typer.Option("--any", help="Allow any capability, not just those that are installed here.")
    ] = False,
    as_json: AsJson = False,
) -> Exit:
    """Print the JSON Schema of agent files or of configuration files.

    That of agent files has the capabilities, presets and configs that are installed here. That of configuration files
    is the same everywhere.
    """
    if kind is Kind.CONFIG:
        from capset_connect.config_file import configuration_schema

        if any_:
            raise DefinitionError("--any is for agent files: the schema of configuration files names no capabilities")
        schema = configuration_schema()
    else:
        schema = agent_file_schema(None if any_ else Registry.installed().capabilities.values())
    if as_json:
        print_json(schema)
    else:
        print(json.dumps(schema, indent=2), flush=True)
    return Exit.DONE
