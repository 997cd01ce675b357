"""``capset doctor``: checks an installation, one line each, with the way to mend what is wrong."""

from __future__ import annotations

import asyncio
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from capset.clock import iso
from capset.errors import CapsetError, counted
from capset.extras import extras_of, install_command
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.net.proxies import environment_proxy
from capset.stores.base import AuditQuery
from capset.wire.capabilities import readiness_of
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db
from capset_cli.common.output import cell, escaped, out, print_json
from capset_cli.common.remote import format_options
from capset_cli.common.settings import Settings, has_db, load_settings
from capset_cli.db import sql_store_at
from capset_connect.config_file import Configuration, InvalidConfiguration, read_configuration
from capset_connect.declarations import secrets_in
from capset_connect.declared_sources import approvals_text, need_of
from capset_connect.pins.tool_pins import capability_with

Level = Literal["ok", "note", "problem"]
_COLOURS: Final = {"ok": "green", "note": "yellow", "problem": "red"}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One line: what was checked, its state, and the command or the step that mends it."""

    check: str
    level: Level
    message: str
    remedy: str | None = None


@dataclass(slots=True)
class Installation:
    """An installation: the settings, the file if one is named, and what earlier checks read from it."""

    settings: Settings
    file: Path | None
    options: str
    """The options by which other commands find the same database, each after a space."""
    configuration: Configuration | None = None
    has_records: bool = False
    """Whether there is a database of this version, which can be opened without a change."""


Check = Callable[[Installation], Iterator[Diagnosis]]
CHECKS: Final[list[Check]] = []
"""All checks in order; ``check`` adds one."""


def check(function: Check) -> Check:
    """Register a check. A ``CapsetError`` that it raises is a problem of its name."""
    CHECKS.append(function)
    return function


@guarded
def doctor_command(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A configuration file whose servers and secrets to check, too."),
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Check this installation: extras, database, file, secrets, servers, approvals, sandbox, clock and proxy.

    Nothing is created or upgraded, and no tool is called. MCP servers of the file are started, and its APIs' documents
    read. Exits with 1 if there is a problem; notes do not count.
    """
    installation = Installation(load_settings(db=db), file, format_options(db=db))
    diagnoses: list[Diagnosis] = []
    for function in CHECKS:
        for diagnosis in _run(function, installation):
            diagnoses.append(diagnosis)
            if not as_json:
                _print(diagnosis)
    if as_json:
        items = [
            {"check": entry.check, "level": entry.level, "message": entry.message, "remedy": entry.remedy}
            for entry in diagnoses
        ]
        print_json({"items": items})
    return Exit.FAILED if any(entry.level == "problem" for entry in diagnoses) else Exit.DONE


def _run(function: Check, installation: Installation) -> Iterator[Diagnosis]:
    try:
        yield from function(installation)
    except CapsetError as error:
        yield Diagnosis(function.__name__, "problem", error.message, error.hint)


def _print(diagnosis: Diagnosis) -> None:
    mark = f"[{_COLOURS[diagnosis.level]}]{diagnosis.level:<7}[/]"
    remedy = "" if diagnosis.remedy is None else f" [dim]→ {escaped(diagnosis.remedy)}[/]"
    out().print(f"{mark} {cell(diagnosis.check):<9} {escaped(diagnosis.message)}{remedy}", soft_wrap=True)


@check
def versions(_: Installation) -> Iterator[Diagnosis]:
    """Report the versions of capset and Python."""
    python = f"Python {platform.python_version()} on {platform.system()}"
    yield Diagnosis("versions", "ok", f"capset {version('capset')}, {python}, {sys.prefix}")


@check
def extras(_: Installation) -> Iterator[Diagnosis]:
    """Report the extras that are not installed."""
    states = extras_of()
    missing = [name for name, is_installed in states.items() if not is_installed]
    installed = [name for name, is_installed in states.items() if is_installed]
    if installed:
        yield Diagnosis("extras", "ok", f"installed: {', '.join(installed)}")
    if missing:
        yield Diagnosis("extras", "note", f"not installed: {', '.join(missing)}", install_command("NAME"))


@check
def database(installation: Installation) -> Iterator[Diagnosis]:
    """Check that the database is there, sound, and of this version."""
    url = installation.settings.db
    if url.startswith("memory:"):
        yield Diagnosis(
            "database", "note", "the store is in memory: nothing outlives the process", "name one with --db"
        )
        return
    if not has_db(url):
        yield Diagnosis("database", "note", f"there is no database yet at {url}: the first command creates it")
        return
    from capset.stores.sql.schema.maintenance import check as check_database

    store = sql_store_at(url)
    report = check_database(store)
    remedy = f"capset db {'upgrade' if report.revision is None else 'check'}{installation.options}"
    for problem in report.problems:
        yield Diagnosis("database", "problem", problem, remedy)
    installation.has_records = not report.problems
    if not report.problems:
        yield Diagnosis("database", "ok", f"{store.name}: revision {report.revision}, no damage")


