"""The end of the demo: a chat with the agent of ``capset init``, whose refund waits for an approval in the console."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Final

from rich.console import Console

from capset.definitions.principals import Principal
from capset.kernel.registry import Registry
from capset_agents.budgets import SUMMARISE_AT
from capset_cli.common.models import make_runner
from capset_cli.common.output import cell
from capset_cli.common.settings import Settings
from capset_cli.common.targets import find_target, open_kernel
from capset_cli.conversation.conversations import LocalConversation
from capset_cli.conversation.view import TurnView
from capset_cli.demo.scenario import ANALYST
from capset_cli.demo.server import store_url
from capset_cli.demo.turn import is_missing
from capset_cli.init import write_files

CLERK: Final = Principal("clerk", permissions={"orders:refund"})
MESSAGES: Final = ("What is order 7?", "Refund it, please.")


async def leave_request(console: Console, folder: Path) -> bool | None:
    """Have a clerk chat with the agent until a refund waits for an approval, and return whether it does.

    The agent's files are in the folder ``shop``. Returns ``None``, after a message, if the extra is missing.
    """
    if is_missing():
        return None
    file, *_ = write_files(folder / "shop")
    settings = Settings(store_url(folder), CLERK, env={})
    runner = make_runner(_model(folder), (), 50, summarise_at=SUMMARISE_AT)
    target = find_target(Registry.installed(), str(file), None, settings)
    view = TurnView(console=console)
    async with open_kernel(settings, target, None, generator=runner) as (kernel, session):
        row = await kernel.find_session(session.id)
        assert row is not None  # noqa: S101  # it has just been opened
        conversation = LocalConversation(kernel, row, session.snapshot.composition.block, settings, None)
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
