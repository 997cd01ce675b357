"""``python -m benchmarks [--quick] [--json]``: measure everything, and print a table or a JSON list."""

from __future__ import annotations

import argparse
import json

from rich.console import Console
from rich.table import Table

from benchmarks import compose, evaluating, fingerprints, governed_call, import_cpu, rest_call, state, streams
from benchmarks.row import Row

MEASURES = (
    governed_call.measure,
    import_cpu.measure,
    compose.measure,
    fingerprints.measure,
    evaluating.measure,
    streams.measure,
    state.measure,
    rest_call.measure,
)


def main() -> None:
    """Run every benchmark. A target that is missed is reported, and fails nothing: timings are no tests."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options = parser.parse_args()
    rows = [row for measure in MEASURES for row in measure(quick=options.quick)]
    if options.json:
        print(json.dumps([row.plain() for row in rows], ensure_ascii=False))
    else:
        _print_table(rows)


def _print_table(rows: list[Row]) -> None:
    table = Table("what", "value", "unit", "target", "met", "in the same run", box=None)
    for row in rows:
        peers = ", ".join(f"{name} {value}" for name, value in row.peers.items())
        met = "[green]yes[/]" if row.met else "[red]no[/]"
        table.add_row(row.name, f"{row.value:g}", row.unit, f"{row.direction} {row.target:g}", met, peers)
    Console().print(table)


if __name__ == "__main__":
    main()
