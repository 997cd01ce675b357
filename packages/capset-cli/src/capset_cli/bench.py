"""``capset bench``: the cost of a tool's calls, bare, governed and recorded, and the time spent in each phase."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter_ns, process_time_ns
from typing import Annotated, Any, Final

import typer

from capset.definitions.calls.messages import Json, Message
from capset.definitions.tools.definition import AnyTool
from capset.errors import DefinitionError, NotFound
from capset.kernel.call.compiled_tools import PHASES, Phase, Step
from capset.kernel.call.invocation import Invocation
from capset.kernel.call.pipeline import execute
from capset.kernel.call.session import Session
from capset.kernel.registry import Registry
from capset.stores.base import AuditLog
from capset_cli.call import TargetOptions, find_tool_target
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Attribute, Env, Grant, Who, read_arguments
from capset_cli.common.output import cell, err, out, print_json, table
from capset_cli.common.settings import has_db, load_settings
from capset_cli.common.targets import open_kernel
from capset_cli.common.temporary_folder import own_temporary_folder

ROUNDS: Final = 5
"""The number of rounds. Each measures every kind of call; the best round counts, as noise only adds to a time."""


@dataclass(frozen=True, slots=True)
class ToolCost:
    """The cost of one call of a tool in microseconds, in the best round."""

    tool: AnyTool
    calls: int
    bare: float | None
    """Validation of the arguments and the handler alone; ``None`` for a handler that needs the kernel."""
    governed: float
    """The whole call."""
    phases: dict[Phase, float]
    """The phases of a call whose steps are timed, which takes a little longer than ``governed``."""
    rest: float
    """The part of such a call outside of all phases: its beginning and its end."""
    cpu: float
    """Processor time of a call, including the durable writing of its record."""


@guarded
def bench_command(
    tool: Annotated[str, typer.Argument(help="CAPABILITY.TOOL; with --agent, TOOL is enough.")],
    arguments: Annotated[
        str, typer.Option("--args", metavar="JSON", help="A JSON object; @FILE reads a file and - reads stdin.")
    ] = "{}",
    agent: Annotated[
        str | None,
        typer.Option(
            help="A configuration file, or the name of an installed agent; by default one with only the tool's "
            "capability."
        ),
    ] = None,
    calls: Annotated[int, typer.Option(min=1, max=1_000_000, help="The number of calls in each of several rounds.")] = (
        1_000
    ),
    effects: Annotated[
        bool, typer.Option("--effects", help="Allow a tool that changes something to be called many times.")
    ] = (False),
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    principal: Who = None,
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            help="The database of the records, and of the approvals of MCP servers' and APIs' tools; by default a "
            "temporary file for the records, and the usual database for the approvals.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> Exit:
    """Measure the cost of a tool's calls: the handler alone, governed, and recorded.

    The tool is really called, in this process. A tool that changes something needs --effects.
    """
    data = read_arguments(arguments)
    with own_temporary_folder() as folder, contextlib.redirect_stdout(sys.stderr):
        settings = load_settings(
            db=db or str(folder / "bench.db"), principal=principal, grant=grant, attribute=attribute, env=env
        )
        # Approvals of tools of MCP servers and APIs are in the database that other commands use.
        approvals = settings.db if db is not None or not has_db(usual := load_settings().db) else usual
        target = find_tool_target(
            Registry.installed(), TargetOptions(tool, agent, None), replace(settings, db=approvals)
        )

        async def run() -> ToolCost:
            async with open_kernel(settings, target, None) as (kernel, session):
                return await measure(session, kernel.audit, session.message(tool, Json(data)), calls, effects=effects)

        try:
            cost = asyncio.run(run())
        except NotFound as error:
            if error.hint is None and target.upstream is not None and target.upstream.unapproved:
                without = " or ".join(target.upstream.unapproved)
                error.hint = f"no tool of {without} is approved in this database: name yours with --db"
            raise
    if as_json:
        print_json(cost_data(cost))
    else:
        print_cost(cost)
    return Exit.DONE


async def measure(session: Session, audit: AuditLog, message: Message, calls: int, *, effects: bool) -> ToolCost:
    """Measure calls of a message's tool. Raises the error of the first call that fails."""
    first = session.invocation_of(message)
    if (tool := first.compiled.tool) is None:
        await execute(first)
        raise first.error or DefinitionError(f"there is no tool {message.type!r}")
    if tool.has_side_effects and not effects:
        raise DefinitionError(
            f"{tool.name!r} changes something, and would be called about {4 * ROUNDS * calls:,} times",
            hint="allow it with --effects, and reduce the number with --calls",
        )
    await _execute(first)
    spent = dict.fromkeys(PHASES, 0)
    best = dict.fromkeys(("bare", "governed", "timed", "cpu"), float("inf"))
    phases: dict[Phase, float] = {}
    text = message.data.text if isinstance(message.data, Json) else b"{}"
    needs_kernel = tool.takes_context or tool.shape not in ("async", "sync")
    for _ in range(ROUNDS):
        if not needs_kernel:
            best["bare"] = min(best["bare"], await _measure_bare(tool, text, calls))
        best["governed"] = min(best["governed"], await _measure_governed(session, message, calls))
        spent.update(dict.fromkeys(PHASES, 0))
        timed = await _measure_governed(session, message, calls, spent)
        if timed < best["timed"]:
            best["timed"], phases = timed, {phase: spent[phase] / calls / 1000 for phase in PHASES}
        await audit.flush()
        began = process_time_ns()
        await _measure_governed(session, message, calls)
        await audit.flush()
        best["cpu"] = min(best["cpu"], (process_time_ns() - began) / calls / 1000)
    bare = None if needs_kernel else best["bare"]
    rest = max(0.0, best["timed"] - sum(phases.values()))
    return ToolCost(tool, calls, bare, best["governed"], phases, rest, best["cpu"])


