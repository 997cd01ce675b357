"""Options of ``capset agents``, and the reader of its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from pydantic import ValidationError

from capset.errors import DefinitionError, Field
from capset.schemas.strict_json import copy_bounded
from capset.schemas.validation_errors import UNKNOWN_FIELD, SchemaMismatch, validation_fields
from capset.wire.agents import AgentInput
from capset_connect.config_file.shapes import ConfigurationShape
from capset_connect.plain_files import parse, read_text

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a stored agent, or the name of an installed one.")]
Org = Annotated[str | None, typer.Option("--org", help="The organisation that the agents belong to.")]
Writer = Annotated[str | None, typer.Option("--principal", help="Who makes the change (or CAPSET_PRINCIPAL).")]
Expected = Annotated[
    int | None, typer.Option("--if-version", min=1, help="Only if this is the agent's current version.")
]


def read_input(path: Path) -> AgentInput:
    """Read the agent in a file, which may also have ``tags`` and a ``status``. Raises ``DefinitionError``."""
    data = parse(path, read_text(path, "a file with an agent"))
    if not isinstance(data, dict):
        raise DefinitionError(f"{path}: not an agent: it must be a mapping with a name")
    document = cast("dict[str, Any]", data)
    try:
        return AgentInput.model_validate(copy_bounded(document))
    except ValidationError as error:
        fields = [_explained(field) for field in validation_fields(error, list(AgentInput.model_fields), document)]
    except SchemaMismatch as error:
        fields = error.fields
    lines = "\n".join(f"  {field}" for field in fields)
    raise DefinitionError(f"{path}: not an agent that can be stored:\n{lines}", fields=fields)


def _explained(field: Field) -> Field:
    """Explain an unknown field that configuration files have and stored agents do not."""
    if field.expected != UNKNOWN_FIELD or field.path not in ConfigurationShape.model_fields:
        return field
    expected = "stored agents do not have it: capset run, chat, mcp and serve take the file itself"
    return replace(field, expected=expected, did_you_mean=None)
