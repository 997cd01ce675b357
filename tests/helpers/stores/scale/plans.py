"""What is wrong with a plan: a table that is walked, rows that are sorted, rows that are read for nothing."""

from __future__ import annotations

import re
from typing import Any, Final

from capset.stores.base.audit import MAX_SEARCHED
from tests.helpers.stores.scale.filling import sizes

READ_PAST: Final = 1_100
"""How many rows a query may read and leave out: some twenty pages, or all that a small organisation has of records."""
STEPS: Final = 300_000
"""How many steps of its machine SQLite may take: some thousands of rows."""
_COUNTS: Final = re.compile(r"count\(\*\)|min\(|max\(")
"""What counts or looks for an end reads an index, as much of it as there is."""
_SEARCH: Final = re.compile(r"LIMIT .* OFFSET")
"""The start of a search for a text, in the newest ``MAX_SEARCHED`` records of a kind, wherever the others are."""
_WALKED: Final = re.compile(r"SCAN (?!CONSTANT)(?!.*USING)(?!.*VIRTUAL TABLE)(?!\(?subquery)(?!anon_)")


def of_file(connection: Any, statement: str, parameters: Any) -> list[str]:
    """Look at SQLite's plan, and count the steps that it takes."""
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    problems = [line for line in plan if _WALKED.match(line)]
    # What a search has found is put in order, as are the sums of agents' usage, and the requests whose time is up: few,
    # since they are closed.
    if not any(part in statement for part in ("documents", "expires_at <=", "sum(model_usage")):
        problems += [line for line in plan if "TEMP B-TREE FOR ORDER BY" in line]
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 100
        return 0

    connection.set_progress_handler(step, 100)
    connection.execute(statement, parameters).fetchall()
    connection.set_progress_handler(None, 0)
    if steps > STEPS and not _COUNTS.search(statement):
        problems.append(f"{steps} steps")
    return problems


def of_server(connection: Any, statement: str, parameters: Any) -> list[str]:
    """Look at PostgreSQL's plan, and at the rows that it read for nothing."""
    plan_rows = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters).fetchall()
    problems: list[str] = []
    nodes = [plan_rows[0][0][0]["Plan"]]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        kind, rows = node["Node Type"], node["Actual Rows"]
        if kind == "Seq Scan" and not _COUNTS.search(statement) and rows + node.get("Rows Removed by Filter", 0) > 1000:
            problems.append(f"Seq Scan of {node['Relation Name']}")
        if kind == "Sort" and rows > 1000:
            problems.append(f"Sort of {rows} rows")
        read_past = node.get("Rows Removed by Filter", 0)
        if _SEARCH.search(statement) and read_past < 2 * MAX_SEARCHED:
            continue
        if read_past > (sizes().records // 90 if node.get("Index Name") == "ix_records_org" else READ_PAST):
            problems.append(f"{read_past} rows read for nothing by {node.get('Index Name', kind)}")
    return problems
