"""The end of the demo: a chat with the agent of ``capset init``, whose refund waits for an approval in the console."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Final

from rich.console import Console

from capset.extras import install_command
from capset.kernel.registry import Registry
from capset_cli.common.configuration import load_configuration
from capset_cli.common.exits import missing_modules
from capset_cli.common.models import make_runner
from capset_cli.common.output import cell, err, escaped
from capset_cli.common.upstream import Upstream
from capset_cli.conversation.conversations import RemoteConversation
from capset_cli.conversation.view import TurnView
from capset_cli.demo import interfaces, turn
from capset_cli.demo.scenario import ANALYST
from capset_cli.demo.server import CLERK, serving, store_url
from capset_cli.init import write_files

MESSAGES: Final = ("What is order 7?", "Refund it, please.")


async def leave_request(console: Console, folder: Path) -> bool | None:
    """Have a clerk chat with the agent until a refund waits for an approval, and return whether it does.

    The agent's files are in the folder ``shop``. The clerk has a key, by which another server can continue the turn.
    Returns ``None``, after a message, if an extra is missing.
    """
    if missing := missing_modules(*interfaces.MODULES, *turn.MODULES):
        needed = escaped(install_command("server", "mcp", "agent"))
        err().print(f"[yellow]skipped:[/] this needs {needed} ({', '.join(missing)})", soft_wrap=True)
        return None
    from capset_server.client import Client

    file, *_ = write_files(folder / "shop")
    configuration = load_configuration(file, Registry.installed(), Upstream(store_url(folder)))
    view = TurnView(console=console)
    async with (
        serving(folder, configuration, make_runner(_model(folder), ())) as server,
        Client(server.url, key=server.clerk) as client,
    ):
        session = await client.sessions.create(configuration.agent.name)
        conversation = RemoteConversation(client, session.id, None)
        for message in MESSAGES:
            console.print(f"[bold]{CLERK.id}[/] {cell(message)}")
            async with aclosing(conversation.events(*await conversation.send(message))) as events:
                async for event in events:
                    view.show(event)
                    if event.type == "turn.suspended":
                        return True
    return False


def console_arguments(folder: Path, *, has_request: bool) -> list[str]:
    """Return the arguments of the command that serves a demo's database and console, as the demo's principal.

    With the request, it also serves the agent that has made it, whose turn continues after the approval.
    """
    agent = [str(folder / "shop" / "capset.yaml"), "--model", _model(folder)] if has_request else []
    return ["serve", *agent, "--insecure", "--principal", ANALYST.id, "--db", str(folder / "capset.db"), "--open"]


def _model(folder: Path) -> str:
    return f"script:{folder / 'shop' / 'script.yaml'}"
