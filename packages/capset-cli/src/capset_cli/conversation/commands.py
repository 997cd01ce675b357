"""``capset run AGENT TASK`` and ``capset chat AGENT``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer
from pydantic_core import from_json

from capset.definitions.governance.approvals import Answer
from capset.errors import CapsetError, DefinitionError, TurnSuspended
from capset.kernel.registry import Registry
from capset.wire.turns import ENDINGS, EventShape
from capset_cli.common.allowances import UsageOption, load_allowance
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.models import (
    AllowedModels,
    MaxCost,
    MaxSteps,
    MaxTokens,
    ModelOption,
    Record,
    SummariseAt,
    make_runner,
)
from capset_cli.common.options import AsJson, Attribute, Db, Env, Grant, Who
from capset_cli.common.output import cell
from capset_cli.common.process import on_termination_signal
from capset_cli.common.remote import Server, Url, connect_options, format_options, select_server
from capset_cli.common.settings import Settings, load_settings
from capset_cli.common.targets import Target, find_target, open_kernel, refuse_agent_with_session
from capset_cli.conversation.conversations import LocalConversation, OpenConversation, RemoteConversation
from capset_cli.conversation.view import TurnView, exit_code_of

if TYPE_CHECKING:
    from capset_agents.runner import AgentRunner
    from capset_server.client import Client

APPROVER_KEY: Final = "CAPSET_APPROVER_KEY"
"""The environment variable with the key of a second principal, who decides requests on a server."""
_SHOW: Final = "show"
"""The answer that asks to see the masked arguments."""

AgentName = Annotated[
    str | None,
    typer.Argument(
        metavar="AGENT", help="A configuration file, the name of an installed agent, or the id of a stored one."
    ),
]
SessionOption = Annotated[str | None, typer.Option("--session", "--resume", help="The id of a session to continue.")]
Approver = Annotated[
    str | None,
    typer.Option(
        help="The principal, other than --principal, that decides approval requests here. You are asked each time."
    ),
]
Wait = Annotated[
    bool | None,
    typer.Option("--wait/--no-wait", help="Wait until another principal decides a request; the default on a terminal."),
]


@dataclass(frozen=True, slots=True)
class _TurnOptions:
    """The options that both commands take."""

    agent: str | None
    session: str | None
    approver: str | None
    waits: bool
    as_json: bool
    target_options: str
    """The options by which another command finds the same database or server."""
    resume_options: str
    """The options with which this command continues the session."""
    connect_options: str
    """The options of ``capset connect``."""


@guarded
def run_command(
    agent: AgentName = None,
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="What the agent should do; - reads stdin.")] = None,
    session: SessionOption = None,
    model: ModelOption = None,
    allow_model: AllowedModels = None,
    max_steps: MaxSteps = None,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    summarise_at: SummariseAt = None,
    usage_limit: UsageOption = None,
    record: Record = None,
    approver: Approver = None,
    wait: Wait = None,
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    principal: Who = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Have an agent do a task, and print its answer. Each of its calls is governed and recorded.

    With --session, the agent continues a session; without TASK, it resumes a turn that waited for an approval. Exits
    with 0 if the agent finished, 3 if it was refused or waits for an approval, 1 if it failed. --json prints one event
    per line.
    """
    if task is None and session is not None and not (agent and Path(agent).is_file()):  # the session has its own agent
        agent, task = None, agent
    if session is None and task is None:
        raise DefinitionError("say what the agent is to do: capset run AGENT TASK")
    text = sys.stdin.read() if task == "-" else task
    waits = sys.stdin.isatty() if wait is None else wait
    target_options = format_options(url=url, db=db)
    resume_options = format_options(model=model, principal=principal, grant=grant, attribute=attribute, env=env)
    connect = connect_options(agent=agent, principal=principal, url=url, db=db)
    options = _TurnOptions(
        agent, session, approver, waits, as_json, target_options, resume_options + target_options, connect
    )

    async def work(conversation: OpenConversation) -> Exit:
        view = TurnView(as_json=as_json)
        code = await _run_turn(conversation, view, text, options)
        if code is None:
            raise KeyboardInterrupt
        return code

    return _run_conversation(
        work,
        options,
        url,
        model=model,
        allow_model=allow_model,
        limits=(max_steps, max_cost, max_tokens, summarise_at),
        usage_limit=usage_limit,
        record=record,
        grant=grant,
        attribute=attribute,
        env=env,
        principal=principal,
        db=db,
    )


