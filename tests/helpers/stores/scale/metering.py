"""What an operation of a store costs the engine, whatever the machine: steps of SQLite, rows that PostgreSQL reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, event

from capset.stores.sql.store import SqlStore

STRIDE: Final = 10
"""How many steps of SQLite's machine are counted at once."""
_READ: Final = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_xact_user_tables"
_BY_SESSION: Final = re.compile(r"SEARCH \w+ .*\((session|id|path|org)=\?")


@dataclass
class Meter:
    """What was asked and what it cost, since the last ``taken()``."""

    cost: int = 0
    asked: dict[str, Any] = field(default_factory=dict[str, Any])
    """The parameters of each statement, the last that were given."""

    def taken(self) -> int:
        """Return the cost so far, and begin anew."""
        cost, self.cost = self.cost, 0
        return cost


@contextmanager
def metered(store: SqlStore) -> Generator[Meter]:
    """Measure what an open store asks of its engine."""
    meter = Meter()

    def step() -> int:
        meter.cost += STRIDE
        return 0

    def begun(connection: Connection) -> None:
        raw: Any = connection.connection.dbapi_connection
        if connection.dialect.name == "sqlite":
            raw.set_progress_handler(step, STRIDE)
        else:  # which counts on from transactions that its statistics do not have yet
            meter.cost -= int(raw.execute(_READ).fetchone()[0])

    def ended(connection: Connection) -> None:
        if connection.dialect.name != "sqlite":
            raw: Any = connection.connection.dbapi_connection
            meter.cost += int(raw.execute(_READ).fetchone()[0])

    def executed(_c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE")) and "to_regclass" not in statement:
            meter.asked[statement] = parameters

    assert store._engines is not None
    handlers: list[tuple[str, Callable[..., None]]] = [
        ("begin", begun), ("commit", ended), ("before_cursor_execute", executed),
    ]  # fmt: skip
    for engine in store._engines:
        for name, handler in handlers:
            event.listen(engine, name, handler)
    yield meter
    for engine in store._engines:
        for name, handler in handlers:
            event.remove(engine, name, handler)


def walks(connection: Any, statement: str, parameters: Any, *, is_file: bool) -> list[str]:
    """Return what of a statement's plan is not found by an index of a session, a path or a content."""
    if is_file:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        return [line for line in plan if re.match("SCAN|SEARCH", line) and not _BY_SESSION.match(line)]
    nodes = [connection.execute(f"EXPLAIN (FORMAT JSON) {statement}", parameters).fetchone()[0][0]["Plan"]]
    scans: list[str] = []
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        if node["Node Type"] == "Seq Scan":
            scans.append(f"Seq Scan of {node['Relation Name']}")
    return scans
