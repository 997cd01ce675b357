"""The client under test: capset's own, which is told of the suite's servers and calls their tools in sessions."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from mcp.client.auth import OAuthClientProvider

from capset import Agent, Kernel, Principal
from capset.definitions.secrets import Secrets
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapsetError
from capset_connect.mcp import McpServer, open_mcp_servers
from lab.conformance.authorization import provider

RELAY: Final = Path(__file__).with_name("relay.py")
AT_ONCE: Final = 2
"""How many scenarios run at once; the suite asks for all of them."""
SECONDS: Final = 30.0
"""How long one scenario may take."""
_NAME: Final = "suite"
_ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "add_numbers": {"a": 5, "b": 3},
    "json_schema_2020_12_tool": {"phone": "+44 1", "email": "ada@example.com"},
}
"""What tools are called with whose schemas want more than texts that are required."""


_REFUSED: Final = frozenset(
    {
        *("auth/iss-normalized", "auth/iss-supported-missing", "auth/iss-unexpected", "auth/iss-wrong-issuer"),
        *("auth/metadata-issuer-mismatch", "auth/resource-mismatch", "auth/scope-retry-limit"),
    }
)
"""Scenarios whose servers a client must not get on with, so that it has to end with an error."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the suite says of a scenario: its name, the URL of its server, and values to use."""

    name: str
    url: str
    context: Mapping[str, Any]


@asynccontextmanager
async def answering(folder: Path) -> AsyncGenerator[str]:
    """Yield the command that the suite is to run as its client; ``folder`` has the socket on which it arrives here."""
    socket, free = folder / "client.sock", asyncio.Semaphore(AT_ONCE)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        scenario = Scenario(**json.loads(await reader.readline()))
        async with free:
            error = await play(scenario)
        writer.write(error.encode())
        writer.close()

    # The SDK warns of every tool that it leaves out, and scenarios offer many that it must.
    logging.getLogger("client").setLevel(logging.ERROR)
    async with await asyncio.start_unix_server(answer, socket):
        # Without site-packages, which take longer to find than all else that it does.
        yield shlex.join([sys.executable, "-S", "-E", str(RELAY), str(socket)])


async def play(scenario: Scenario) -> str:
    """Do what a scenario expects of a client, and return what went wrong, if anything."""
    authentication = provider(scenario.url, scenario.context)

    async def auth(_: Secrets) -> OAuthClientProvider:
        return authentication

    server = McpServer(
        name=_NAME,
        url=scenario.url,
        auth=auth if scenario.name.startswith("auth/") else None,
        internal=[urlsplit(scenario.url).hostname or ""],  # its authorization servers have other ports
        trust_first_use=True,
        timeout=10.0,
    )
    errors: list[str] = []
    try:
        async with (
            asyncio.timeout(SECONDS),
            Kernel(store="memory://") as kernel,
            open_mcp_servers(kernel, [server]) as (capability,),
            kernel.open(Agent("conformance", uses=[capability]), principal=Principal(_NAME)) as session,
        ):
            tools = {tool.name.removeprefix(f"{_NAME}_"): tool for tool in capability.every_tool}
            for name, arguments in _calls(scenario, tools):
                try:
                    await session.call(tools[name], **arguments)
                except CapsetError as error:
                    errors.append(f"{name}: {error.message}")
    except CapsetError as error:
        errors.append(error.message)
    except TimeoutError:
        return f"it did not end within {SECONDS:g} s"
    if scenario.name in _REFUSED:
        return "" if errors else "it got on with a server that it must refuse"
    return "\n".join(errors)


def _calls(scenario: Scenario, tools: Mapping[str, AnyTool]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the calls that a scenario asks for: those that it names, or one of every tool."""
    for call in scenario.context.get("toolCalls", ()):
        # No tool there takes null, and what does not fit a schema is not sent: the argument is left out.
        yield call["name"], {name: value for name, value in call["arguments"].items() if value is not None}
    if "toolCalls" in scenario.context:
        return
    for name, tool in tools.items():
        if name == "json_schema_echo":
            yield name, {"schema": tools["json_schema_2020_12_tool"].arguments.json_schema}
        else:
            required = tool.arguments.json_schema.get("required", ())
            yield name, _ARGUMENTS.get(name) or dict.fromkeys(required, "text")
