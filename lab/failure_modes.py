"""``python -m lab.failure_modes``: write the matrix into the page about failure modes, of a saved run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

DOCS: Final = Path(__file__).parents[1] / "docs"
RESULT: Final = DOCS / "reference" / "faults.json"
PAGE: Final = DOCS / "guide" / "failure-modes.md"

Report = dict[str, Any]
"""What ``python -m lab.faults.matrix --save`` writes: the machine, the seed, and the cells."""

_BEGIN: Final = "<!-- written by python -m lab.failure_modes -->\n"
_END: Final = "<!-- end -->\n"
_SUM: Final = """\
From [one saved run](../reference/faults.json) of {runs} runs, on {cores} cores shared with other work, {system},
Python {python}. Of {acknowledged:,} acknowledged calls, turns and files, {lost} were lost. Effects that
happened twice: {doubled}. Intents that stayed open: {open}. The chain verified in {chains} of {runs} runs. The slowest
recovery took {slowest:.1f} seconds. All promises held in {held} of {runs} runs.

Each number is the slowest recovery of a cell, in seconds after the component's return. A cell in which a promise did
not hold also says in how many runs.
"""
_COUNTED: Final = ("runs", "acknowledged", "lost", "doubled", "open", "chains", "held")


def page(report: Report, text: str) -> str:
    """Return the text of the page with the matrix of a report."""
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}\n{_matrix(report)}\n{_END}{tail}"


def _matrix(report: Report) -> str:
    cells = report["cells"]
    total = {key: sum(cell[key] for cell in cells) for key in _COUNTED}
    summary = _SUM.format(**total, **report["machine"], slowest=max(cell["recovery"] for cell in cells))
    moments = list(dict.fromkeys(cell["moment"] for cell in cells))
    lines = [summary, f"| fault | {' | '.join(moments)} |", f"|---|{'---|' * len(moments)}"]
    for component, fault, engine in dict.fromkeys(map(_row, cells)):
        cells_by_moment = {cell["moment"]: cell for cell in cells if _row(cell) == (component, fault, engine)}
        name = f"{component}: {fault}" + ("" if component in (engine, "clients") else f", {engine}")
        lines.append(f"| {name} | {' | '.join(_cell(cells_by_moment.get(moment)) for moment in moments)} |")
    return "\n".join([*lines, ""])


def _row(cell: Report) -> tuple[str, str, str]:
    return cell["component"], cell["fault"], cell["engine"]


def _cell(cell: Report | None) -> str:
    if cell is None:
        return ""
    missed = cell["runs"] - cell["held"]
    return f"{cell['recovery']:.1f}" + (f", **{missed} of {cell['runs']} not held**" if missed else "")


if __name__ == "__main__":
    report = json.loads(RESULT.read_text(encoding="utf-8"))
    PAGE.write_text(page(report, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
