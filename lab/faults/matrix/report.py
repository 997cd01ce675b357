"""The report of a matrix: what is saved of it, and the table that is printed."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from lab.faults.matrix.cells import ROWS
from lab.faults.matrix.moments import MOMENTS
from lab.faults.matrix.run import Run

Report = dict[str, Any]
"""What ``--save`` writes: the machine, the seed, and a cell for each fault, engine and moment."""
Results = Mapping[tuple[str, str], Sequence[Run]]
"""The runs by the name of their row and their moment."""


def report_of(results: Results, seed: int) -> Report:
    """Return the report of runs."""
    cells: list[dict[str, Any]] = [
        {
            "component": row.component,
            "fault": row.fault,
            "engine": row.engine,
            "moment": moment,
            "runs": len(runs),
            "acknowledged": sum(run.acknowledged for run in runs),
            "recovery": round(max(run.recovery for run in runs), 2),
            "lost": sum(len(run.lost) for run in runs),
            "doubled": sum(len(run.doubled) for run in runs),
            "open": sum(max(run.open_intents, 0) for run in runs),
            "chains": sum(not run.chain for run in runs),
            "held": sum(run.is_held for run in runs),
            "misses": [miss for run in runs for miss in run.misses],
        }
        for row in ROWS
        for moment in row.moments
        if (runs := results.get((row.name, moment)))
    ]
    system = f"{platform.system()} {platform.machine()}"
    machine = {"cores": os.cpu_count(), "system": system, "python": platform.python_version()}
    return {"machine": machine, "seed": seed, "runs": sum(cell["runs"] for cell in cells), "cells": cells}


def table_of(report: Report) -> Table:
    """Return the matrix as a table: a row for each fault, a column for each moment, and what came of all."""
    table = Table(
        title=f"{report['runs']} runs, seed {report['seed']}: runs × the slowest recovery in seconds", padding=(0, 1)
    )
    for column in ("component", "fault", "engine", *MOMENTS, "lost", "doubled", "chain"):
        table.add_column(column, justify="left" if column in ("component", "fault", "engine") else "right")
    for row in ROWS:
        cells_by_moment = {cell["moment"]: cell for cell in cells_of(report, row.component, row.fault, row.engine)}
        if cells_by_moment:
            summaries = [_cell(cells_by_moment[moment]) if moment in cells_by_moment else "" for moment in MOMENTS]
            lost, doubled = (str(sum(cell[key] for cell in cells_by_moment.values())) for key in ("lost", "doubled"))
            runs = sum(cell["runs"] for cell in cells_by_moment.values())
            chains = sum(cell["chains"] for cell in cells_by_moment.values())
            verified = "verifies" if chains == runs else f"{chains} of {runs}"
            table.add_row(row.component, row.fault, row.engine, *summaries, lost, doubled, verified)
    return table


def cells_of(report: Report, component: str, fault: str, engine: str) -> list[dict[str, Any]]:
    """Return the cells of one row."""
    return [
        cell
        for cell in report["cells"]
        if (cell["component"], cell["fault"], cell["engine"]) == (component, fault, engine)
    ]


def _cell(cell: Mapping[str, Any]) -> str:
    wrong = "" if cell["held"] == cell["runs"] else f" ({cell['runs'] - cell['held']} not held)"
    return f"{cell['runs']} × {cell['recovery']:.1f}{wrong}"
