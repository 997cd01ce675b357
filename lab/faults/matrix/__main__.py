"""``python -m lab.faults.matrix``: have every fault befall its component at every moment, and print the matrix."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from rich.console import Console

from lab.faults.matrix.cells import ROWS
from lab.faults.matrix.report import report_of, table_of
from lab.faults.matrix.run import Run, runs_of

RUNS = 3
"""How often each cell is run: 300 times and more in all."""


def main() -> int:
    """Run the matrix; end with 1 if anything was lost, doubled, broken or too slow."""
    parser = argparse.ArgumentParser(prog="python -m lab.faults.matrix", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of rows, such as 'server: killed'; else all")
    parser.add_argument("--runs", type=int, default=RUNS, help="how often each cell is run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="how many rows are run at once")
    parser.add_argument("--save", metavar="FILE", type=Path, help="write the report there")
    options = parser.parse_args()
    rows = [row for row in ROWS if not options.names or any(name in row.name for name in options.names)]
    results: dict[tuple[str, str], list[Run]] = {}
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for row, findings in zip(
            rows, pool.map(partial(runs_of, runs=options.runs, seed=options.seed), rows), strict=True
        ):
            results |= {(row.name, moment): runs for moment, runs in findings.items()}
    report = report_of(results, options.seed)
    if options.save:
        options.save.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    Console(width=190).print(table_of(report))
    findings = [
        f"{cell['component']}: {cell['fault']}, {cell['engine']}, {cell['moment']}: {miss}"
        for cell in report["cells"]
        for miss in cell["misses"]
    ]
    for line in findings:
        print(line)
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
