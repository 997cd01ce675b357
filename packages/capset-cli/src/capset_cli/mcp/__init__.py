"""``capset mcp``: an agent's tools for an MCP client, over standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from functools import partial
from typing import Annotated

import typer

from capset.errors import DefinitionError
from capset.kernel.registry import Registry
from capset_cli.common.allowances import LimitOption, RunBudget, SessionBudget, load_allowance
from capset_cli.common.configuration import AgentOption
from capset_cli.common.exits import Exit, guarded, require_extra
from capset_cli.common.options import Attribute, Db, Env, Grant, Who
from capset_cli.common.process import on_termination_signal
from capset_cli.common.settings import Settings, load_settings
from capset_cli.common.sources import log_need, source_options, warn_of_sources
from capset_cli.common.targets import Target, find_target, open_kernel, print_session
from capset_cli.common.temporary_folder import own_temporary_folder


@guarded
def mcp_command(
    agent: AgentOption = None,
    session: Annotated[str | None, typer.Option(help="The id of a session to continue.")] = None,
    new_session: Annotated[
        bool, typer.Option("--new-session", help="Start a new session instead of continuing the permanent one.")
    ] = False,
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    principal: Who = None,
    limit: LimitOption = None,
    session_budget: SessionBudget = None,
    run_budget: RunBudget = None,
    db: Db = None,
) -> Exit:
    """Serve an agent's tools to an MCP client, over stdin and stdout.

    It continues the permanent session of the principal with the agent, with its files, state and approval requests, as
    a server does at /mcp/agents/ID.
    It exits with 0 when the client closes stdin, or on Ctrl-C or SIGTERM.
    """
    if new_session and session is not None:
        raise DefinitionError("--session names an existing session: give --session or --new-session, not both")
    require_extra("mcp", "mcp")
    settings = load_settings(db=db, principal=principal, grant=grant, attribute=attribute, env=env)
    allowance = load_allowance(limit, session_budget, run_budget)
    with own_temporary_folder(), contextlib.redirect_stdout(sys.stderr):  # stdout is the protocol's
        # Resolved first, so that a misspelt name creates no database.
        target = find_target(Registry.installed(), agent, session, settings, allowance)
        options = ""
        if target.configuration is not None and target.upstream is not None:
            options = source_options(target.configuration.path, db)
            warn_of_sources(target.configuration, target.upstream.pins, options)
        asyncio.run(_serve(settings, target, session, options, is_permanent=not new_session))
    return Exit.DONE


async def _serve(
    settings: Settings, target: Target, session_id: str | None, command_options: str, *, is_permanent: bool
) -> None:
    from capset_server.auth.signing_keys import StoredKeys
    from capset_server.mcp import serve_stdio
    from capset_server.mcp.exchanges import ApprovalAccess

    async with open_kernel(settings, target, session_id, is_permanent=is_permanent) as (kernel, session):
        if target.configuration is not None and target.upstream is not None:
            sources = target.upstream.declared_sources(kernel, target.configuration, command_options)
            target.upstream.watch(sources, partial(log_need, command_options))
        principal = session.snapshot.principal
        access = ApprovalAccess(
            decide=partial(kernel.approvals.decide, by=principal) if kernel.governance.own_approvals else None,
            refusal=partial(kernel.approvals.refusal, by=principal),
        )
        serving = asyncio.ensure_future(serve_stdio(session, keys=StoredKeys(kernel), approvals=access))
        on_termination_signal(serving.cancel)
        print_session(session)
        with contextlib.suppress(asyncio.CancelledError):
            await serving
