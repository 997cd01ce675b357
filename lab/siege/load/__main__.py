"""``python -m lab.siege.load``: measure a crowd on one server, several servers, workers, and writers of one chain."""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from lab.siege.load import crowd, replicas, workers, writers
from lab.siege.load.machine import machine

PARTS = ("crowd-sqlite", "crowd-postgres", "replicas", "workers", "writers")
Found = dict[str, Any]


def main() -> int:
    """Measure the parts named on the command line, or all; end with 1 if one misses a target."""
    parser = argparse.ArgumentParser(prog="lab.siege.load", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="small numbers, for a look")
    parser.add_argument("--rate", type=float, default=60, help="calls a second among the crowd")
    parser.add_argument("--save", type=Path, help="put what is found into this file, as JSON, by part")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    missed = False
    for part in options.parts or PARTS:
        before = machine()
        measurement, misses = _measure(part, quick=options.quick, rate=options.rate)
        missed |= bool(misses)
        _print(part, measurement, misses)
        if options.save:
            stored: Found = json.loads(options.save.read_text(encoding="utf-8")) if options.save.exists() else {}
            stored[part] = {"machine": before, **measurement}
            options.save.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    return int(missed)


def _measure(part: str, *, quick: bool, rate: float) -> tuple[Found, list[str]]:
    if part == "replicas":
        measurement = replicas.measure(replicas.Sizes((1, 2), 1, 2.0) if quick else replicas.Sizes())
        return measurement, replicas.misses(measurement)
    if part == "workers":
        measurement = workers.measure(workers.Sizes(runs=60, rounds=1) if quick else workers.Sizes())
        return measurement, workers.misses(measurement)
    if part == "writers":
        measurement = writers.measure(writers.Sizes((1, 2), 1, 2.0) if quick else writers.Sizes())
        return measurement, writers.misses(measurement)
    sizes = crowd.Sizes(400, 100, rate, 5.0) if quick else crowd.Sizes(rate=rate)
    measurement = crowd.measure(part.removeprefix("crowd-"), sizes)
    return measurement, crowd.misses(measurement)


def _print(part: str, measurement: Found, misses: Iterable[str]) -> None:
    console = Console(width=160)
    rows = measurement.get("rows", [measurement])
    table = Table(title=part)
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    console.print(table)
    for miss in misses:
        console.print(f"missed: {miss}", markup=False)


def _text(value: Any) -> str:  # any JSON
    if isinstance(value, dict):
        return "\n".join(f"{name} {member}" for name, member in cast(Found, value).items())
    return str(value)


if __name__ == "__main__":
    raise SystemExit(main())
