"""The command ``capset``. Each command or group has its own module, which is imported when it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final

import typer
import typer.core
import typer.main

COMMANDS: Final = {
    "init": "init:init_command",
    "check": "check:check_command",
    "doctor": "doctor:doctor_command",
    "list": "list:list_command",
    "describe": "describe:describe_command",
    "schema": "schema:schema_command",
    "demo": "demo:demo_command",
    "run": "conversation.commands:run_command",
    "chat": "conversation.commands:chat_command",
    "call": "call:call_command",
    "connect": "connections.connect:connect_command",
    "serve": "serve:serve_command",
    "worker": "worker:worker_command",
    "kernel": "kernel:kernel_command",
    "fingerprint": "fingerprint:fingerprint_command",
    "compose": "compose:compose_command",
    "diff": "diff:diff_command",
    "replay": "replay:replay_command",
    "export": "interop.exports:export_command",
    "import": "interop.imports:import_command",
    "bench": "bench:bench_command",
}
"""The commands outside of groups, each with the location of its function below ``capset_cli``."""
GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "mcp": {
        "serve": "mcp:mcp_command",
        "list": "mcp.pins:list_command",
        "diff": "mcp.pins:diff_command",
        "approve": "mcp.pins:approve_command",
        "withdraw": "mcp.withdrawal:withdraw_command",
        "lock": "mcp.pins:lock_command",
    },
    "gateway": {
        "serve": "gateway:gateway_command",
        "import": "gateway:import_command",
    },
    "key": {
        "create": "key:create_command",
        "list": "key:list_command",
        "revoke": "key:revoke_command",
    },
    "people": {
        "add": "people:add_command",
        "list": "people:list_command",
        "remove": "people:remove_command",
    },
    "deliveries": {
        "list": "deliveries:list_command",
        "retry": "deliveries:retry_command",
    },
    "agents": {
        "list": "agents:list_command",
        "show": "agents:show_command",
        "create": "agents:create_command",
        "change": "agents:change_command",
        "archive": "agents:archive_command",
        "versions": "agents.versions:versions_command",
        "diff": "agents.versions:diff_command",
        "rollback": "agents:rollback_command",
        "preview": "agents.versions:preview_command",
        "tools": "agents.servers:tools_command",
        "approve": "agents.servers:approve_command",
        "withdraw": "agents.servers:withdraw_command",
    },
    "sessions": {
        "list": "sessions:list_command",
        "show": "sessions:show_command",
        "create": "sessions:create_command",
        "move": "sessions:move_command",
        "delete": "sessions:delete_command",
        "state": "sessions:state_command",
        "events": "sessions:events_command",
        "fork": "sessions:fork_command",
        "rewind": "sessions:rewind_command",
    },
    "runs": {
        "list": "runs:list_command",
        "show": "runs:show_command",
        "tail": "runs:tail_command",
    },
    "audit": {
        "query": "audit.records:query_command",
        "verify": "audit.chain:verify_command",
        "tail": "audit.records:tail_command",
        "export": "audit.records:export_command",
        "key": "audit.keys:key_command",
        "keygen": "audit.keys:keygen_command",
        "pin": "audit.keys:pin_command",
        "succeed": "audit.keys:succeed_command",
        "checkpoint": "audit.chain:checkpoint_command",
        "checkpoints": "audit.chain:checkpoints_command",
        "prune": "audit.chain:prune_command",
    },
    "db": {
        "upgrade": "db:upgrade_command",
        "check": "db:check_command",
        "backup": "db:backup_command",
        "restore": "db:restore_command",
    },
    "connections": {
        "list": "connections:list_command",
        "disconnect": "connections:disconnect_command",
        "delegate": "connections:delegate_command",
        "delegations": "connections:delegations_command",
        "end": "connections:end_command",
        "credentials": "connections:credentials_command",
        "revoke": "connections:revoke_command",
    },
    "vault": {
        "key": "vault:key_command",
        "check": "vault:check_command",
        "rotate": "vault:rotate_command",
    },
    "approvals": {
        "list": "approvals:list_command",
        "show": "approvals:show_command",
        "approve": "approvals:approve_command",
        "reject": "approvals:reject_command",
    },
}
"""The command groups, in the same form."""
HELP: Final = {
    "mcp": "Serve an agent's tools over stdin and stdout (serve, the default); approve tools of MCP servers and APIs.",
    "gateway": "Serve MCP servers and APIs, governed (serve, the default); import servers.",
    "key": "Create, list and revoke API keys for the server.",
    "people": "Register, list and remove chat users who may decide approval requests.",
    "deliveries": "List deliveries to channels, and retry failed ones.",
    "agents": "List, change, compare and preview stored agents.",
    "sessions": "List, create, move and delete sessions, and follow their events.",
    "runs": "List runs, which are turns and queued calls; show one as a tree, and follow it.",
    "audit": "Read, verify, sign and prune the record of every attempt.",
    "db": "Upgrade, check, back up and restore a database.",
    "connections": "List, delegate and revoke what users have connected, so that tools act as them.",
    "vault": "Make, check and rotate the keys that protect the credentials of users.",
    "approvals": "List, approve and reject calls that need an approval.",
}
"""The purpose of each group."""
PANELS: Final = {
    "Begin": "init check doctor list describe schema demo",
    "Run": "run chat call connect serve worker kernel mcp gateway",
    "Administer": "agents sessions runs approvals connections people deliveries key vault db",
    "Prove": "audit fingerprint compose diff replay",
    "Exchange and measure": "export import bench",
}
"""The sections of ``capset --help``, with the commands and groups of each."""
_PANEL_OF: Final = {name: panel for panel, names in PANELS.items() for name in names.split()}
_SERVING: Final = ("mcp", "gateway")
"""The groups whose default command is ``serve``: ``capset gateway FILE``."""


class LazyCommands(MutableMapping[str, Any]):  # commands of typer's copy of click
    """A mapping of names to commands that imports a command's module on first access."""

    def __init__(self, paths: Mapping[str, str], groups: Mapping[str, Any], panels: Mapping[str, str]) -> None:
        self._paths = paths
        self._panels = panels
        self._made: dict[str, Any] = {**dict.fromkeys(paths), **groups}

    def __getitem__(self, name: str) -> Any:
        if (command := self._made[name]) is None:
            module, _, function = self._paths[name].partition(":")
            alone = typer.Typer(add_completion=False)
            alone.command(name, rich_help_panel=self._panels.get(name))(
                getattr(import_module(f"capset_cli.{module}"), function)
            )
            command = self._made[name] = typer.main.get_command(alone)
        return command

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __contains__(self, name: object) -> bool:
        return name in self._made


