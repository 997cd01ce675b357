"""``capset runs``: the turns and queued calls of an organisation, as a list, as a tree, and live (spec 5, P99)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.tree import Tree

from capset.clock import duration_text
from capset.stores.base import RunState
from capset.wire.runs import RunShape, Whose
from capset.wire.traces import ModelCallShape, RunTraceShape, TracedCallShape, TraceStepShape
from capset.wire.turns import GapShape
from capset_cli.administration import administer
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, Since, Until, Who, parse_choice, parse_time
from capset_cli.common.output import cell, err, out, print_json, print_page
from capset_cli.common.remote import Url
from capset_cli.conversation.view import TurnView

if TYPE_CHECKING:
    from capset_cli.administration import Admin

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of the run, which is that of its turn.")]
Org = Annotated[str | None, typer.Option("--org", help="The organisation whose runs to read.")]
_MAX_LINE = 160


@guarded
def list_command(
    own: Annotated[bool, typer.Option("--own", help="Only runs of this key or principal itself.")] = False,
    of: Annotated[
        str | None, typer.Option("--of", metavar="ID", help="Only runs of the principal with this id.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="Only runs in the session with this id.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only runs of the agent of this name.")] = None,
    state: Annotated[
        str | None, typer.Option(help=f"Only runs in this state: {', '.join(get_args(RunState))}.")
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The maximum number of runs.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="The cursor of the previous page, to continue after it.")] = None,
    principal: Who = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List the runs of an organisation, newest first. On a server, all but --own need the scope capset:observe."""
    whose: Whose = "own" if own else "all"
    run_state: RunState | None = parse_choice("state", state, get_args(RunState))
    from_time, to_time = parse_time("--since", since), parse_time("--until", until)
    page = administer(
        url,
        lambda admin: admin.runs.list(
            whose=whose,
            principal=of,
            session_id=session,
            agent=agent,
            state=run_state,
            since=from_time,
            until=to_time,
            limit=limit,
            cursor=cursor,
        ),
        db=db,
        org=org,
        principal=principal,
    )
    print_page(
        page,
        ("ID", "AGENT", "PRINCIPAL", "STATE", "BEGAN", "TIME", "TOKENS", "COST"),
        map(_row, page.items),
        folds=("AGENT", "PRINCIPAL"),
        as_json=as_json,
        empty="no runs match: each turn of an agent is one, and each call that is queued for workers",
        option="--cursor",
    )
    return Exit.DONE


@guarded
def show_command(
    id: Id, principal: Who = None, org: Org = None, db: Db = None, url: Url = None, as_json: AsJson = False
) -> Exit:
    """Show one run as a tree: its steps, the calls of models and tools in them, and the agents within these."""
    trace = administer(url, lambda admin: admin.runs.trace(id), db=db, org=org, principal=principal)
    if as_json:
        print_json(trace.plain())
    else:
        out().print(_tree(trace), soft_wrap=True)
        if not trace.is_complete:
            err().print("[dim]not complete: the first events are no longer stored, or there are too many records[/]")
    return Exit.DONE


@guarded
def tail_command(
    id: Id, principal: Who = None, org: Org = None, db: Db = None, url: Url = None, as_json: AsJson = False
) -> Exit:
    """Print what a turn has done so far, and follow it to its end."""

    async def follow(admin: Admin) -> None:
        view = TurnView(as_json=as_json)
        async with admin.runs.events(id) as events:
            async for event in events:
                if isinstance(event, GapShape):
                    view.print_note(f"[dim]the events {event.after + 1} to {event.last} are no longer stored[/]")
                else:
                    view.show(event)

    administer(url, follow, db=db, org=org, principal=principal)
    return Exit.DONE


def _row(run: RunShape) -> list[str]:
    usage = run.usage
    return [
        cell(run.id),
        cell(run.agent),
        cell(run.principal),
        cell(run.state if run.code is None else f"{run.state}: {run.code}"),
        cell((run.begun_at or run.created_at)[:19]),
        _seconds(run.begun_at, run.ended_at),
        "–" if usage is None else f"{usage.tokens:,}",
        "–" if usage is None or not usage.cost else _cost(usage.cost),
    ]


