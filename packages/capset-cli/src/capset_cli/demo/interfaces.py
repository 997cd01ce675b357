"""The second half of the demo: the same files and tools over a server's interfaces, and in two kernels at once.

In the last part, another principal approves a call, and two kernels share a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from capset.definitions.agents import Agent
from capset.errors import counted
from capset.extras import install_command
from capset.kernel.kernel import Kernel
from capset.wire.agents import AgentInput
from capset.wire.calls import CallShape, call_data
from capset.wire.operations import GovernedCallShape, InterfaceCallShape
from capset_cli.common.exits import missing_modules
from capset_cli.common.output import cell, err, escaped
from capset_cli.demo.display import show_interfaces, show_progress
from capset_cli.demo.scenario import TITLE, import_folders
from capset_cli.demo.server import CLIENT, press, serving, store_url

if TYPE_CHECKING:
    from capset_server.client import Client


MODULES: Final = ("fastapi", "uvicorn", "httptools", "structlog", "httpx2", "mcp")
"""The modules of the extras ``server`` and ``mcp`` that this half needs."""

INTERFACES: Final = ["rest", "stream", "mcp"]
"""The interfaces, in the order of the demo; their names are the correlations of their calls."""

EXPECTED: Final = (
    *(("publish", "approval_required"), ("publish", "approval_required"), ("publish", None)),
    *(("announce", None), ("announce", None), ("announce", "limit_exceeded")),
)
"""The calls of this part in order, each with the code of its expected refusal, if any."""


@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """A session's files over REST, as far as an import needs them."""

    client: Client
    session: str

    async def write(self, path: str, content: bytes) -> object:
        """Create or replace a file."""
        return await self.client.files.write(self.session, path, content)


async def call_interfaces(console: Console, folder: Path, sources: list[Path]) -> list[InterfaceCallShape] | None:
    """Make a call over each interface of a server, and return the records; ``None`` if the extras are missing."""
    if missing := missing_modules(*MODULES):
        needed = escaped(install_command("server", "mcp"))
        err().print(f"[yellow]skipped:[/] the server needs {needed} ({', '.join(missing)})", soft_wrap=True)
        return None
    from capset_server.client import Client

    async with serving(folder) as server, Client(server.url, key=server.key) as client:
        console.print(f"capset serves {server.url}, and logs to {escaped(str(folder / 'server.log'))}", soft_wrap=True)
        agent = await client.agents.create(
            AgentInput(name="surveyor", capabilities=["session_file_system", "test_math", "survey"])
        )
        session = (await client.sessions.create(agent.id)).id
        imported = await import_folders(RemoteFiles(client, session), sources)
        console.print(
            f"agent {agent.id}: {counted(imported.files, 'file')}, {imported.size_bytes:,} bytes came in over REST"
        )
        await client.call(session, "add", {"a": imported.files, "b": 1}, correlation="rest")
        await _stream(console, client, session)
        await _mcp(console, f"{server.url}/mcp/sessions/{session}", server.key)
        records = (await client.records.list(session=session)).items
    calls = [_interface_shape(record) for record in reversed(records)]
    show_interfaces(console, calls)
    return calls


async def _stream(console: Console, client: Client, session: str) -> None:
    """Call a slow tool, and show its event stream."""
    async with client.stream(session, "count_words", correlation="stream") as events:
        async for event in events:
            show_progress(console, event.data)
    data: Any = events.result.data
    console.print(
        f"  {counted(data['files'], 'file')}, {data['words']:,} words; frequent: {cell(', '.join(data['frequent']))}"
    )


async def _mcp(console: Console, url: str, key: str) -> None:
    """List the same tools as an MCP client, with the official SDK, and call one."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {key}", "X-Correlation-Id": "mcp"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        tools = (await client.list_tools()).tools
        console.print(f"an MCP client finds {counted(len(tools), 'tool')}: {', '.join(tool.name for tool in tools)}")
        await client.call_tool("list_directory", {"path": "/"})


def _interface_shape(record: dict[str, Any]) -> InterfaceCallShape:
    return InterfaceCallShape(
        door=record["correlation"],
        tool=record["tool"],
        outcome=record["outcome"],
        runtime_hash=record["runtime_hash"],
        record=record["id"],
    )


async def oversee(console: Console, folder: Path) -> list[GovernedCallShape] | None:
    """Make the calls of this part, and return them; ``None`` if the extras are missing."""
    if missing_modules(*MODULES):
        return None
    from capset_server.client import Client

    async with (
        serving(folder) as server,
        Client(server.url, key=server.key) as client,
        Client(server.url, key=server.editor) as editor,
    ):
        agent = await client.agents.create(AgentInput(name="editor", capabilities=["press"]))
        session = (await client.sessions.create(agent.id)).id
        calls = await _publish_with_approval(console, client, editor, session)
        return [*calls, *await _announce_beyond_limit(console, client, folder, session)]


async def _publish_with_approval(
    console: Console, client: Client, editor: Client, session: str
) -> list[GovernedCallShape]:
    """Publish something: the call is refused twice, approved by another principal, and then repeated unchanged."""

    async def publish() -> GovernedCallShape:
        return _print_call(console, "client", "publish", await client.call(session, "publish", {"title": TITLE}))

    calls = [await publish(), await publish()]
    if (approval := calls[-1].approval) is not None:
        decided = await editor.approvals.approve(approval)
        console.print(f"[bold]editor[/] {decided.status} the request {cell(approval)}")
    return [*calls, await publish()]


async def _announce_beyond_limit(
    console: Console, client: Client, folder: Path, session: str
) -> list[GovernedCallShape]:
    """Announce something over the server, then in a second kernel on its database, then over the server again."""

    async def announce() -> GovernedCallShape:
        return _print_call(console, "client", "announce", await client.call(session, "announce", {"title": TITLE}))

    first = await announce()
    agent = Agent("announcer", uses=[press])
    async with Kernel(store=store_url(folder)) as kernel, kernel.open(agent, principal=CLIENT) as local_session:
        result = await local_session.try_message(local_session.message("announce", {"title": TITLE}))
        local_call = CallShape.model_validate(call_data(result, result.data, local_session.id))
        second = _print_call(console, "beside the server", "announce", local_call)
    return [first, second, await announce()]


def _print_call(console: Console, where: str, tool: str, call: CallShape) -> GovernedCallShape:
    outcome = f"[green]{cell(str(call.data))}[/]" if call.error is None else f"[red]✗[/] {cell(call.error.message)}"
    console.print(f"[bold]{where}[/] {tool} [dim]→[/] {outcome}", soft_wrap=True)
    code = None if call.error is None else call.error.code
    return GovernedCallShape(tool=tool, code=code, approval=call.approval, record=call.record)


def surprises_of(calls: list[GovernedCallShape]) -> list[str]:
    """Return the unexpected outcomes."""
    surprises = [
        f"{tool} should have ended with {code or 'its result'}, not with {call.code}"
        for call, (tool, code) in zip(calls, EXPECTED, strict=True)
        if call.code != code
    ]
    if len({call.approval for call in calls if call.approval is not None}) > 1:
        surprises.append("two equal calls opened two approval requests")
    return surprises
