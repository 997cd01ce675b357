"""``capset call``: one governed call."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_core import from_json

from capset.cli.exits import Exit, ended, exit_of, guarded
from capset.cli.opening import find_agent, open_session, refuse_both
from capset.cli.options import AsJson, Db, Env, Grant, Who
from capset.cli.output import cell, err, pretty, print_error, print_json, visible
from capset.cli.settings import Settings, load_settings
from capset.definitions.agents import Agent
from capset.definitions.messages import Json, Message
from capset.errors import DefinitionError, PermissionDenied
from capset.kernel.registry import Registry
from capset.kernel.results import Result
from capset.kernel.session import Session
from capset.wire.calls import call_data

MAX_ARGUMENT_BYTES = 16 * 1024 * 1024


@guarded
def call_command(
    tool: Annotated[str, typer.Argument(help="CAPABILITY.TOOL; with --agent or --session, TOOL will do.")],
    arguments: Annotated[
        str, typer.Option("--args", metavar="JSON", help="A JSON object; @FILE reads a file and - reads stdin.")
    ] = "{}",
    agent: Annotated[str | None, typer.Option(help="An agent file, or the name of an installed agent.")] = None,
    session: Annotated[str | None, typer.Option(help="The id of a session to go on with.")] = None,
    grant: Grant = None,
    env: Env = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds that the call may take.")] = None,
    principal: Who = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Call one tool, governed and on record.

    Without --agent or --session the call runs in a new session of an agent with the named capability alone.
    """
    settings = load_settings(db=db, principal=principal, grant=grant, env=env)
    data = Json(_read_arguments(arguments))
    refuse_both(agent, session)
    if timeout is not None and not timeout > 0:
        raise DefinitionError(f"--timeout must be a positive number of seconds; got {timeout}")
    target = Target(tool, agent, session)
    with contextlib.redirect_stdout(sys.stderr):  # what a handler prints is not the result
        result, shape = asyncio.run(_call(settings, target, data, timeout, quiet=as_json))
    with ended():
        if as_json:
            print_json(shape)
        elif result.error is not None:
            if isinstance(result.error, PermissionDenied) and "lacks the permission" in result.error.message:
                result.error.hint = "permissions of the principal are given with --grant"
            print_error(result.error, as_json=False)
        else:
            value = shape["data"]
            print(visible(value if isinstance(value, str) else pretty(value)), flush=True)
        if not as_json:
            err().print(f"[dim]record {result.record}  session {shape['session']}[/]", soft_wrap=True)
    return Exit.DONE if result.error is None else exit_of(result.error)


@dataclass(frozen=True, slots=True)
class Target:
    """What is called: a tool, and by which agent or in which session, as the command line named them."""

    tool: str
    agent: str | None
    session: str | None


async def _call(
    settings: Settings, target: Target, data: Json, timeout: float | None, *, quiet: bool
) -> tuple[Result[Any], dict[str, Any]]:
    registry = Registry.installed()
    # Found first, so that a misspelt name makes no database.
    agent = _agent(registry, target) if target.session is None else None
    async with open_session(settings, registry, agent, target.session) as opened:
        session = opened.options(timeout=timeout) if timeout else opened
        return await _run(session, target.tool, data, quiet=quiet)


def _agent(registry: Registry, target: Target) -> Agent:
    """Return the agent that is asked for, or one of the tool's capability alone."""
    if target.agent is not None:
        return find_agent(registry, target.agent)
    name, dot, _ = target.tool.partition(".")
    if not dot:
        raise DefinitionError(f"say which capability's tool: CAPABILITY.TOOL; got {target.tool!r}")
    return Agent(name.replace(":", "-"), uses=[registry.get(name)])


async def _run(session: Session, tool: str, data: Json, *, quiet: bool) -> tuple[Result[Any], dict[str, Any]]:
    reply: Any = None
    async with session.invoke(session.message(tool, data)) as messages:
        async for message in messages:
            match message:
                case Message(kind="event", type="progress", data=progress) if not quiet:
                    told = f"{progress['fraction']:>4.0%} {progress['message'] or ''}"
                    err().print(f"[dim]{cell(told)}[/]", soft_wrap=True)
                case Message(kind="reply"):
                    reply = message.data
                case _:
                    pass
        return messages.result, call_data(messages.result, reply, session.id)


def _read_arguments(given: str) -> bytes:
    """Return the arguments' JSON text. Raises ``DefinitionError`` if it is not there, or not a JSON object."""
    source = "stdin" if given == "-" else given.removeprefix("@")
    try:
        if given == "-":
            text = sys.stdin.buffer.read(MAX_ARGUMENT_BYTES + 1)
        elif given.startswith("@"):
            with Path(source).open("rb") as file:
                text = file.read(MAX_ARGUMENT_BYTES + 1)
        else:
            text = given.encode(errors="surrogateescape")
    except OSError as error:
        raise DefinitionError(f"--args: {source!r} cannot be read: {error.strerror}") from None
    if len(text) > MAX_ARGUMENT_BYTES:
        raise DefinitionError(f"--args: at most {MAX_ARGUMENT_BYTES} bytes of JSON are taken")
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise DefinitionError(f"--args is not JSON: {error}", hint="""quote it: --args '{"a": 2}'""") from None
    if not isinstance(value, dict):
        raise DefinitionError(f"--args must be a JSON object, such as {{}}; got {type(value).__name__}")
    return text
