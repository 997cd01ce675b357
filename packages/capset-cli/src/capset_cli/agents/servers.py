"""``capset agents tools``, ``approve`` and ``withdraw``: tools of an agent's own MCP servers, and their approval."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from capset.errors import DefinitionError
from capset.wire.agent_servers import AgentServerState, AgentServerStates, ChangedApprovals, ServerToolShape
from capset_cli.administration import administer
from capset_cli.agents.inputs import Id, Org, Writer
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db
from capset_cli.common.output import cell, err, escaped, out, print_json, print_table, short_hash
from capset_cli.common.remote import Url
from capset_cli.common.texts import one_line
from capset_connect.pins.offers import described

if TYPE_CHECKING:
    from capset_cli.administration import Admin

Server = Annotated[str, typer.Argument(metavar="SERVER", help="The name of one of its MCP servers.")]


@guarded
def tools_command(
    id: Id,
    server: Annotated[
        str | None,
        typer.Argument(metavar="SERVER", help="Only this MCP server, with its differences; by default all of them."),
    ] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Query an agent's own MCP servers, and list their tools; for a single server, also show the differences.

    A tool is approved, changed since its approval, new, or gone. Invisible characters are escaped.
    """

    async def query(admin: Admin) -> AgentServerStates:
        if server is None:
            return await admin.agents.servers(id)
        pages = [await admin.agents.server(id, server, limit=200)]
        while pages[-1].next is not None:
            pages.append(await admin.agents.server(id, server, limit=200, cursor=pages[-1].next))
        return _join_pages(pages)

    states = administer(url, query, db=db, org=org)
    if as_json:
        print_json(states.plain())
        return Exit.DONE
    rows = ([cell(text) for text in _row(state, tool)] for state in states.items for tool in state.tools)
    columns = ("SERVER", "TOOL", "STATE", "HASH", "EFFECT", "APPROVED BY", "PROBLEMS")
    empty = "no tools: an agent has those of the servers in its mcp_servers, once they can be reached"
    print_table(columns, rows, folds=("PROBLEMS",), empty=empty)
    for state in states.items:
        for problem in (*([state.problem] if state.problem else ()), *state.unmatched):
            err().print(f"[yellow]warning:[/] {escaped(f'{state.name}: {problem}')}", soft_wrap=True)
        for line in (line for tool in state.tools for line in _difference(id, state, tool)):
            out().print(one_line(line), soft_wrap=True, highlight=False, markup=False)
    return Exit.DONE


@guarded
def approve_command(
    id: Id,
    server: Server,
    tools: Annotated[
        list[str],
        typer.Argument(metavar="TOOL@HASH...", help="Tools by their names on the server, each with its full hash."),
    ],
    principal: Writer = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Approve tools of an agent's own MCP server in the form that capset agents tools shows; all or none, on record."""
    hashes = dict(map(_parse_reference, tools))
    changed = administer(
        url, lambda admin: admin.agents.approve_tools(id, server, hashes), db=db, org=org, principal=principal
    )
    return _report_changes(changed, "is approved", as_json=as_json)


@guarded
def withdraw_command(
    id: Id,
    server: Server,
    tools: Annotated[list[str], typer.Argument(metavar="TOOL...", help="Tools by their names on the server.")],
    principal: Writer = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Withdraw approvals of tools of an agent's own MCP server, on record. The server is not contacted."""
    changed = administer(
        url, lambda admin: admin.agents.withdraw_tools(id, server, tools), db=db, org=org, principal=principal
    )
    return _report_changes(changed, "is no longer approved", as_json=as_json)


def _join_pages(pages: Sequence[AgentServerState]) -> AgentServerStates:
    """Return a server with the tools of all its pages."""
    tools = [tool for page in pages for tool in page.tools]
    return AgentServerStates(items=[pages[0].model_copy(update={"tools": tools, "next": None})])


def _parse_reference(argument: str) -> tuple[str, str]:
    name, _, tool_hash = argument.rpartition("@")
    if not name or len(tool_hash) != 64:
        raise DefinitionError(
            f"approving a tool takes its name and full hash, TOOL@HASH; got {argument!r:.80}",
            hint="capset agents tools ID SERVER shows both",
        )
    return name, tool_hash


def _report_changes(changed: ChangedApprovals, status_text: str, *, as_json: bool) -> Exit:
    if as_json:
        print_json(changed.plain())
        return Exit.DONE
    for name in changed.tools:
        out().print(f"{escaped(name)} {status_text}", soft_wrap=True)
    if not changed.tools:
        err().print("[dim]nothing has changed[/]")
    return Exit.DONE


def _row(server: AgentServerState, tool: ServerToolShape) -> Iterator[str]:
    yield server.name
    yield tool.tool
    yield tool.state
    yield short_hash(tool.hash or (tool.approved.hash if tool.approved else None))
    yield tool.effect
    yield f"{tool.approved.by}, {tool.approved.at[:10]}" if tool.approved else "–"
    yield "; ".join([*tool.problems, *tool.notes]) or "–"


def _difference(id: str, server: AgentServerState, tool: ServerToolShape) -> Iterator[str]:
    """Yield the lines of a unified diff of a tool that differs, and the command to approve its current form."""
    if tool.before is None and tool.now is None:
        return
    before: Mapping[str, object] = tool.before or {}
    now: Mapping[str, object] = tool.now or {}
    name = f"{server.name}/{tool.tool}"
    yield from difflib.unified_diff(
        described(before), described(now), f"{name} (approved)", f"{name} (now)", n=3, lineterm=""
    )
    if tool.hash:
        yield f"  capset agents approve {id} {server.name} {shlex.quote(f'{tool.tool}@{tool.hash}')}"
    yield ""
