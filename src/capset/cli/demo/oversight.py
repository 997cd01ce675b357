"""The last part of the demo: a call that another person approves, and a limit shared by two kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from capset.cli.common.exits import missing_modules
from capset.cli.common.output import cell
from capset.cli.demo.doors import NEEDED
from capset.cli.demo.server import CLIENT, press, serving, store_of
from capset.definitions.agents import Agent
from capset.kernel.kernel import Kernel
from capset.wire.agents import AgentInput
from capset.wire.calls import CallShape, call_data
from capset.wire.operations import OversightShape

if TYPE_CHECKING:
    from capset.client import Client

TITLE: Final = "What is in these files"
EXPECTED: Final = (
    *(("publish", "approval_required"), ("publish", "approval_required"), ("publish", None)),
    *(("announce", None), ("announce", None), ("announce", "limit_exceeded")),
)
"""The calls of this part in their order, and the expected refusal of each, if any."""


async def oversee(console: Console, folder: Path) -> list[OversightShape] | None:
    """Make the calls of this part, and return them; ``None`` if the extras are not installed."""
    if missing_modules(*NEEDED):
        return None
    from capset.client import Client

    async with (
        serving(folder) as server,
        Client(server.url, key=server.key) as client,
        Client(server.url, key=server.editor) as editor,
    ):
        agent = await client.agents.create(AgentInput(name="editor", capabilities=["press"]))
        session = (await client.sessions.create(agent.id)).id
        calls = await _approved(console, client, editor, session)
        return [*calls, *await _limited(console, client, folder, session)]


async def _approved(console: Console, client: Client, editor: Client, session: str) -> list[OversightShape]:
    """Publish something: refused, made again, approved by another principal, and made once more unchanged."""

    async def publish() -> OversightShape:
        return _shown(console, "client", "publish", await client.call(session, "publish", {"title": TITLE}))

    calls = [await publish(), await publish()]
    if (asked := calls[-1].approval) is not None:
        decided = await editor.approvals.approve(asked)
        console.print(f"[bold]editor[/] {decided.status} the request {cell(asked)}")
    return [*calls, await publish()]


async def _limited(console: Console, client: Client, folder: Path, session: str) -> list[OversightShape]:
    """Announce something through the server, then in a kernel beside it on the same database, then there again."""

    async def announce() -> OversightShape:
        return _shown(console, "client", "announce", await client.call(session, "announce", {"title": TITLE}))

    first = await announce()
    agent = Agent("announcer", uses=[press])
    async with Kernel(store=store_of(folder)) as kernel, kernel.open(agent, principal=CLIENT) as own:
        result = await own.try_message(own.message("announce", {"title": TITLE}))
        made = CallShape.model_validate(call_data(result, result.data, own.id))
        second = _shown(console, "beside the server", "announce", made)
    return [first, second, await announce()]


def _shown(console: Console, where: str, tool: str, call: CallShape) -> OversightShape:
    came = f"[green]{cell(str(call.data))}[/]" if call.error is None else f"[red]✗[/] {cell(call.error.message)}"
    console.print(f"[bold]{where}[/] {tool} [dim]→[/] {came}", soft_wrap=True)
    code = None if call.error is None else call.error.code
    return OversightShape(tool=tool, code=code, approval=call.approval, record=call.record)


def surprises_of(calls: list[OversightShape]) -> list[str]:
    """Return the unexpected outcomes."""
    surprises = [
        f"{tool} should have ended with {code or 'its result'}, not with {one.code}"
        for one, (tool, code) in zip(calls, EXPECTED, strict=True)
        if one.code != code
    ]
    if len({one.approval for one in calls if one.approval is not None}) > 1:
        surprises.append("two equal calls opened two requests for an approval")
    return surprises
