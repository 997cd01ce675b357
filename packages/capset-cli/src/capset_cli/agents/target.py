"""Targets of ``capset agents``: a server or a local database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer
from pydantic import ValidationError

from capset.definitions.principals import Principal
from capset.errors import DefinitionError
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.schemas.strict_json import checked_bounds
from capset.schemas.validation_errors import SchemaMismatch, validation_fields
from capset.wire.agents import AgentInput
from capset_cli.common.actors import acting_here
from capset_cli.common.remote import ask, server_of
from capset_cli.common.settings import Settings, existing_db, load_settings
from capset_connect.agent_files.permissions import Author
from capset_connect.agent_files.store import StoredAgents
from capset_connect.plain_files import parse, read_text

if TYPE_CHECKING:
    from capset_server.client import Client

T = TypeVar("T")
Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a stored agent, or the name of an installed one.")]
Org = Annotated[str | None, typer.Option("--org", help="The organisation whose agents they are.")]
Writer = Annotated[str | None, typer.Option("--principal", help="Who writes it (or CAPSET_PRINCIPAL).")]
Expected = Annotated[
    int | None, typer.Option("--if-version", min=1, help="Only if the agent has just this version now.")
]


@dataclass(frozen=True, slots=True)
class LocalAgents:
    """A local database, and the owner of the agents in it. Access to its file means administrator rights."""

    kernel: Kernel
    agents: StoredAgents
    principal: Principal
    env: Mapping[str, Any]

    @property
    def org(self) -> str | None:
        """The organisation."""
        return self.principal.org

    @property
    def author(self) -> Author:
        """The author of changes."""
        return Author(f"user:{self.principal.id}", is_admin=True, principal=self.principal)


def asked(
    url: str | None,
    run_remote: Callable[[Client], Awaitable[T]],
    run_local: Callable[[LocalAgents], Awaitable[T]],
    *,
    db: str | None,
    org: str | None,
    makes: bool = False,
    stored: bool = True,
    **local: Any,  # the other options of load_settings
) -> T:
    """Return the answer of a server, or else of a local database.

    With ``makes``, the database may be created; without ``stored``, no database needs to exist.
    """
    server = server_of(url, db=db, org=org, **local)
    if server is not None:
        return ask(server, run_remote)
    settings = load_settings(db=db, **local)
    if not stored:
        settings = replace(settings, db="memory://")
    elif not makes:
        existing_db(settings.db)
    return asyncio.run(_here(settings, org, run_local))


async def _here(settings: Settings, org: str | None, work: Callable[[LocalAgents], Awaitable[T]]) -> T:
    principal = replace(settings.principal, org=org)
    registry = Registry.installed()
    async with Kernel(store=settings.db, redis=settings.redis) as kernel:
        with acting_here(principal):
            return await work(LocalAgents(kernel, StoredAgents(kernel, registry), principal, settings.env))


def read_input(path: Path) -> AgentInput:
    """Return the agent in a file, which may also have ``tags`` and a ``status``. Raises ``DefinitionError``."""
    data = parse(path, read_text(path, "an agent file"))
    if not isinstance(data, dict):
        raise DefinitionError(f"{path}: not an agent file: it must hold a mapping with a name")
    document = cast("dict[str, Any]", data)
    try:
        return AgentInput.model_validate(checked_bounds(document))
    except ValidationError as error:
        fields = validation_fields(error, list(AgentInput.model_fields), document)
    except SchemaMismatch as error:
        fields = error.fields
    lines = "\n".join(f"  {field}" for field in fields)
    raise DefinitionError(f"{path}: not an agent file:\n{lines}", fields=fields)
