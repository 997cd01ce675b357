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
from capset_cli.common.output import cell, err, out, print_json, table, verbatim
from capset_connect.config_file import Action, Configuration, InvalidConfiguration, Problem, read_configuration
from capset_connect.config_file.checks import told_of, told_of_problems
from capset_connect.config_file.source_checks import source_problems, source_warnings
from capset_connect.mcp.server import PROMPTS, READ
from capset_connect.openapi.api import OpenApi
from capset_connect.pins import capability_with
from capset_connect.sources import Source


@guarded
def check_command(
    file: Annotated[Path, typer.Argument(help="A configuration file: YAML, JSON or TOML.")],
    as_json: AsJson = False,
) -> Exit:
    """Check a configuration file, and show what it would serve; its handlers are loaded, and none is called.

    Documents of APIs that are files are read; no MCP server is started, and nothing is asked over a network.
    It ends with 2 if anything is wrong with it; warnings change nothing about that.
    """
    try:
        found = read_configuration(file, Registry.installed(), upstream=lambda _: capability_with)
    except InvalidConfiguration as error:
        _show_problems(file, error.problems, as_json=as_json)
        return Exit.BAD_INPUT
    if problems := asyncio.run(source_problems(found)):
        _show_problems(file, problems, as_json=as_json)
        return Exit.BAD_INPUT
    found = replace(found, warnings=(*found.warnings, *source_warnings(found)))
    if as_json:
        print_json(told_of(found).plain())
        return Exit.DONE
    print_warnings(file, found.warnings)
    if found.actions:
        rows = (_row(one) for one in found.actions.values())
        columns = ("ACTION", "TITLE", "EFFECT", "PERMISSIONS", "LIMITS", "APPROVAL", "HANDLER")
        out().print(table(*columns, rows=rows, folds=("TITLE", "PERMISSIONS", "LIMITS", "HANDLER")))
    if found.sources:
        rows = (_source_row(one) for one in found.sources)
        columns = ("SERVER", "FROM", "TOOLS", "PERMISSIONS", "LIMITS")
        out().print(table(*columns, rows=rows, folds=("FROM", "TOOLS", "PERMISSIONS", "LIMITS")))
    err().print(f"[dim]{cell(_summary(found))}[/]", soft_wrap=True)
    return Exit.DONE


def _show_problems(file: Path, problems: Iterable[Problem], *, as_json: bool) -> None:
    if as_json:
        print_json(told_of_problems(problems).plain())
        return
    for one in problems:
        place = f"{file}:{one.line}" if one.line is not None else str(file)
        whose = f" (action {one.action!r})" if one.action else ""
        told = ": ".join(part for part in (place, f"{one.path}{whose}", one.message) if part)
        err().print(f"[red]error:[/] {verbatim(told)}", soft_wrap=True)


def _row(one: Action) -> Iterator[str]:
    tool = one.tool
    yield cell(tool.name)
    yield cell(tool.title or "–")
    yield tool.effect
    yield cell(", ".join(sorted(tool.permissions)) or "–")
    yield cell(", ".join(map(str, tool.limits)) or "–")
    yield "as its function says" if callable(tool.approval) else tool.approval
    yield cell(one.source)


def _source_row(one: Source) -> Iterator[str]:
    yield cell(one.pin_key)
    if isinstance(one, OpenApi):
        yield cell(one.document if isinstance(one.document, str) else "a mapping")
        chosen = None if one.operations is None else sorted(one.operations)
        chosen = chosen if one.tags is None else [*(chosen or ()), *(f"the tag {tag}" for tag in sorted(one.tags))]
    else:
        yield cell(one.url or shlex.join(one.command))
        named = None if one.tools is None else sorted(one.tools)
        prompts = [f"{PROMPTS}{name}" for name in sorted(one.prompts)]
        chosen = [*(["all"] if named is None else named), *prompts, *([READ] if one.resources else ())]
    yield cell("all" if chosen is None else ", ".join(chosen) or "–")
    yield cell(", ".join(sorted(one.permissions)) or "–")
    yield cell(", ".join(map(str, checked_limits("limits", one.limits))) or "–")


def _summary(found: Configuration) -> str:
    count = len(found.actions)
    upstream = {one.capability for one in found.sources}
    whole = [one.name for one in found.capabilities if one.base.origin is None and one.name not in upstream]
    within = f", within {found.governance.allowance}" if found.governance.allowance else ""
    counts = Counter("API" if isinstance(one, OpenApi) else "MCP server" for one in found.sources)
    sources = " and ".join(counted(many, what) for what, many in counts.items())
    has = [f"all tools of {', '.join(whole)}"] if whole else []
    has += [f"the approved tools of {sources}"] if sources else []
    has = [counted(count, "action"), *has] if count or not has else has
    return f"{found.path} is sound: the agent {found.agent.name!r} with {', and '.join(has)}{within}"