@guarded
def chat_command(
    agent: AgentName = None,
    session: SessionOption = None,
    model: ModelOption = None,
    allow_model: AllowedModels = None,
    max_steps: MaxSteps = None,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    summarise_at: SummariseAt = None,
    usage_limit: UsageOption = None,
    record: Record = None,
    approver: Approver = None,
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    principal: Who = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Chat with an agent: each line is a turn. Ctrl-C cancels the turn and keeps the session; Ctrl-D ends the chat.

    --resume continues a session, including a turn in it that waits for an approval.
    """
    connect = connect_options(agent=agent, principal=principal, url=url, db=db)
    options = _TurnOptions(agent, session, approver, True, as_json, format_options(url=url, db=db), "", connect)

    async def work(conversation: OpenConversation) -> Exit:
        return await _chat(conversation, options)

    return _run_conversation(
        work,
        options,
        url,
        model=model,
        allow_model=allow_model,
        limits=(max_steps, max_cost, max_tokens, summarise_at),
        usage_limit=usage_limit,
        record=record,
        grant=grant,
        attribute=attribute,
        env=env,
        principal=principal,
        db=db,
    )


def _run_conversation(
    work: Callable[[OpenConversation], Awaitable[Exit]],
    options: _TurnOptions,
    url: str | None,
    *,
    model: str | None,
    allow_model: list[str] | None,
    limits: tuple[int | None, float | None, int | None, int | None],
    usage_limit: list[str] | None,
    record: Path | None,
    grant: list[str] | None,
    attribute: list[str] | None,
    env: list[str] | None,
    principal: str | None,
    db: str | None,
) -> Exit:
    """Open the requested conversation, and run ``work`` in it."""
    local_options = {
        "model": model,
        "allow-model": allow_model,
        "grant": grant,
        "attribute": attribute,
    }
    local_options |= {"env": env, "principal": principal, "db": db, "approver": options.approver, "record": record}
    local_options |= {"usage-limit": usage_limit}
    local_options |= dict(zip(("max-steps", "max-cost", "max-tokens", "summarise-at"), limits, strict=True))
    if (server := select_server(url, **local_options)) is not None:
        return asyncio.run(_run_remotely(work, server, options))
    settings = load_settings(db=db, principal=principal, grant=grant, attribute=attribute, env=env)
    allowance = load_allowance(None, None, None, usage_limit)
    target = find_target(Registry.installed(), options.agent, options.session, settings, allowance)
    is_appended = options.session is not None
    runner = make_runner(
        model, allow_model or (), *limits, configuration=target.configuration, record=record, append=is_appended
    )
    return asyncio.run(_run_locally(work, settings, target, runner, options))


async def _run_locally(
    work: Callable[[OpenConversation], Awaitable[Exit]],
    settings: Settings,
    target: Target,
    runner: AgentRunner,
    options: _TurnOptions,
) -> Exit:
    async with open_kernel(settings, target, options.session, generator=runner) as (kernel, session):
        row = await kernel.find_session(session.id)
        assert row is not None  # noqa: S101  # it has just been opened
        conversation = LocalConversation(kernel, row, session.snapshot.composition.block, settings, options.approver)
        watching = asyncio.create_task(conversation.turns.watch())
        try:
            return await work(conversation)
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching


async def _run_remotely(
    work: Callable[[OpenConversation], Awaitable[Exit]], server: Server, options: _TurnOptions
) -> Exit:
    async with server.open() as client, _approver_client(server) as approver:
        refuse_agent_with_session(options.agent, options.session)
        if options.session is None:
            if options.agent is None:
                raise DefinitionError("name an agent by its id on the server, or a session to continue with --session")
            session = (await client.sessions.create(options.agent)).id
        else:
            session = (await client.sessions.get(options.session)).id
        return await work(RemoteConversation(client, session, approver))


@asynccontextmanager
async def _approver_client(server: Server) -> AsyncGenerator[Client | None]:
    """Yield a client with the key of the second principal, or ``None`` without such a key."""
    key = os.environ.get(APPROVER_KEY)
    if not key:
        yield None
        return
    async with Server(server.url, key).open() as client:
        yield client


async def _chat(conversation: OpenConversation, options: _TurnOptions) -> Exit:
    view = TurnView(as_json=options.as_json)
    view.print_note(f"[dim]session {cell(conversation.session)}; Ctrl-D ends the chat[/]")
    if options.session is not None and (events := await conversation.newest_turn()) and events[-1].type not in ENDINGS:
        await _run_turn(conversation, view, None, options)
    while True:
        try:
            line = await asyncio.to_thread(_read_line, "" if options.as_json else "> ")
        except EOFError:
            return Exit.DONE
        if not line.strip():
            continue
        try:
            await _run_turn(conversation, view, line, options)
        except TurnSuspended as waiting:
            view.print_note(f"[yellow]{cell(waiting.message)}[/]")


def _read_line(prompt: str) -> str:
    if prompt:
        print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


async def _run_turn(
    conversation: OpenConversation, view: TurnView, content: str | None, options: _TurnOptions
) -> Exit | None:
    """Run one turn, or continue the newest one; return its exit code, ``None`` after Ctrl-C.

    If that turn has ended since, for example because its server continued it, its end is shown.
    """
    if content is None:
        events = await conversation.newest_turn()
        if not events:
            raise DefinitionError("the session has no turn yet: say what the agent is to do")
        turn, after = events[-1].turn, events[-1].seq
        if events[-1].type in ENDINGS or await conversation.is_pending():
            # Show the requests again, with everything since the turn began or was resumed.
            after = max((event.seq for event in events if event.type in ("turn.started", "turn.resumed")), default=0)
    else:
        content.encode()  # text that is not UTF-8 is bad input
        turn, after = await conversation.send(content)
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        following.cancel()

    following = asyncio.ensure_future(_follow_turn(conversation, view, turn, after, options))
    on_termination_signal(interrupt)
    try:
        return await following
    except asyncio.CancelledError:
        if not interrupted:
            raise
        view.clear()
        await conversation.cancel(turn)
        view.print_note("[dim]cancelled; the session stays open[/]")
        return None
    finally:
        view.clear()


async def _follow_turn(
    conversation: OpenConversation, view: TurnView, turn: str, after: int, options: _TurnOptions
) -> Exit:
    requests: list[EventShape] = []
    async for event in conversation.events(turn, after):
        view.show(event)
        if event.type in ENDINGS:
            return exit_code_of(event)
        if event.type == "approval.requested":
            requests.append(event)
        elif event.type == "turn.suspended":
            connections = {str(row.data["id"]): row.data.get("connect") for row in requests}
            is_decided = await _decide_requests(conversation, view, requests) if conversation.can_decide else False
            requests = []
            if not is_decided:
                where = f"{conversation.approve_options}{options.target_options}"
                for approval in event.data["approvals"]:
                    connection = connections.get(approval)
                    command, awaited = f"approvals approve {approval}{where}", "an approval"
                    if connection is not None:
                        command, awaited = f"connect {connection}{options.connect_options}", "a connection"
                    view.print_note(f"[yellow]waits for {awaited}:[/] {cell(f'capset {command}')}")
                if not options.waits:
                    view.print_note(
                        f"[dim]then: capset run --session {cell(conversation.session + options.resume_options)}[/]"
                    )
                    return Exit.REFUSED
    return Exit.FAILED


async def _decide_requests(conversation: OpenConversation, view: TurnView, requests: list[EventShape]) -> bool:
    """Ask the user about each request, and decide it; return whether all were decided."""
    for request in requests:
        if request.data.get("connect") is not None:
            return False  # only connecting decides it
        try:
            answer = await asyncio.to_thread(_ask_user, is_masked=bool(request.data.get("masked")))
            if answer == _SHOW:
                view.show_arguments(await conversation.unmasked_arguments(str(request.data["id"])))
                answer = await asyncio.to_thread(_ask_user)
            if answer is None or isinstance(answer, str):
                return False
            is_decided = await conversation.decide(str(request.data["id"]), answer)
        except CapsetError as error:
            view.print_note(f"[red]error:[/] {cell(error.message)}")
            return False
        if not is_decided:
            view.print_note("[yellow]it needs the approval of a different principal, too[/]")
            return False
    return True


def _ask_user(*, is_masked: bool = False) -> Answer | str | None:
    """Return the user's answer: yes, no, or edit for other arguments; ``None`` at the end of the input.

    While a part of the arguments is masked, ``_SHOW`` takes the place of yes.
    """
    question = "a part of the arguments is masked: [s]how it" if is_masked else "approve? [y]es"
    while True:
        print(f"{question}, [n]o, [e]dit: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            return None
        match line.strip().lower():
            case "s" | "show" if is_masked:
                return _SHOW
            case "y" | "yes" if not is_masked:
                return Answer(approved=True)
            case "n" | "no":
                print("why (may be empty): ", end="", file=sys.stderr, flush=True)
                return Answer(approved=False, note=sys.stdin.readline().strip() or None)
            case "e" | "edit":
                print("arguments as JSON: ", end="", file=sys.stderr, flush=True)
                try:
                    arguments = from_json(sys.stdin.readline())
                except ValueError as error:
                    print(f"this is not JSON: {error}", file=sys.stderr)
                    continue
                if isinstance(arguments, dict):
                    return Answer(approved=True, arguments=cast("dict[str, Any]", arguments))
                print("arguments must be a JSON object", file=sys.stderr)
            case _:
                pass
