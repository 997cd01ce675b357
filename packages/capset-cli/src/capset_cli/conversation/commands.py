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
from capset_agents.budgets import SUMMARISE_AT
from capset_cli.common.allowances import UsageOption, load_allowance
from capset_cli.common.configuration import ConfigFile
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
from capset_cli.common.process import on_ending
from capset_cli.common.remote import Server, Url, server_of, written_options
from capset_cli.common.settings import Settings, load_settings
from capset_cli.common.targets import Served, find_served, open_kernel
from capset_cli.conversation.talk import LocalTalk, RemoteTalk, Talk
from capset_cli.conversation.view import TurnView, exit_of

if TYPE_CHECKING:
    from capset_agents.runner import AgentRunner
    from capset_server.client import Client

APPROVER_KEY: Final = "CAPSET_APPROVER_KEY"
"""The environment variable with the key of a second principal, who decides requests on a server."""
_SHOW: Final = "show"
"""The answer that asks to see the masked arguments."""

AgentName = Annotated[
    str | None,
    typer.Argument(metavar="AGENT", help="An agent file, the name of an installed agent, or the id of a stored one."),
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
class _Options:
    """The options that both commands take."""

    agent: str | None
    session: str | None
    approver: str | None
    waits: bool
    as_json: bool
    place: str
    """The options by which another command finds the same database or server."""
    again: str
    """The options with which this command continues the session."""


@guarded
def run_command(
    agent: AgentName = None,
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="What the agent should do; - reads stdin.")] = None,
    session: SessionOption = None,
    model: ModelOption = None,
    allow_model: AllowedModels = None,
    max_steps: MaxSteps = 50,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    summarise_at: SummariseAt = SUMMARISE_AT,
    usage_limit: UsageOption = None,
    record: Record = None,
    approver: Approver = None,
    wait: Wait = None,
    config: ConfigFile = None,
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
    if task is None and (session is not None or config is not None):  # which have their own agent
        agent, task = None, agent
    if session is None and task is None:
        raise DefinitionError(
            "say what the agent is to do: capset run AGENT TASK, or capset run TASK --config FILE for the file's agent"
        )
    text = sys.stdin.read() if task == "-" else task
    waits = sys.stdin.isatty() if wait is None else wait
    place = written_options(url=url, db=db)
    resume_options = written_options(
        config=config, model=model, principal=principal, grant=grant, attribute=attribute, env=env
    )
    options = _Options(agent, session, approver, waits, as_json, place, resume_options + place)

    async def work(talk: Talk) -> Exit:
        view = TurnView(as_json=as_json)
        code = await _turn(talk, view, text, options)
        if code is None:
            raise KeyboardInterrupt
        return code

    return _converse(
        work,
        options,
        url,
        model=model,
        allow_model=allow_model,
        limits=(max_steps, max_cost, max_tokens, summarise_at),
        usage_limit=usage_limit,
        record=record,
        config=config,
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
    max_steps: MaxSteps = 50,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    summarise_at: SummariseAt = SUMMARISE_AT,
    usage_limit: UsageOption = None,
    record: Record = None,
    approver: Approver = None,
    config: ConfigFile = None,
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
    options = _Options(agent, session, approver, True, as_json, written_options(url=url, db=db), "")

    async def work(talk: Talk) -> Exit:
        return await _chat(talk, options)

    return _converse(
        work,
        options,
        url,
        model=model,
        allow_model=allow_model,
        limits=(max_steps, max_cost, max_tokens, summarise_at),
        usage_limit=usage_limit,
        record=record,
        config=config,
        grant=grant,
        attribute=attribute,
        env=env,
        principal=principal,
        db=db,
    )


def _converse(
    work: Callable[[Talk], Awaitable[Exit]],
    options: _Options,
    url: str | None,
    *,
    model: str | None,
    allow_model: list[str] | None,
    limits: tuple[int, float | None, int | None, int],
    usage_limit: list[str] | None,
    record: Path | None,
    config: ConfigFile,
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
        "config": config,
        "grant": grant,
        "attribute": attribute,
    }
    local_options |= {"env": env, "principal": principal, "db": db, "approver": options.approver, "record": record}
    local_options |= {"usage-limit": usage_limit}
    if (server := server_of(url, **local_options)) is not None:
        return asyncio.run(_remote(work, server, options))
    runner = make_runner(model, allow_model or (), *limits, record=record, append=options.session is not None)
    settings = load_settings(db=db, principal=principal, grant=grant, attribute=attribute, env=env)
    allowance = load_allowance(None, None, None, usage_limit)
    served = find_served(Registry.installed(), options.agent, options.session, config, settings.db, allowance)
    return asyncio.run(_local(work, settings, served, runner, options))


async def _local(
    work: Callable[[Talk], Awaitable[Exit]],
    settings: Settings,
    served: Served,
    runner: AgentRunner,
    options: _Options,
) -> Exit:
    async with open_kernel(settings, served, options.session, generator=runner) as (kernel, session):
        row = await kernel.find_session(session.id)
        assert row is not None  # noqa: S101  # it has just been opened
        talk = LocalTalk(kernel, row, session, settings, options.approver)
        watching = asyncio.create_task(talk.turns.watch())
        try:
            return await work(talk)
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching


async def _remote(work: Callable[[Talk], Awaitable[Exit]], server: Server, options: _Options) -> Exit:
    async with server.open() as client, _second(server) as approver:
        if options.session is None:
            if options.agent is None:
                raise DefinitionError("name an agent by its id on the server, or a session to continue with --session")
            session = (await client.sessions.create(options.agent)).id
        else:
            session = (await client.sessions.get(options.session)).id
        return await work(RemoteTalk(client, session, approver))


@asynccontextmanager
async def _second(server: Server) -> AsyncGenerator[Client | None]:
    """Yield a client with the key of the second principal, or ``None`` without such a key."""
    key = os.environ.get(APPROVER_KEY)
    if not key:
        yield None
        return
    async with Server(server.url, key).open() as client:
        yield client


async def _chat(talk: Talk, options: _Options) -> Exit:
    view = TurnView(as_json=options.as_json)
    view.tell(f"[dim]session {cell(talk.session)}; Ctrl-D ends the chat[/]")
    if options.session is not None and (past := await talk.past()) and past[-1].type not in ENDINGS:
        await _turn(talk, view, None, options)
    while True:
        try:
            line = await asyncio.to_thread(_read_line, "" if options.as_json else "> ")
        except EOFError:
            return Exit.DONE
        if not line.strip():
            continue
        try:
            await _turn(talk, view, line, options)
        except TurnSuspended as waiting:
            view.tell(f"[yellow]{cell(waiting.message)}[/]")


def _read_line(prompt: str) -> str:
    if prompt:
        print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


async def _turn(talk: Talk, view: TurnView, content: str | None, options: _Options) -> Exit | None:
    """Run one turn, or continue the newest one; return its exit code, ``None`` after Ctrl-C.

    If that turn has ended since, for example because its server continued it, its end is shown.
    """
    if content is None:
        past = await talk.past()
        if not past:
            raise DefinitionError("the session has no turn yet: say what the agent is to do")
        turn, after = past[-1].turn, past[-1].seq
        if past[-1].type in ENDINGS or await talk.is_pending():
            # Show the requests again, with everything since the turn began or was resumed.
            after = max((event.seq for event in past if event.type in ("turn.started", "turn.resumed")), default=0)
    else:
        content.encode()  # text that is not UTF-8 is bad input
        turn, after = await talk.send(content)
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        following.cancel()

    following = asyncio.ensure_future(_follow(talk, view, turn, after, options))
    on_ending(interrupt)
    try:
        return await following
    except asyncio.CancelledError:
        if not interrupted:
            raise
        view.clear()
        await talk.cancel(turn)
        view.tell("[dim]cancelled; the session stays open[/]")
        return None
    finally:
        view.clear()


async def _follow(talk: Talk, view: TurnView, turn: str, after: int, options: _Options) -> Exit:
    requests: list[EventShape] = []
    async for event in talk.events(turn, after):
        view.show(event)
        if event.type in ENDINGS:
            return exit_of(event)
        if event.type == "approval.requested":
            requests.append(event)
        elif event.type == "turn.suspended":
            decided = await _decide(talk, view, requests) if talk.can_decide else False
            requests = []
            if not decided:
                for approval in event.data["approvals"]:
                    approve = f"capset approvals approve {approval}{talk.approve_options}{options.place}"
                    view.tell(f"[yellow]waits for an approval:[/] {cell(approve)}")
                if not options.waits:
                    view.tell(f"[dim]then: capset run --session {cell(talk.session + options.again)}[/]")
                    return Exit.REFUSED
    return Exit.FAILED


async def _decide(talk: Talk, view: TurnView, requests: list[EventShape]) -> bool:
    """Ask the user about each request, and decide it; return whether all were decided."""
    for request in requests:
        try:
            answer = await asyncio.to_thread(_ask, is_masked=bool(request.data.get("masked")))
            if answer == _SHOW:
                view.show_arguments(await talk.unmasked(str(request.data["id"])))
                answer = await asyncio.to_thread(_ask)
            if answer is None or isinstance(answer, str):
                return False
            is_decided = await talk.decide(str(request.data["id"]), answer)
        except CapsetError as error:
            view.tell(f"[red]error:[/] {cell(error.message)}")
            return False
        if not is_decided:
            view.tell("[yellow]it needs the approval of a different principal, too[/]")
            return False
    return True


def _ask(*, is_masked: bool = False) -> Answer | str | None:
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
