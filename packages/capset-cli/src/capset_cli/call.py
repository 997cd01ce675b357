"""``capset call``, with its progress: a bar on a terminal, lines elsewhere, nothing for programs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, cast

import typer
from pydantic_core import from_json

from capset.definitions.calls.messages import Json, Message
from capset.definitions.governance.allowances import Allowance
from capset.errors import CapsetError, ConnectionRequired, DefinitionError, PermissionDenied
from capset.kernel.call.session import Session
from capset.kernel.registry import Registry
from capset.wire.calls import MessageShape, approval_of, call_data, progress_of
from capset_cli.common.allowances import LimitOption, RunBudget, SessionBudget, load_allowance
from capset_cli.common.bars import CallBars
from capset_cli.common.configuration import AgentOption
from capset_cli.common.exits import Exit, guarded, ignoring_closed_pipe
from capset_cli.common.options import AsJson, Attribute, Db, Env, Grant, Who, check_seconds, read_arguments
from capset_cli.common.output import cell, err, pretty, print_error, print_json
from capset_cli.common.remote import Url, connect_options, format_options, run_on_server, select_server
from capset_cli.common.settings import Settings, load_settings
from capset_cli.common.targets import Target, agent_with, find_target, open_session, refuse_agent_with_session
from capset_cli.common.texts import visible

if TYPE_CHECKING:
    from capset_server.client import Client

_MISSING_PERMISSIONS: Final = re.compile(r"lacks the permission (\S+(?: and \S+)*)")


class ProgressView:
    """The progress of a call on stderr: ``with ProgressView(quiet=…) as view: view.show(event)``.

    The bar disappears at the end. A call that waits for an approval is always reported, with the command to approve
    it; ``where`` has the options by which that command finds the request, ``connect`` those of ``capset connect``. If
    such a call is interrupted, a note says
    how to repeat it in its ``session``.
    """

    def __init__(self, *, quiet: bool, where: str = "", connect: str = "", session: str | None = None) -> None:
        self._bars = None if quiet else CallBars(err())
        self._where = where
        self._connect = connect
        self._session = session
        self._approval_id: str | None = None
        """The newest approval request of the call, which may have been decided since."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bar."""
        if self._bars is not None:
            self._bars.stop()
        if self._approval_id is not None and self._session is not None and isinstance(error, asyncio.CancelledError):
            note = (
                f"the request {self._approval_id} stays open unless decided; once approved, it is used when the same "
                f"call with --session {self._session} is made"
            )
            err().print(f"[dim]{cell(note)}[/]", soft_wrap=True)

    def show(self, message: Message | MessageShape) -> None:
        """Show an event. Other messages are ignored."""
        data: object = message.data
        if message.kind == "event" and message.type == "approval.requested" and isinstance(data, Mapping):
            self._show_request(cast("Mapping[str, object]", data))
            return
        if self._bars is None or message.kind != "event":
            return
        if (progress := progress_of(message)) is not None:
            self._bars.show("", progress)
        else:
            self._bars.print_line(f"{message.type} {json.dumps(message.data, ensure_ascii=False)}")

    def _show_request(self, request: Mapping[str, object]) -> None:
        """Report a call that waits for an approval or a connection, with the command for it."""
        self._approval_id, connection = str(request.get("id")), request.get("connect")
        command = f"approvals approve {shlex.quote(self._approval_id)}{self._where}"
        if connection is not None:
            command = f"connect {connection}{self._connect}"
        requested_call = f"{request.get('tool')} {json.dumps(request.get('arguments'), ensure_ascii=False)}"
        console = err()
        awaited = "an approval" if connection is None else "a connection"
        console.print(f"[yellow]waiting for {awaited}:[/] {cell(requested_call)}", soft_wrap=True)
        console.print(f"[dim]{cell(str(request.get('reason')))}[/]", soft_wrap=True)
        console.print(f"[dim]{cell(f'capset {command}')}[/]", soft_wrap=True)