def _tree(trace: RunTraceShape) -> Tree:
    run = trace.run
    head = [f"[bold]{cell(run.agent)}[/]", cell(run.state), _seconds(run.begun_at, run.ended_at)]
    if run.usage is not None:
        head += [f"{run.usage.tokens:,} tokens", *([_cost(run.usage.cost)] if run.usage.cost else [])]
    tree = Tree(" · ".join(filter(None, head)))
    tree.add(f"[dim]{cell(run.kind)} {cell(run.id)} of {cell(run.principal)} in session {cell(run.session)}[/]")
    for version in trace.versions:
        hashes = {"static": version.static_hash, "runtime": version.runtime_hash, "prompt": version.prompt_hash}
        tree.add(f"[dim]{' '.join(f'{name} {digest[:12]}' for name, digest in hashes.items())}[/]")
    if trace.prompt is not None:
        tree.add(f"> {_line(trace.prompt)}")
    _add_steps(tree, trace.steps)
    for call in trace.calls:
        _add_call(tree, call)
    for wait in trace.waits:
        tree.add(f"[yellow]waited for an approval[/] {_seconds(wait.started_at, wait.ended_at)}")
    if run.code is not None:
        message = (run.outcome or {}).get("error", {}).get("message", "")
        tree.add(f"[red]{cell(run.code)}[/] {_line(str(message))}")
    elif run.outcome is not None:
        tree.add(f"[green]=[/] {_line(_text(run.outcome.get('output', run.outcome.get('data'))))}")
    return tree


def _add_steps(parent: Tree, steps: Iterable[TraceStepShape]) -> None:
    for step in steps:
        name = "step" if step.kind == "step" else "summary"
        branch = parent.add(
            " · ".join(
                filter(None, (f"{name} {step.number}", _seconds(step.started_at, step.ended_at), _model(step.model)))
            )
        )
        if step.reasoning is not None:
            branch.add(f"[dim]{_line(step.reasoning)}[/]")
        if step.text is not None:
            branch.add(_line(step.text))
        for call in step.calls:
            _add_call(branch, call)


def _add_call(parent: Tree, call: TracedCallShape) -> None:
    color = "green" if call.outcome == "succeeded" else "yellow" if call.outcome in (None, "pending") else "red"
    duration = "" if call.duration_us is None else duration_text(round(call.duration_us / 1e6, 3))
    outcome = call.code or call.outcome or "not ended"
    head = (f"[bold]{cell(call.tool)}[/] {_line(_text(call.arguments))}", f"[{color}]{cell(outcome)}[/]", duration)
    branch = parent.add(" · ".join(filter(None, head)))
    if call.reason is not None:
        policies = f" ({', '.join(call.policies)})" if call.policies else ""
        branch.add(f"[dim]{cell(call.decision or '')}: {_line(call.reason)}{cell(policies)}[/]")
    for approval in call.approvals:
        by = f" by {cell(approval.decided_by)}" if approval.decided_by is not None else ""
        branch.add(f"approval {cell(approval.id)}: {cell(approval.status)}{by}")
    if call.result is not None:
        branch.add(f"[dim]→[/] {_line(_text(call.result))}")
    if call.record is not None:
        branch.add(f"[dim]record {cell(call.record)}[/]")
    for inner in call.calls:
        _add_call(branch, inner)
    for agent in call.agents:
        _add_steps(branch.add(f"[bold]{cell(agent.agent)}[/]"), agent.steps)


def _model(call: ModelCallShape | None) -> str:
    if call is None:
        return ""
    tokens = f"{call.input_tokens:,} tokens in, {call.output_tokens:,} out"
    return " · ".join(filter(None, (cell(call.model or ""), tokens, "" if not call.cost else _cost(call.cost))))


def _cost(cost: float) -> str:
    return f"${cost:.4f}"


def _seconds(begin: str | None, end: str | None) -> str:
    if begin is None or end is None:
        return "–"
    seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    return duration_text(round(seconds, 1))


def _text(value: Any) -> str:  # JSON data
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _line(text: str) -> str:
    return cell(text if len(text) <= _MAX_LINE else f"{text[:_MAX_LINE]}…")