class LazyGroup(typer.core.TyperGroup):
    """A command group that imports its commands when they are used."""

    paths: ClassVar[Mapping[str, str]]
    panels: ClassVar[Mapping[str, str]]
    """The sections of its help by the names of its commands; empty for one section."""

    def __init__(self, **settings: Any) -> None:  # typer's own
        super().__init__(**settings)
        self.commands = LazyCommands(self.paths, self.commands, self.panels)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:  # as above
        """Complete names without their help, which would take importing every command at each key press."""
        commands = self.commands
        self.commands = {name: typer.core.TyperCommand(name) for name in commands}
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = commands


class ServingGroup(LazyGroup):
    """A command group whose default command is ``serve``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # as above
        """Insert ``serve`` unless the first argument is a command, a misspelt command or a help option."""
        first = args[0] if args else ""
        is_named = first in self.commands or first in ctx.help_option_names or self._is_misspelt(first)
        return super().parse_args(ctx, args if is_named else ["serve", *args])

    def _is_misspelt(self, word: str) -> bool:
        from capset.errors import closest  # imported only where it is needed

        return not word.startswith("-") and closest(word, self.commands) is not None and not Path(word).exists()


def _typer(
    paths: Mapping[str, str],
    base: type[LazyGroup] = LazyGroup,
    panels: Mapping[str, str] = MappingProxyType({}),
    **settings: Any,  # typer's own
) -> typer.Typer:
    return typer.Typer(cls=type(base.__name__, (base,), {"paths": paths, "panels": panels}), **settings)


app = _typer(
    COMMANDS,
    panels=_PANEL_OF,
    name="capset",
    help="The capability layer for AI agents: what an agent can do, may do, did, and which exact version that was.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _paths in GROUPS.items():
    _serves = _name in _SERVING
    _base = ServingGroup if _serves else LazyGroup
    app.add_typer(
        _typer(_paths, _base, help=HELP[_name], no_args_is_help=not _serves),
        name=_name,
        rich_help_panel=_PANEL_OF[_name],
    )


def _show_version(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version

        print(f"capset {version('capset')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Handle the options that belong to no command."""
