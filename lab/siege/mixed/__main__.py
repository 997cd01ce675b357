"""``python -m lab.siege.mixed``: half an hour of mixed load on a real server; 1 if something goes wrong or grows."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lab.siege.load.machine import machine
from lab.siege.mixed.chart import chart
from lab.siege.mixed.report import text_of
from lab.siege.mixed.soak import problems, soak


def main() -> int:
    """Soak a server, print what came of it, and write the report and its chart where ``--save`` says."""
    parser = argparse.ArgumentParser(prog="lab.siege.mixed", description=__doc__)
    parser.add_argument("--engine", choices=("sqlite", "postgres"), default="postgres")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=float, default=5, help="seconds between two samples")
    parser.add_argument("--pace", type=float, default=1, help="how many times the usual rate")
    parser.add_argument("--save", type=Path, help="write the report there, as JSON, and its chart beside it, as SVG")
    options = parser.parse_args()
    report: dict[str, Any] = {
        "machine": machine(),
        **soak(options.engine, options.minutes * 60, every=options.every, pace=options.pace),
    }
    if options.save:
        options.save.write_text(text_of(report), encoding="utf-8")
        options.save.with_suffix(".svg").write_text(chart(report), encoding="utf-8")
    table = Table(title=f"{report['seconds'] / 60:.1f} minutes of mixed load, {report['engine']}: milliseconds")
    for column in ("kind", "count", "p50", "p95", "p99", "max"):
        table.add_column(column, justify="left" if column == "kind" else "right")
    for name, times in report["kinds"].items():
        table.add_row(name, *(f"{times[column]:,}" for column in ("count", "p50", "p95", "p99", "max")))
    console = Console(width=140)
    console.print(table)
    grown = ", ".join(f"{name} {by:+,}" for name, by in report["growth"].items())
    console.print(f"growth: {grown}; at most {report['peak_rss'] / 1e6:.0f} MB; the record verifies")
    failures = problems(report)
    for problem in failures:
        console.print(f"failed: {problem}", markup=False)
    return int(bool(failures))


if __name__ == "__main__":
    raise SystemExit(main())
