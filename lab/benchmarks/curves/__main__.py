"""``python -m lab.benchmarks.curves [NAME …] [--quick] [--save FILE]``: measure how times and sizes grow with numbers.

With all sizes it takes about half an hour, 8 GB of memory and 20 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lab.benchmarks import compose, open_sessions, registered
from lab.benchmarks.curves import records, sessions
from lab.benchmarks.curves.curve import Curve
from lab.siege.load.machine import machine

Measure = Callable[[Sequence[int]], list[Curve]]


def _tools(counts: Sequence[int]) -> list[Curve]:
    calls = registered.microseconds(counts, rounds=5)
    times = {size: min(compose.seconds(size) for _ in range(3)) / size * 1e6 for size in counts}
    return [
        Curve("A governed call", "registered tools", "µs", {f"by {how}": line for how, line in calls.items()}),
        Curve("Composing, for each tool", "registered tools", "µs", {"hashes too": times}),
    ]


def _open_sessions(counts: Sequence[int]) -> list[Curve]:
    points = open_sessions.measured(counts)
    return [
        Curve(
            "Open sessions of a process",
            "open sessions",
            unit,
            {label: {int(point["count"]): point[key] for point in points}},
        )
        for unit, label, key in (("µs", "open one, and a call", "microseconds"), ("kB", "memory of each", "kilobytes"))
    ]


MEASURES: dict[str, tuple[Measure, tuple[int, ...]]] = {
    "tools": (_tools, (10, 100, 1_000, 10_000)),
    "open_sessions": (_open_sessions, (1_000, 10_000, 100_000, 1_000_000)),
    "stored_sessions": (sessions.measure, (1_000, 10_000, 100_000, 1_000_000)),
    "records": (records.measure, (1_000, 10_000, 100_000, 1_000_000, 10_000_000)),
}
"""What measures each, and at which numbers; quickly at the first two."""


def main() -> None:
    """Measure all, or some."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.curves", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(MEASURES)}; else all")
    parser.add_argument("--quick", action="store_true", help="small numbers only")
    parser.add_argument(
        "--save", metavar="FILE", type=Path, help="keep the curves there, by name, with the machine's kind"
    )
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in MEASURES]:
        parser.error(f"no curve is named {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    for name in options.names or MEASURES:
        before, began = machine(), time.monotonic()
        measure, counts = MEASURES[name]
        report = {
            "machine": before,
            "curves": [curve.plain() for curve in measure(counts[:2] if options.quick else counts)],
        }
        print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr)
        if options.save is None:
            print(json.dumps(report, indent=1, ensure_ascii=False))
        else:
            _keep(options.save, name, report)


def _keep(path: Path, name: str, report: dict[str, Any]) -> None:
    reports: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    reports[name] = report
    path.write_text(json.dumps(reports, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
