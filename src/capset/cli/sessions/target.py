"""Targets of ``capset sessions``: a server, or a local database with the same rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from capset.cli.common.exits import needs_extra
from capset.cli.common.remote import ask, server_of
from capset.cli.common.settings import Settings, existing_db, load_settings
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry

if TYPE_CHECKING:
    from capset.client import Client
    from capset.server.auth.callers import Caller
    from capset.server.service import Service

T = TypeVar("T")
Id = Annotated[str, typer.Argument(metavar="ID", help="The id of the session.")]
Org = Annotated[str | None, typer.Option("--org", help="The organisation of the principal.")]


@dataclass(frozen=True, slots=True)
class LocalSessions:
    """A local database under the rules of a server, and the owner of the sessions in it."""

    service: Service
    caller: Caller


def asked(
    url: str | None,
    there: Callable[[Client], Awaitable[T]],
    here: Callable[[LocalSessions], Awaitable[T]],
    *,
    db: str | None,
    org: str | None,
    principal: str | None,
    makes: bool = False,
) -> T:
    """Return the answer of a server, or else of a local database; with ``makes``, that may be created."""
    server = server_of(url, db=db, org=org, principal=principal)
    if server is not None:
        return ask(server, there)
    needs_extra("server", "starlette")
    settings = load_settings(db=db, principal=principal)
    if not makes:
        existing_db(settings.db)
    return asyncio.run(_here(settings, org, here))


async def _here(settings: Settings, org: str | None, work: Callable[[LocalSessions], Awaitable[T]]) -> T:
    from capset.server.auth.callers import Caller  # a cost only for local work
    from capset.server.service import Service

    who = replace(settings.principal, org=org)
    async with Kernel(store=settings.db) as kernel:
        service = Service(kernel, Registry.installed(), env=settings.env)
        return await work(LocalSessions(service, Caller(who, frozenset({"capset:admin"}), None)))


def parts(told: dict[str, Any]) -> list[tuple[str, Any]]:  # JSON
    """Return the members of an object that are not null."""
    return [(name, value) for name, value in told.items() if value is not None]
