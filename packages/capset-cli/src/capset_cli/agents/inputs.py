"""Options of ``capset agents``, and the reader of its agent files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer
from pydantic import ValidationError

from capset.errors import DefinitionError
from capset.schemas.strict_json import copy_bounded
from capset.schemas.validation_errors import SchemaMismatch, validation_fields
from capset.wire.agents import AgentInput
from capset_connect.plain_files import parse, read_text

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a stored agent, or the name of an installed one.")]
Org = Annotated[str | None, typer.Option("--org", help="The organisation that the agents belong to.")]
Writer = Annotated[str | None, typer.Option("--principal", help="Who makes the change (or CAPSET_PRINCIPAL).")]
Expected = Annotated[
    int | None, typer.Option("--if-version", min=1, help="Only if this is the agent's current version.")
]


def read_input(path: Path) -> AgentInput:
    """Read the agent in a file, which may also have ``tags`` and a ``status``. Raises ``DefinitionError``."""
    data = parse(path, read_text(path, "an agent file"))
    if not isinstance(data, dict):
        raise DefinitionError(f"{path}: not an agent file: it must hold a mapping with a name")
    document = cast("dict[str, Any]", data)
    try:
        return AgentInput.model_validate(copy_bounded(document))
    except ValidationError as error:
        fields = validation_fields(error, list(AgentInput.model_fields), document)
    except SchemaMismatch as error:
        fields = error.fields
    lines = "\n".join(f"  {field}" for field in fields)
    raise DefinitionError(f"{path}: not an agent file:\n{lines}", fields=fields)
