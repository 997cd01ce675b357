"""``capset check``: all problems of a configuration file, and what it would serve."""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from capset.definitions.governance.limits import checked_limits
from capset.errors import counted
from capset.kernel.registry import Registry
from capset_cli.common.configuration import print_warnings
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson
from capset_cli.common.output import cell, err, escaped, out, print_json, table
from capset_connect.config_file import Action, Configuration, InvalidConfiguration, Problem, read_configuration
from capset_connect.config_file.checks import told_of, told_of_problems
from capset_connect.config_file.source_checks import source_problems, source_warnings
from capset_connect.mcp.server import PROMPTS, READ
from capset_connect.openapi.api import OpenApi
from capset_connect.pins.tool_pins import capability_with
from capset_connect.sources import Source


@guarded
def check_command(
    file: Annotated[Path, typer.Argument(help="A configuration file: YAML, JSON or TOML.")],
    as_json: AsJson = False,
) -> Exit:
    """Check a configuration file, and show what it would serve. Its handlers are loaded, but not called.

    API documents in files are read; no MCP server is started, and nothing is requested over a network.
    Exits with 2 if anything is wrong. Warnings do not count.
    """
    try:
        configuration = read_configuration(file, Registry.installed(), upstream=lambda _: capability_with)
    except InvalidConfiguration as error:
        _show_problems(file, error.problems, as_json=as_json)
        return Exit.BAD_INPUT
    if problems := asyncio.run(source_problems(configuration)):
        _show_problems(file, problems, as_json=as_json)
        return Exit.BAD_INPUT
    configuration = replace(configuration, warnings=(*configuration.warnings, *source_warnings(configuration)))
    if as_json:
        print_json(told_of(configuration).plain())
        return Exit.DONE
    print_warnings(file, configuration.warnings)
    if configuration.actions:
        rows = (_row(action) for action in configuration.actions.values())
        columns = ("ACTION", "TITLE", "EFFECT", "PERMISSIONS", "LIMITS", "APPROVAL", "HANDLER")
        out().print(table(*columns, rows=rows, folds=("TITLE", "PERMISSIONS", "LIMITS", "HANDLER")))
    if configuration.sources:
        rows = (_source_row(source) for source in configuration.sources)
        columns = ("SERVER", "FROM", "TOOLS", "PERMISSIONS", "LIMITS")
        out().print(table(*columns, rows=rows, folds=("FROM", "TOOLS", "PERMISSIONS", "LIMITS")))
    err().print(f"[dim]{cell(_summary(configuration))}[/]", soft_wrap=True)
    return Exit.DONE


def _show_problems(file: Path, problems: Iterable[Problem], *, as_json: bool) -> None:
    if as_json:
        print_json(told_of_problems(problems).plain())
        return
    for problem in problems:
        place = f"{file}:{problem.line}" if problem.line is not None else str(file)
        owner = f" (action {problem.action!r})" if problem.action else ""
        line = ": ".join(part for part in (place, f"{problem.path}{owner}", problem.message) if part)
        err().print(f"[red]error:[/] {escaped(line)}", soft_wrap=True)


def _row(action: Action) -> Iterator[str]:
    tool = action.tool
    yield cell(tool.name)
    yield cell(tool.title or "–")
    yield tool.effect
    yield cell(", ".join(sorted(tool.permissions)) or "–")
    yield cell(", ".join(map(str, tool.limits)) or "–")
    yield "decided by its function" if callable(tool.approval) else tool.approval
    yield cell(action.source)


def _source_row(source: Source) -> Iterator[str]:
    yield cell(source.pin_key)
    if isinstance(source, OpenApi):
        yield cell(source.document if isinstance(source.document, str) else "a mapping")
        chosen = None if source.operations is None else sorted(source.operations)
        chosen = (
            chosen if source.tags is None else [*(chosen or ()), *(f"the tag {tag}" for tag in sorted(source.tags))]
        )
    else:
        yield cell(source.url or shlex.join(source.command))
        named = None if source.tools is None else sorted(source.tools)
        prompts = [f"{PROMPTS}{name}" for name in sorted(source.prompts)]
        chosen = [*(["all"] if named is None else named), *prompts, *([READ] if source.resources else ())]
    yield cell("all" if chosen is None else ", ".join(chosen) or "–")
    yield cell(", ".join(sorted(source.permissions)) or "–")
    yield cell(", ".join(map(str, checked_limits("limits", source.limits))) or "–")


def _summary(configuration: Configuration) -> str:
    count = len(configuration.actions)
    upstream = {source.capability for source in configuration.sources}
    capabilities = [
        capability.name
        for capability in configuration.capabilities
        if capability.base.origin is None and capability.name not in upstream
    ]
    within = f", within {configuration.governance.allowance}" if configuration.governance.allowance else ""
    counts = Counter("API" if isinstance(source, OpenApi) else "MCP server" for source in configuration.sources)
    sources = " and ".join(counted(many, kind) for kind, many in counts.items())
    has = [f"all tools of {', '.join(capabilities)}"] if capabilities else []
    has += [f"the approved tools of {sources}"] if sources else []
    has = [counted(count, "action"), *has] if count or not has else has
    return f"{configuration.path} is sound: the agent {configuration.agent.name!r} with {', and '.join(has)}{within}"
