"""``python -m lab.benchmarks [NAME …] [--quick] [--json] [--save FILE]``: measure all or some, as a table or JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lab.benchmarks import (
    agent_turn,
    approvals,
    audit_log,
    compose,
    credentials,
    durable,
    evaluating,
    fingerprints,
    gateway,
    governed_call,
    import_cpu,
    mcp_rates,
    observed_call,
    open_sessions,
    pages,
    registered,
    rest_call,
    rest_rates,
    runs,
    sandbox_runs,
    session_files,
    shared_limit,
    state,
    streams,
)
from lab.benchmarks.row import Row

MEASURES = {
    module.__name__.removeprefix("lab.benchmarks."): module.measure
    for module in (
        *(governed_call, observed_call, durable, approvals, shared_limit, registered, open_sessions, import_cpu),
        *(compose, audit_log, session_files),
        *(
            fingerprints,
            evaluating,
            streams,
            state,
            rest_call,
            rest_rates,
            mcp_rates,
            gateway,
            credentials,
            pages,
            agent_turn,
        ),
        *(runs, sandbox_runs),
    )
}

PACKAGES = (
    "pydantic",
    "pydantic-ai-slim",
    "fastmcp",
    "langchain-core",
    "openai-agents",
    "agent-os-kernel",
    "html-to-markdown",
    "markdownify",
)
"""Whose versions a saved result names."""


def main() -> None:
    """Run every benchmark. A target that is missed is reported, and fails nothing: timings are no tests."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(MEASURES)}; else all")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--save", metavar="FILE", type=Path, help="write the result there too, with the machine's kind")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in MEASURES]:
        parser.error(f"no benchmark is named {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    rows: list[Row] = []
    for name in options.names or MEASURES:
        began = time.monotonic()
        rows += MEASURES[name](quick=options.quick)
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    if options.save:
        options.save.write_text(
            json.dumps(_result(rows, quick=options.quick), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
    if options.json:
        print(json.dumps([row.plain() for row in rows], ensure_ascii=False))
    else:
        _print_table(rows)


def _result(rows: list[Row], *, quick: bool) -> dict[str, Any]:
    """Return what was measured, and on what: in general words, nothing that names a machine."""
    machine = {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    return {"machine": machine, "packages": _versions(), "quick": quick, "rows": [row.plain() for row in rows]}


def _versions() -> dict[str, str]:
    versions: dict[str, str] = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _print_table(rows: list[Row]) -> None:
    table = Table("what", "value", "unit", "target", "met", "in the same run", box=None)
    for row in rows:
        peers = ", ".join(f"{name} {value}" for name, value in row.peers.items())
        met = "[green]yes[/]" if row.met else "[red]no[/]"
        table.add_row(row.name, f"{row.value:g}", row.unit, f"{row.direction} {row.target:g}", met, peers)
    Console().print(table)


if __name__ == "__main__":
    main()
