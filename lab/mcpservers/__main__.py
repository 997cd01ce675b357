"""``python -m lab.mcpservers [NAME …]``: call each tool of public MCP servers directly, and through one gateway.

Every tool that a server lists has to be usable at the gateway, or be refused with its own reason; a harmless call of it
has to have the same result but for names. A result that differs from one direct call to the next has to have the same
shape. It ends with 1 if something differs, or if it takes longer than a minute after everything is installed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx2
import yaml

from capset.errors import DefinitionError
from capset.schemas.json_schema import compile_json_schema
from capset.schemas.validation_errors import SchemaMismatch
from capset_connect.mcp.server import McpSource
from lab.corpus.nodes import Node, elements, is_list, members
from lab.corpus.samples import PLAIN_WORDS, NoSample, Sampler
from lab.mcpservers import Failed
from lab.mcpservers.comparison import comparable, difference, first_difference, shape_of
from lab.mcpservers.packages import PublicServer, install
from lab.mcpservers.peers import HttpPeer, Peer, Refusal, connected, started
from scripts import npm
from tests.helpers.server.running import running
from tests.waiting import until

SECONDS: Final = 60.0
SERVERS: Final = 20
AT_ONCE: Final = 2 * (os.cpu_count() or 1)
"""How many servers start or are called at a time."""
OLD: Final = "2025-03-26"
_TRIES: Final = 20


@dataclass
class ServerReport:
    """A server, what it answered directly, and what became of its tools at the gateway."""

    server: PublicServer
    revision: str = ""
    printed: int = 0
    """How many lines that are no messages it printed to its standard output."""
    tools: dict[str, Node] = field(default_factory=dict[str, Node])
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    direct: dict[str, Node] = field(default_factory=dict[str, Node])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    """The reasons why these tools are not called."""
    approved: dict[str, str] = field(default_factory=dict[str, str])
    """The names of tools at the gateway, by the server's own."""
    refused: dict[str, str] = field(default_factory=dict[str, str])
    """The reasons why the gateway uses none of these tools."""
    different: dict[str, str] = field(default_factory=dict[str, str])
    same: int = 0
    changing: int = 0
    """Tools whose results have the same shape, and differ directly from call to call."""
    problem: str = ""

    def __post_init__(self) -> None:
        self.skipped |= self.server.skipped

    @property
    def own_names(self) -> dict[str, str]:
        """The server's own names of its tools, by those at the gateway."""
        return {name: tool for tool, name in self.approved.items()}


def main(names: Sequence[str]) -> int:
    """Compare all servers, or those that are named, and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="capset-servers-") as folder:
        try:
            servers = install(Path(folder) / "worlds")
        except npm.NpmMissing as error:
            print(f"SKIPPED: {error}")
            return 0
        except (npm.NotInstalled, Failed) as error:
            print(f"mcpservers: {error}", file=sys.stderr)
            return 1
        if unknown := sorted({*names} - {server.name for server in servers}):
            print(f"mcpservers: servers.toml has no {', '.join(unknown)}", file=sys.stderr)
            return 2
        began = time.monotonic()
        chosen = [server for server in servers if not names or server.name in names]
        rows = asyncio.run(compare(chosen, Path(folder)))
        return 0 if report(rows, time.monotonic() - began, is_whole=not names) else 1


async def compare(servers: Sequence[PublicServer], folder: Path) -> list[ServerReport]:
    """Call every tool of servers directly and through a gateway in a folder, and compare the results."""
    rows = [ServerReport(server) for server in servers]
    limit = asyncio.Semaphore(AT_ONCE)
    await asyncio.gather(*(_call_directly(row, limit) for row in rows))
    working = [row for row in rows if not row.problem]
    _declare(working, folder / "gateway.yaml")
    results = await _call_at_gateway(working, folder, limit)
    await asyncio.gather(*(_judge(row, results[row.server.name], limit) for row in working))
    return rows


async def _call_directly(row: ServerReport, limit: asyncio.Semaphore) -> None:
    """List the tools of a server, choose arguments, and call each."""
    async with limit:
        try:
            row.direct = await _results_of(row)
        except (Refusal, Failed, OSError) as error:
            row.problem = str(error)


async def _results_of(row: ServerReport) -> dict[str, Node]:
    """Start a server in a new world, and return the results of its tools.

    The first time, its tools are listed, and arguments chosen. Raises ``Refusal``, ``Failed`` or ``OSError`` if it does
    not start.
    """
    row.server.prepare()
    async with started(row.server.command, row.server.environ, row.server.world) as peer:
        if not row.tools:
            row.revision = peer.revision
            row.tools = {str(tool["name"]): tool for tool in await peer.tools() if "name" in tool}
            for tool in row.tools:
                _choose_arguments(row, tool)
        # Calls are made in the order of the list, since some need what others have made.
        called = {tool: tool for tool in row.tools if tool in row.arguments}
        results = await _called(peer, called, row.arguments)
        row.printed = len(peer.printed)
        return results


def _choose_arguments(row: ServerReport, tool: str) -> None:
    """Choose the arguments of the call of a tool: those of the list, or a sample; without either it is skipped."""
    if tool in row.skipped:
        return
    if tool in row.server.calls:
        row.arguments[tool] = dict(row.server.calls[tool])
        return
    schema = members(row.tools[tool].get("inputSchema"))
    for number in range(_TRIES):
        sampler = Sampler(schema, Random(f"{row.server.name}/{tool}/{number}"), row.server.values)
        with suppress(NoSample):
            sample = sampler.value({"type": "object", **schema}, PLAIN_WORDS)
            if _fits(schema, sample):
                row.arguments[tool] = sample
                return
    row.skipped[tool] = "no sample fits its schema"


def _fits(schema: Node, sample: Any) -> bool:
    try:
        compile_json_schema("its arguments", schema).check(sample)
    except SchemaMismatch:
        return False
    except DefinitionError:  # the gateway has to refuse the tool, with its reason
        return True
    return True


async def _called(peer: Peer, names: Mapping[str, str], arguments: Mapping[str, Mapping[str, Any]]) -> dict[str, Node]:
    """Call tools in order, each by its name at the peer; return the results by the server's own names."""
    return {tool: await peer.call(name, arguments[tool]) for tool, name in names.items()}


