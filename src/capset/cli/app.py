"""The command ``capset``: one module for each command or group of them."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

import typer
import typer.core

from capset.cli.agents import archive_command, change_command, rollback_command
from capset.cli.agents import create_command as create_agent_command
from capset.cli.agents import list_command as list_agents_command
from capset.cli.agents import show_command as show_agent_command
from capset.cli.agents.servers import approve_command as approve_agent_tools_command
from capset.cli.agents.servers import tools_command
from capset.cli.agents.servers import withdraw_command as withdraw_agent_tools_command
from capset.cli.agents.versions import diff_command as diff_agent_command
from capset.cli.agents.versions import preview_command, versions_command
from capset.cli.approvals import approve_command, reject_command, show_command
from capset.cli.approvals import list_command as list_approvals_command
from capset.cli.audit.chain import (
    checkpoint_command,
    checkpoints_command,
    prune_command,
    verify_command,
)
from capset.cli.audit.keys import keygen_command, pin_command, succeed_command
from capset.cli.audit.records import export_command, query_command, tail_command
from capset.cli.call import call_command
from capset.cli.check import check_command
from capset.cli.compose import compose_command
from capset.cli.conversation.commands import chat_command, run_command
from capset.cli.db import backup_command, upgrade_command
from capset.cli.db import check_command as check_db_command
from capset.cli.demo import demo_command
from capset.cli.describe import describe_command
from capset.cli.diff import diff_command
from capset.cli.fingerprint import fingerprint_command
from capset.cli.gateway import gateway_command, import_command
from capset.cli.kernel import kernel_command
from capset.cli.key import create_command, revoke_command
from capset.cli.key import list_command as list_keys_command
from capset.cli.list import list_command
from capset.cli.mcp import mcp_command
from capset.cli.mcp.pins import approve_command as approve_mcp_command
from capset.cli.mcp.pins import diff_command as diff_mcp_command
from capset.cli.mcp.pins import list_command as list_mcp_command
from capset.cli.mcp.pins import lock_command
from capset.cli.mcp.withdrawal import withdraw_command
from capset.cli.replay import replay_command
from capset.cli.schema import schema_command
from capset.cli.serve import serve_command
from capset.cli.sessions import create_command as create_session_command
from capset.cli.sessions import (
    delete_command,
    events_command,
    fork_command,
    move_command,
    rewind_command,
    state_command,
)
from capset.cli.sessions import list_command as list_sessions_command
from capset.cli.sessions import show_command as show_session_command


class ServingGroup(typer.core.TyperGroup):
    """A group of commands of which ``serve`` is meant where none is named: ``capset gateway FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # of the click that typer has in it
        """Name the command ``serve`` if the first argument is none."""
        first = args[0] if args else ""
        is_named = first in self.commands or first in ctx.help_option_names
        return super().parse_args(ctx, args if is_named else ["serve", *args])


app = typer.Typer(
    name="capset",
    help="The capability layer for AI agents: what an agent can do, may do, did, and which exact version that was.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
audit = typer.Typer(help="Read, check, sign and cut the record of every attempt.", no_args_is_help=True)
agents = typer.Typer(help="List, write, compare and preview the agents that are stored.", no_args_is_help=True)
approvals = typer.Typer(help="List, approve and reject the calls that somebody has to approve.", no_args_is_help=True)
db = typer.Typer(help="Upgrade, check and back up a database.", no_args_is_help=True)
key = typer.Typer(help="Make, list and revoke API keys for the server.", no_args_is_help=True)
mcp = typer.Typer(
    cls=ServingGroup,
    help="Serve an agent's tools over standard streams (serve, if no command is named); approve tools of others.",
)
gateway = typer.Typer(
    cls=ServingGroup,
    help="Serve MCP servers and APIs, governed (serve, if no command is named); import servers.",
)
sessions = typer.Typer(help="List, make, move and delete sessions, and follow their events.", no_args_is_help=True)
app.command("list")(list_command)
app.command("describe")(describe_command)
app.command("call")(call_command)
app.command("check")(check_command)
app.command("compose")(compose_command)
app.command("fingerprint")(fingerprint_command)
app.command("diff")(diff_command)
app.command("replay")(replay_command)
app.command("schema")(schema_command)
app.command("kernel")(kernel_command)
app.command("serve")(serve_command)
app.command("run")(run_command)
app.command("chat")(chat_command)
app.add_typer(mcp, name="mcp")
mcp.command("serve")(mcp_command)
mcp.command("list")(list_mcp_command)
mcp.command("diff")(diff_mcp_command)
mcp.command("approve")(approve_mcp_command)
mcp.command("withdraw")(withdraw_command)
mcp.command("lock")(lock_command)
app.add_typer(gateway, name="gateway")
gateway.command("serve")(gateway_command)
gateway.command("import")(import_command)
app.add_typer(key, name="key")
key.command("create")(create_command)
key.command("list")(list_keys_command)
key.command("revoke")(revoke_command)
app.add_typer(agents, name="agents")
agents.command("list")(list_agents_command)
agents.command("show")(show_agent_command)
agents.command("create")(create_agent_command)
agents.command("change")(change_command)
agents.command("archive")(archive_command)
agents.command("versions")(versions_command)
agents.command("diff")(diff_agent_command)
agents.command("rollback")(rollback_command)
agents.command("preview")(preview_command)
agents.command("tools")(tools_command)
agents.command("approve")(approve_agent_tools_command)
agents.command("withdraw")(withdraw_agent_tools_command)
app.add_typer(sessions, name="sessions")
sessions.command("list")(list_sessions_command)
sessions.command("show")(show_session_command)
sessions.command("create")(create_session_command)
sessions.command("move")(move_command)
sessions.command("delete")(delete_command)
sessions.command("state")(state_command)
sessions.command("events")(events_command)
sessions.command("fork")(fork_command)
sessions.command("rewind")(rewind_command)
app.add_typer(audit, name="audit")
audit.command("query")(query_command)
audit.command("verify")(verify_command)
audit.command("tail")(tail_command)
audit.command("export")(export_command)
audit.command("keygen")(keygen_command)
audit.command("pin")(pin_command)
audit.command("succeed")(succeed_command)
audit.command("checkpoint")(checkpoint_command)
audit.command("checkpoints")(checkpoints_command)
audit.command("prune")(prune_command)
app.add_typer(db, name="db")
db.command("upgrade")(upgrade_command)
db.command("check")(check_db_command)
db.command("backup")(backup_command)
app.add_typer(approvals, name="approvals")
approvals.command("list")(list_approvals_command)
approvals.command("show")(show_command)
approvals.command("approve")(approve_command)
approvals.command("reject")(reject_command)
app.command("demo")(demo_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"capset {version('capset')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take the options that belong to no command."""
