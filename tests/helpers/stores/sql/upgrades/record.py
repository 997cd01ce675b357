"""Writes down every statement of every port, as the code of one version says it: `record.py FILE`.

It was run once with the code of each version whose processes must go on beside later ones (`PYTHONPATH` says whose).
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event

from capset.stores.sql.store import SqlStore
from tests.databases import Server
from tests.helpers.stores.sql.everything import read_everything, write_everything
from tests.helpers.stores.sql.support import opened_at

Transaction = list[list[Any]]
"""Statements, each with its parameters and how many rows it gave or changed."""


def listen(store: SqlStore) -> list[Transaction]:
    """Return a list of the transactions that an open store makes from now on, filled as they are made."""
    transactions: list[Transaction] = []
    under_way: dict[int, Transaction] = defaultdict(list)

    def executed(connection: Connection, cursor: Any, statement: str, parameters: Any, _c: Any, _m: bool) -> None:
        count = -1 if statement.startswith(("BEGIN", "SAVEPOINT", "RELEASE", "SELECT pg_")) else cursor.rowcount
        if cursor.description is not None:
            count = -1  # rows are still to be fetched
        under_way[id(connection.connection.dbapi_connection)].append([statement, plain(parameters), count])

    def committed(connection: Connection) -> None:
        transactions.append(under_way.pop(id(connection.connection.dbapi_connection), []))

    assert store._engines is not None
    for engine in store._engines:
        event.listen(engine, "after_cursor_execute", executed)
        event.listen(engine, "commit", committed)
        event.listen(engine, "rollback", committed)
    return transactions


def plain(value: Any) -> Any:
    """Return parameters as JSON."""
    value = getattr(value, "obj", value)  # what psycopg wraps bytes in
    if isinstance(value, bytes | memoryview):
        content = bytes(value)
        is_long = len(content) > 100 and not any(content)  # a part of a large file
        return {"zeros": len(content)} if is_long else {"bytes": base64.b64encode(content).decode()}
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list | tuple) else value


async def recorded(url: str) -> list[Transaction]:
    async with opened_at(url) as store:
        transactions = listen(store)
        await write_everything(store)
        await read_everything(store)
    return [transaction for transaction in transactions if transaction]


def main(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sqlite = asyncio.run(recorded(f"sqlite:///{folder}/a.db"))
    server = Server(Path(tempfile.mkdtemp(prefix="capset-pg-")))
    try:
        postgres = asyncio.run(recorded(server.empty()))
    finally:
        server.remove()
    path.write_text(f'{{"sqlite": {lines(sqlite)},\n"postgres": {lines(postgres)}}}\n')


def lines(transactions: list[Transaction]) -> str:
    """Return JSON with a line for each transaction."""
    return "[\n" + ",\n".join(json.dumps(transaction, ensure_ascii=False) for transaction in transactions) + "]"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