def _declare(rows: Sequence[ServerReport], file: Path) -> None:
    """Write the configuration of a gateway with servers, and make their worlds anew."""
    declared: dict[str, Any] = {}
    for row in rows:
        row.server.prepare()
        declared[row.server.name] = {
            "command": list(row.server.command),
            "env": dict(row.server.environ),
            "cwd": str(row.server.world),
            "rules": {"*": {"effect": "read"}},
            "message_bytes": 16 * 2**20,
        }
    governance = {"result_bytes": 2**20}
    file.write_text(yaml.safe_dump({"name": "tools", "mcp_servers": declared, "governance": governance}))


async def _call_at_gateway(
    rows: Sequence[ServerReport], folder: Path, limit: asyncio.Semaphore
) -> dict[str, dict[str, Node]]:
    """Approve the tools of servers at a gateway, and call each; return the results by server and tool."""
    with running(folder, "gateway.yaml", "--insecure", verb="gateway") as gateway:
        async with httpx2.AsyncClient(base_url=gateway.url, timeout=120, trust_env=False) as http:
            await asyncio.gather(*(_approve(http, row, limit) for row in rows))
        async with connected(f"{gateway.url}/mcp") as peer:
            approved_names = {name for row in rows for name in row.approved.values()}
            with suppress(AssertionError):  # the call of a tool that is missing says so
                await until(lambda: _are_listed(peer, approved_names))

            async def called(row: ServerReport) -> dict[str, Node]:
                async with limit:
                    names = {tool: name for tool, name in row.approved.items() if tool in row.arguments}
                    return await _called(peer, names, row.arguments)

            results = await asyncio.gather(*map(called, rows))
    return {row.server.name: by_tool for row, by_tool in zip(rows, results, strict=True)}


async def _approve(http: httpx2.AsyncClient, row: ServerReport, limit: asyncio.Semaphore) -> None:
    """Approve the tools of a server that have no problem, and keep the reasons of the others."""
    path, states, cursor = f"/v1/tool-sources/{row.server.name}", list[Node](), dict[str, str]()
    async with limit:
        while True:
            answer = await http.get(path, params={"limit": "200", **cursor})
            page = members(answer.raise_for_status().json())
            states += map(members, elements(page.get("tools")))
            if page.get("next") is None:
                break
            cursor = {"cursor": str(page["next"])}
        row.problem = str(page.get("problem") or "")
        row.refused = {str(state["tool"]): "; ".join(state["problems"]) for state in states if state["problems"]}
        hashes = {str(state["tool"]): state["hash"] for state in states if not state["problems"]}
        if hashes:
            (await http.post(f"{path}/approve", json={"tools": hashes})).raise_for_status()
    source = McpSource(name=row.server.name)
    row.approved = {tool: source.tool_name(tool) for tool in row.tools if tool in hashes}


