"""``python -m lab.benchmarks.compare BEFORE AFTER``: two saved runs of one machine as a table; 1 if a row is worse."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NOISE = 0.05
"""How much worse a row may be, as a share of what it was."""
Row = Mapping[str, Any]
"""A row of a saved run."""


def compared(before: Sequence[Row], after: Sequence[Row]) -> list[tuple[Row | None, Row, float | None]]:
    """Return each row after, with that of the same name and unit before it, and by what share it is better.

    A negative share is worse. There is none for a row that is new, or measures something else than before.
    """
    earlier_rows = {(row["name"], row["unit"]): row for row in before}
    comparisons: list[tuple[Row | None, Row, float | None]] = []
    for row in after:
        earlier = earlier_rows.get((row["name"], row["unit"]))
        share = None
        if earlier is not None and earlier["value"] and row["value"]:
            ratio = row["value"] / earlier["value"]
            share = ratio - 1 if row["direction"] == "at least" else 1 / ratio - 1
        comparisons.append((earlier, row, share))
    return comparisons


def table(before: Sequence[Row], after: Sequence[Row]) -> str:
    """Return the comparison as Markdown."""
    lines = ["| what | before | after | | asked |", "|---|---|---|---|---|"]
    for earlier, row, share in compared(before, after):
        was = "–" if earlier is None else f"{earlier['value']:g}"
        change = "" if share is None else f"{abs(share):.0%} {'better' if share > 0 else '**worse**'}"
        if share is not None and abs(share) <= NOISE:
            change = "as good"
        target = f"{row['direction']} {row['target']:g}{'' if row['met'] else ': **not met**'}"
        lines.append(f"| {row['name']} | {was} | {row['value']:g} {row['unit']} | {change} | {target} |")
    return "\n".join(lines)


def main() -> int:
    """Print the comparison."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.compare", description=__doc__)
    for name in ("before", "after"):
        parser.add_argument(name, type=Path, help="what python -m lab.benchmarks --save has written")
    options = parser.parse_args()
    before, after = (json.loads(path.read_text(encoding="utf-8"))["rows"] for path in (options.before, options.after))
    print(table(before, after))
    return int(any(share is not None and share < -NOISE for _, _, share in compared(before, after)))


if __name__ == "__main__":
    raise SystemExit(main())