@guarded
def call_command(
    tool: Annotated[str, typer.Argument(help="CAPABILITY.TOOL; with --agent or --session, TOOL is enough.")],
    arguments: Annotated[
        str, typer.Option("--args", metavar="JSON", help="A JSON object; @FILE reads a file and - reads stdin.")
    ] = "{}",
    agent: AgentOption = None,
    session: Annotated[str | None, typer.Option(help="The id of a session to continue.")] = None,
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    timeout: Annotated[float | None, typer.Option(help="The timeout of the call, in seconds.")] = None,
    defer: Annotated[
        bool, typer.Option("--defer", help="Do not wait for an approval: exit, and print the request's id.")
    ] = False,
    approval: Annotated[
        str | None, typer.Option(help="The id of the approval request to use; needs --session.")
    ] = None,
    limit: LimitOption = None,
    session_budget: SessionBudget = None,
    run_budget: RunBudget = None,
    principal: Who = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Call one tool, governed and on record.

    Without --agent or --session, the call runs in a new session of an agent with only the named capability.
    With --url, it runs on a server, and needs --agent or --session there.
    A call that needs an approval waits for it, and prints the command to approve it on stderr.
    """
    budgets = {"session-budget": session_budget, "run-budget": run_budget}
    local_options = {"principal": principal, "grant": grant, "attribute": attribute, "env": env}
    server = select_server(url, db=db, **local_options, limit=limit, **budgets)
    if approval is not None and session is None:
        raise DefinitionError("an approval belongs to a session: name it with --session")
    data = read_arguments(arguments)
    check_seconds("--timeout", timeout)
    where = ("" if server is not None else " --principal WHO") + format_options(url=url, db=db)
    connect = connect_options(agent=agent, principal=principal, url=url, db=db)
    approvals = "defer" if defer else "wait"
    options = _CallOptions(timeout, approvals, approval, quiet=as_json, where=where, connect=connect)
    allowance = None if server is not None else load_allowance(limit, session_budget, run_budget)
    request = TargetOptions(tool, agent, session, allowance)
    if server is not None:
        error, shape = run_on_server(server, lambda client: _call_on_server(client, request, data, options))
    else:
        settings = load_settings(db=db, principal=principal, grant=grant, attribute=attribute, env=env)
        with contextlib.redirect_stdout(sys.stderr):  # output of a handler is not the result
            error, shape = asyncio.run(_call(settings, request, Json(data), options))
    with ignoring_closed_pipe():
        if as_json:
            print_json(shape)
        elif error is not None:
            if (
                isinstance(error, PermissionDenied)
                and (missing := _MISSING_PERMISSIONS.search(error.message)) is not None
            ):
                grants = format_options(grant=missing[1].split(" and "))
                command = "" if server is None else "on the server: capset key create NAME --principal WHO"
                error.hint = f"{command}{grants}".strip()
            if (approval_id := approval_of(error)) is not None:
                session_option = f"--session {shape['session']}"
                connection = error.connection if isinstance(error, ConnectionRequired) else None
                command = f"approvals approve {approval_id}{where}"
                if connection is not None:
                    command = f"connect {connection}{connect}"
                error.hint = f"capset {command}; then repeat the call with {session_option}"
            print_error(error, as_json=False)
        else:
            value = shape["data"]
            print(visible(value if isinstance(value, str) else pretty(value)), flush=True)
            if (note := shape.get("note")) is not None:
                err().print(visible(note), markup=False, soft_wrap=True)
        if not as_json:
            err().print(f"[dim]record {shape['record']}  session {shape['session']}[/]", soft_wrap=True)
    return Exit.DONE if error is None else Exit.REFUSED if shape["refused"] else Exit.FAILED


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The called tool, its agent or session as given on the command line, and the allowance."""

    tool: str
    agent: str | None
    session: str | None
    allowance: Allowance | None = None


@dataclass(frozen=True, slots=True)
class _CallOptions:
    """The options of a call: timeout, approval handling, and output.

    ``where`` has the options by which ``capset approvals`` finds its request, ``connect`` those of ``capset connect``.
    """

    timeout: float | None
    approvals: Literal["wait", "defer"]
    approval: str | None
    quiet: bool
    where: str
    connect: str


CallOutcome = tuple[CapsetError | None, dict[str, Any]]
"""The error, if any, and the call's wire shape as plain JSON data."""


async def _call_on_server(client: Client, request: TargetOptions, data: bytes, options: _CallOptions) -> CallOutcome:
    from capset_server.client import error_of

    refuse_agent_with_session(request.agent, request.session)
    session = request.session
    if session is None:
        if request.agent is None:
            raise DefinitionError(
                "name a session on the server with --session, or an agent for a new session with --agent",
                hint="--agent takes the id of an agent stored on the server, or the name of one installed there",
            )
        session = (await client.sessions.create(request.agent)).id
    call, arguments = (session, request.tool), from_json(data)
    if options.approvals == "defer":
        result = await client.call(*call, arguments, timeout=options.timeout, approval=options.approval)
    else:
        async with client.stream(*call, arguments, timeout=options.timeout, approval=options.approval) as events:
            with ProgressView(
                quiet=options.quiet, where=options.where, connect=options.connect, session=session
            ) as view:
                async for event in events:
                    view.show(event)
        result = events.result
    error = result.error
    return (None if error is None else error_of(error)), result.plain()


async def _call(settings: Settings, request: TargetOptions, data: Json, options: _CallOptions) -> CallOutcome:
    # Resolved first, so that a misspelt name creates no database.
    async with open_session(
        settings, find_tool_target(Registry.installed(), request, settings), request.session
    ) as opened:
        session = opened.options(timeout=options.timeout, approvals=options.approvals, approval=options.approval)
        return await _run(session, request.tool, data, options)


def find_tool_target(registry: Registry, request: TargetOptions, settings: Settings) -> Target:
    """Return the requested agent, or one with only the tool's capability."""
    if any(choice is not None for choice in (request.agent, request.session)):
        return find_target(registry, request.agent, request.session, settings, request.allowance)
    name, dot, _ = request.tool.partition(".")
    if not dot:
        raise DefinitionError(f"the tool must be CAPABILITY.TOOL; got {request.tool!r}")
    return Target(registry, agent_with(registry.get(name)), allowance=request.allowance)


async def _run(session: Session, tool: str, data: Json, options: _CallOptions) -> CallOutcome:
    reply: Any = None
    async with session.invoke(session.message(tool, data)) as messages:
        with ProgressView(
            quiet=options.quiet, where=options.where, connect=options.connect, session=session.id
        ) as view:
            async for message in messages:
                view.show(message)
                if message.kind == "reply":
                    reply = message.data
        return messages.result.error, call_data(messages.result, reply, session.id)