async def _are_listed(peer: HttpPeer, names: set[str]) -> bool:
    return names <= {str(tool.get("name")) for tool in await peer.tools()}


async def _judge(row: ServerReport, gateway: Mapping[str, Node], limit: asyncio.Semaphore) -> None:
    """Compare the results of a server's tools; where some differ, look whether they differ directly as well."""
    for tool in row.tools:
        if tool not in row.approved:
            if tool not in row.refused:
                row.different[tool] = "it is missing at the gateway, without a reason"
        elif tool in row.skipped:
            continue
        elif (change := difference(row.direct[tool], gateway[tool], row.own_names)) is not None:
            row.different[tool] = change
        else:
            row.same += 1
    if not row.different.keys().isdisjoint(gateway):
        async with limit:
            await _judge_again(row, gateway)


async def _judge_again(row: ServerReport, gateway: Mapping[str, Node]) -> None:
    """Make the calls of the gateway directly, and compare the results of the tools that differed.

    The first time, tools were called as well that the gateway refuses, and others may have found what these have made.
    """
    row.arguments = {tool: row.arguments[tool] for tool in gateway}
    try:
        repeated = await _results_of(row)
    except (Refusal, Failed, OSError) as error:
        row.problem = str(error)
        return
    for tool in [tool for tool in row.different if tool in gateway]:
        if difference(repeated[tool], gateway[tool], row.own_names) is None:
            del row.different[tool]
            row.same += 1
            continue
        first, second = comparable(row.direct[tool], {}), comparable(repeated[tool], {})
        if first_difference(first, second) is None:
            continue
        change = first_difference(shape_of(second), shape_of(comparable(gateway[tool], row.own_names)))
        if change is None:
            del row.different[tool]
            row.changing += 1
        else:
            row.different[tool] = f"it changes from call to call, and its shape differs: {change}"


def report(rows: Sequence[ServerReport], seconds: float, *, is_whole: bool) -> bool:
    """Print what became of servers, and return whether every bound is met."""
    print(f"{'server':12} {'revision':10} tools  same  changing  skipped  refused  package")
    for row in rows:
        skipped = len(row.skipped.keys() & row.tools.keys())
        numbers = f"{len(row.tools):5} {row.same:5} {row.changing:9} {skipped:8} {len(row.refused):8}"
        print(f"{row.server.name:12} {row.revision:10} {numbers}  {row.server.package}")
    for row in rows:
        for tool, reason in row.refused.items():
            print(f"refused: {row.server.name}: {tool}: {reason}")
        for tool, change in row.different.items():
            print(f"different: {row.server.name}: {tool}: {change}")
        if row.problem:
            print(f"failed: {row.server.name}: {row.problem}")
    failed, different = sum(bool(row.problem) for row in rows), sum(len(row.different) for row in rows)
    bounds = {
        f"every server starts ({failed} do not)": not failed,
        f"every tool is usable and the same, or refused with a reason ({different} are not)": not different,
        f"compared within {SECONDS:.0f} s ({seconds:.0f} s)": seconds <= SECONDS,
    }
    if is_whole:
        bounds |= {f"at least {SERVERS} servers": len(rows) >= SERVERS, **_peculiarities(rows)}
    for bound, is_met in bounds.items():
        print(f"{'met   ' if is_met else 'MISSED'}  {bound}")
    return all(bounds.values())


def _peculiarities(rows: Sequence[ServerReport]) -> dict[str, bool]:
    """Return whether servers are among them that do what many cannot bear."""
    schemas = [tool.get("inputSchema") for row in rows for tool in row.tools.values()]
    images = [item for row in rows for result in row.direct.values() for item in elements(result.get("content"))]
    return {
        f"a server speaks {OLD}": any(row.revision == OLD for row in rows),
        "a server prints to its standard output": any(row.printed for row in rows),
        "a server sends images": any(members(item).get("type") == "image" for item in images),
        "an argument is a text, and null by default": any(map(_has_null_default, schemas)),
    }


def _has_null_default(schema: object) -> bool:
    if is_list(schema):
        return any(map(_has_null_default, elements(schema)))
    node = members(schema)
    if node.get("type") == "string" and "default" in node and node["default"] is None:
        return True
    return any(map(_has_null_default, node.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
