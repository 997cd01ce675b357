"""``capset call``: one governed call."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer
from pydantic_core import from_json

from capset.cli.arguments import read_arguments
from capset.cli.exits import Exit, ended, guarded
from capset.cli.opening import find_agent, open_session, refuse_both
from capset.cli.options import AsJson, Db, Env, Grant, Who, check_seconds
from capset.cli.output import err, pretty, print_error, print_json, visible
from capset.cli.progress import Watching
from capset.cli.remote import Url, ask, server_of
from capset.cli.settings import Settings, load_settings
from capset.definitions.agents import Agent
from capset.definitions.messages import Json
from capset.errors import CapsetError, DefinitionError, PermissionDenied
from capset.kernel.registry import Registry
from capset.kernel.session import Session
from capset.wire.calls import call_data

if TYPE_CHECKING:
    from capset.client import Client


@guarded
def call_command(
    tool: Annotated[str, typer.Argument(help="CAPABILITY.TOOL; with --agent or --session, TOOL will do.")],
    arguments: Annotated[
        str, typer.Option("--args", metavar="JSON", help="A JSON object; @FILE reads a file and - reads stdin.")
    ] = "{}",
    agent: Annotated[
        str | None, typer.Option(help="An agent file, the name of an installed agent, or the id of a stored one.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="The id of a session to go on with.")] = None,
    grant: Grant = None,
    env: Env = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds that the call may take.")] = None,
    principal: Who = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Call one tool, governed and on record.

    Without --agent or --session the call runs in a new session of an agent with the named capability alone.
    With --url it runs on a server, in a session there: one of these is needed then, and says which.
    """
    server = server_of(url, db=db, principal=principal, grant=grant, env=env)
    data = read_arguments(arguments)
    refuse_both(agent, session)
    check_seconds("--timeout", timeout)
    target = Target(tool, agent, session)
    if server is not None:
        error, shape = ask(server, lambda client: _call_there(client, target, data, timeout, quiet=as_json))
    else:
        settings = load_settings(db=db, principal=principal, grant=grant, env=env)
        with contextlib.redirect_stdout(sys.stderr):  # what a handler prints is not the result
            error, shape = asyncio.run(_call(settings, target, Json(data), timeout, quiet=as_json))
    with ended():
        if as_json:
            print_json(shape)
        elif error is not None:
            if isinstance(error, PermissionDenied) and "lacks the permission" in error.message:
                command = "" if server is None else " to capset key create, where the server is"
                error.hint = f"permissions of the principal are given with --grant{command}"
            print_error(error, as_json=False)
        else:
            value = shape["data"]
            print(visible(value if isinstance(value, str) else pretty(value)), flush=True)
        if not as_json:
            err().print(f"[dim]record {shape['record']}  session {shape['session']}[/]", soft_wrap=True)
    return Exit.DONE if error is None else Exit.REFUSED if shape["refused"] else Exit.FAILED


@dataclass(frozen=True, slots=True)
class Target:
    """What is called: a tool, and by which agent or in which session, as the command line named them."""

    tool: str
    agent: str | None
    session: str | None


Called = tuple[CapsetError | None, dict[str, Any]]
"""What went wrong, if anything did, and the call's wire shape as plain JSON data."""


async def _call_there(client: Client, target: Target, data: bytes, timeout: float | None, *, quiet: bool) -> Called:
    from capset.client import error_of

    session = target.session
    if session is None:
        if target.agent is None:
            raise DefinitionError(
                "say in which session of the server: --session, or --agent for a new one",
                hint="--agent takes the id of an agent that the server keeps, or the name of one installed there",
            )
        session = (await client.sessions.create(target.agent)).id
    async with client.stream(session, target.tool, from_json(data), timeout=timeout) as events:
        with Watching(quiet=quiet) as watching:
            async for event in events:
                watching.show(event)
    error = events.result.error
    return (None if error is None else error_of(error)), events.result.plain()


async def _call(settings: Settings, target: Target, data: Json, timeout: float | None, *, quiet: bool) -> Called:
    registry = Registry.installed()
    # Found first, so that a misspelt name makes no database.
    agent = _agent(registry, target) if target.session is None else None
    async with open_session(settings, registry, agent, target.session) as opened:
        session = opened.options(timeout=timeout) if timeout else opened
        return await _run(session, target.tool, data, quiet=quiet)


def _agent(registry: Registry, target: Target) -> Agent | UUID:
    """Return the agent that is asked for, or one of the tool's capability alone."""
    if target.agent is not None:
        return find_agent(registry, target.agent)
    name, dot, _ = target.tool.partition(".")
    if not dot:
        raise DefinitionError(f"say which capability's tool: CAPABILITY.TOOL; got {target.tool!r}")
    capability = registry.get(name)
    return Agent(capability.name.replace(":", "-"), uses=[capability])


async def _run(session: Session, tool: str, data: Json, *, quiet: bool) -> Called:
    reply: Any = None
    async with session.invoke(session.message(tool, data)) as messages:
        with Watching(quiet=quiet) as watching:
            async for message in messages:
                watching.show(message)
                if message.kind == "reply":
                    reply = message.data
        return messages.result.error, call_data(messages.result, reply, session.id)