async def _measure_bare(tool: AnyTool, arguments: bytes, calls: int) -> float:
    """Return the microseconds of one validation and one run of the handler alone."""
    began = perf_counter_ns()
    for _ in range(calls):
        result = tool.handler(**tool.arguments.check_json(arguments))
        if inspect.isawaitable(result):
            await result
    return (perf_counter_ns() - began) / calls / 1000


async def _measure_governed(
    session: Session, message: Message, calls: int, spent: dict[Phase, int] | None = None
) -> float:
    """Return the microseconds of one governed call; add to ``spent`` the nanoseconds of each phase, if it is given."""
    compiled = session.invocation_of(message).compiled
    if spent is not None:
        phases = {
            phase: tuple(_time_step(step, phase, spent) for step in steps) for phase, steps in compiled.phases.items()
        }
        compiled = replace(compiled, phases=phases)
    began = perf_counter_ns()
    for _ in range(calls):
        call = session.invocation_of(message)
        if spent is not None:
            call.compiled = compiled
        await _execute(call)
    return (perf_counter_ns() - began) / calls / 1000


async def _execute(call: Invocation) -> None:
    await execute(call)
    if call.error is not None:
        raise call.error


def _time_step(step: Step, phase: Phase, spent: dict[Phase, int]) -> Step:
    def run(call: Invocation) -> Awaitable[None] | None:
        began = perf_counter_ns()
        pending = step(call)
        if pending is not None:
            return finish(pending, began)
        spent[phase] += perf_counter_ns() - began
        return None

    async def finish(pending: Awaitable[None], began: int) -> None:
        try:
            await pending
        finally:
            spent[phase] += perf_counter_ns() - began

    return run


def cost_data(cost: ToolCost) -> dict[str, Any]:
    """Return the measurements as JSON data, with times in microseconds per call."""
    return {
        "tool": cost.tool.name,
        "effect": cost.tool.effect,
        "calls": cost.calls,
        "bare_us": cost.bare,
        "governed_us": cost.governed,
        "phases_us": cost.phases,
        "rest_us": cost.rest,
        "recorded_cpu_us": cost.cpu,
    }


def print_cost(cost: ToolCost) -> None:
    """Print the measurements as a table."""
    out().print(table("MEASURED", "µs A CALL", "SHARE", rows=_rows(cost), folds=("MEASURED",)))
    summary = f"{cost.tool.name}, best of {ROUNDS} rounds of {cost.calls:,} calls"
    err().print(f"[dim]{cell(summary)}[/]", soft_wrap=True)


def _rows(cost: ToolCost) -> Iterator[tuple[str, str, str]]:
    if cost.bare is not None:
        yield "bare: validation and the handler", f"{cost.bare:.1f}", ""
    yield "governed", f"{cost.governed:.1f}", ""
    parts: dict[str, float] = {**cost.phases, "begin and end": cost.rest}
    total = sum(parts.values()) or 1
    for name, took in parts.items():
        yield f"  {name}", f"{took:.1f}", f"{100 * took / total:.0f} %"
    yield "on record: processor time until it is durable", f"{cost.cpu:.1f}", ""