@check
def file(installation: Installation) -> Iterator[Diagnosis]:
    """Read the configuration file."""
    if installation.file is None:
        return
    try:
        configuration = read_configuration(installation.file, Registry.installed(), upstream=lambda _: capability_with)
    except InvalidConfiguration as error:
        first = str(error.problems[0])
        more = "" if len(error.problems) == 1 else f" (and {len(error.problems) - 1} more)"
        path = shlex.quote(str(installation.file))
        yield Diagnosis("file", "problem", f"{installation.file}: {first}{more}", f"capset check {path}")
        return
    installation.configuration = configuration
    for warning in configuration.warnings:
        yield Diagnosis("file", "note", f"{installation.file}: {warning}")
    yield Diagnosis("file", "ok", f"{installation.file}: the agent {configuration.agent.name!r}")


@check
def secrets(installation: Installation) -> Iterator[Diagnosis]:
    """Check that every secret that the file names is set."""
    configuration = installation.configuration
    if configuration is None:
        return
    owners: dict[str, str] = {}
    for source in configuration.sources:
        for name in source.secrets:
            owners.setdefault(name, source.label)
    for channel in configuration.channels:
        texts = (getattr(channel, member.name) for member in fields(channel))
        for name in secrets_in(text for text in texts if isinstance(text, str)):
            owners.setdefault(name, f"the channel {channel.name!r}")
    unset = {name: owner for name, owner in owners.items() if not os.environ.get(name)}
    for name, owner in unset.items():
        yield Diagnosis("secrets", "problem", f"{name} is not set; {owner} needs it", f"export {name}=…")
    if owners and not unset:
        yield Diagnosis("secrets", "ok", f"set: {', '.join(owners)}")


@check
def servers(installation: Installation) -> Iterator[Diagnosis]:
    """Connect to the MCP servers and APIs of the file, and compare what they offer with the approvals."""
    configuration = installation.configuration
    if configuration is None or not configuration.sources:
        return
    from capset_cli.common.sources import unset_secrets
    from capset_cli.mcp.pins import query_sources

    options = f" --agent {shlex.quote(str(installation.file))}{installation.options}"
    for report in query_sources(configuration.sources, installation.settings):
        need = need_of(report, unset_secrets(report.source))
        if need is None:
            yield Diagnosis("servers", "ok", f"{report.source.pin_key}: {approvals_text(report)}")
            continue
        if need.secrets:  # the check of secrets names them
            continue
        output = "".join(f"\n        {line}" for line in report.output)
        yield Diagnosis("servers", "problem", f"{need.key}: {need.text}{output}", need.remedy(options))


@check
def approvals(installation: Installation) -> Iterator[Diagnosis]:
    """Report requests that wait for an approval, and a file without channels that announce them."""
    if installation.has_records:
        pending = asyncio.run(_pending_requests(installation.settings.db))
        if pending:
            message = f"{counted(pending, 'request')} without an organisation {'waits' if pending == 1 else 'wait'}"
            yield Diagnosis(
                "approvals", "note", message, f"capset approvals list --status pending{installation.options}"
            )
    configuration = installation.configuration
    if configuration is None:
        return
    asking = [tool.name for tool in configuration.tools if tool.approval != "auto"]
    if asking and not configuration.channels:
        message = f"calls of {', '.join(asking)} need an approval, and no channel announces the requests"
        yield Diagnosis("approvals", "note", message, "add notifications to the file, or watch the console's inbox")


async def _pending_requests(db: str) -> int:
    async with Kernel(store=db) as kernel:
        return (await kernel.approvals.summary(None)).pending


@check
def readiness(_: Installation) -> Iterator[Diagnosis]:
    """Report what installed capabilities say of this machine, such as where the sandbox runs code."""
    for capability in Registry.installed().capabilities.values():
        for name, state in readiness_of(capability).items():
            is_ready = " " not in state  # otherwise it is a sentence that gives the reason
            yield Diagnosis(capability.name, "ok" if is_ready else "note", f"{name}: {state}")


@check
def clock(installation: Installation) -> Iterator[Diagnosis]:
    """Compare this machine's clock with the newest record."""
    if not installation.has_records:
        return
    newest = asyncio.run(_newest_record(installation.settings.db))
    now, soon = (iso(time.time_ns() + seconds * 1_000_000_000) for seconds in (0, 2))
    if newest is not None and newest > soon:
        message = f"the newest record is of {newest}, and it is {now} here"
        yield Diagnosis("clock", "problem", message, "synchronise the clocks of all machines that use the database")
    else:
        yield Diagnosis("clock", "ok", now)


async def _newest_record(db: str) -> str | None:
    async with Kernel(store=db) as kernel:
        records = (await kernel.audit.query(AuditQuery(kind="all", limit=1))).items
        return records[0].time if records else None


@check
def proxy(_: Installation) -> Iterator[Diagnosis]:
    """Report the proxy of the environment for other hosts."""
    for scheme, port in (("https", 443), ("http", 80)):
        if (selected := environment_proxy(scheme, "example.com", port)) is not None:
            yield Diagnosis("proxy", "ok", f"{scheme} requests use {selected.host}:{selected.port}")
