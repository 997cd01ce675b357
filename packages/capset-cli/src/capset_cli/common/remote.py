"""Work delegated to a capset server: ``--url``."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from capset.errors import DefinitionError, PermissionDenied, Unauthenticated

if TYPE_CHECKING:
    from capset_server.client import Client

T = TypeVar("T")
_SHORT_OF_RIGHTS: Final = re.compile(r"\b(lacks?|needs? the (scope|permission))\b")
"""Matches refusals for want of a scope or a permission, which another key may have."""
Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="Use this server instead (or CAPSET_URL), with the key in CAPSET_KEY."),
]


NamedUrl = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Use this server instead, with the key in CAPSET_KEY.")
]
"""For commands that work on this machine unless the option names a server. They pass ``url or ""`` to
``select_server``, which then ignores ``CAPSET_URL``."""


def format_options(**options: str | Path | Sequence[str] | None) -> str:
    """Return options as command-line text, each after a space. An option with several values is repeated."""
    text = ""
    for name, value in options.items():
        values = [] if value is None else [str(value)] if isinstance(value, str | Path) else value
        text += "".join(f" --{name} {shlex.quote(option_value)}" for option_value in values)
    return text


def connect_options(*, agent: str | None, principal: str | None, url: str | None, db: str | None) -> str:
    """Return the options of ``capset connect`` for a call with these: a server, or a file and a database."""
    if url is not None:
        return format_options(url=url)
    return format_options(agent=agent or "FILE", principal=principal, db=db)


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and the key for requests to it."""

    url: str
    key: str | None = field(repr=False)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Client]:
        """Yield a client, and add a hint to errors about the key."""
        from capset_server.client import Client  # imported only for requests to a server

        plain_http = os.environ.get("CAPSET_PLAIN_HTTP") == "1"
        try:
            async with Client(self.url, key=self.key, plain_http=plain_http) as client:
                yield client
        except Unauthenticated as error:
            error.hint = (
                "the key is taken from CAPSET_KEY; create one on the server with capset key create NAME --principal WHO"
            )
            raise
        except PermissionDenied as error:
            error.hint = error.hint or (
                None
                if _SHORT_OF_RIGHTS.search(error.message) is None
                else "a key has the scopes and permissions that it was made with: "
                "capset key create NAME --principal WHO --scope SCOPE --grant PERMISSION"
            )
            raise


def select_server(url: str | None, **local_options: object) -> Server | None:
    """Return the server to use, or ``None`` for local work.

    A server comes from the command line or a variable, never from a file: a file planted in a folder could otherwise
    have the key sent to its author. Raises ``DefinitionError`` if any of ``local_options``, which are for local work
    only, is given.
    """
    server_url = os.environ.get("CAPSET_URL") if url is None else url
    if not server_url:
        return None
    for option, value in local_options.items():
        if value is not None and value != []:
            raise DefinitionError(
                f"--{option} is for work on this machine; a server has its own", hint="--url '' selects this machine"
            )
    return Server(server_url, os.environ.get("CAPSET_KEY"))


def run_on_server(server: Server, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run ``work`` with a client of the server, and return its result."""

    async def run() -> T:
        async with server.open() as client:
            return await work(client)

    return asyncio.run(run())
