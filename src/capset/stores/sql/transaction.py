"""One transaction of the writer: write functions, then records, chained; committed together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from capset.stores.entries import BadEntry, Row
from capset.stores.sql.doubt import Doubt
from capset.stores.sql.records import extend

# A write function; what it returns is its caller's business.
Function = Callable[[Connection], Any]


@dataclass(frozen=True, slots=True)
class Done:
    """What a transaction that was committed gave: for each function its result or error, for each row its refusal."""

    results: list[tuple[Any, Exception | None]]
    refused: list[BadEntry | None]


class _Abandon(Exception):
    """The database failed within a function and may have rolled back everything: begin again without that one."""

    def __init__(self, index: int, error: DBAPIError) -> None:
        super().__init__(index)
        self.index = index
        self.error = error


def transact(
    engine: Engine, writer: str, functions: Sequence[Function], rows: Sequence[Row], open_ids: set[str], doubt: Doubt
) -> Done:
    """Run everything in one transaction and return what came of it.

    A function that raises is undone alone. ``open_ids``, this writer's open intents, is brought up to date once the
    transaction is committed. Raises what the database raises if nothing was committed, or nobody knows: then the rows
    are in ``doubt``, and those of them that are on record are not written again.
    """
    abandoned: dict[int, DBAPIError] = {}
    while True:
        try:
            with engine.begin() as connection:
                results = [
                    (None, abandoned[index]) if index in abandoned else _run(connection, index, function)
                    for index, function in enumerate(functions)
                ]
                now_open = set(open_ids)
                written = doubt.settle(connection, writer, rows, now_open)
                new = [row for place, row in enumerate(rows) if place not in written] if written else rows
                refused = extend(connection, writer, new, now_open) if new else []
        except _Abandon as failure:
            if failure.error.connection_invalidated:  # nothing can be committed without that one either
                raise failure.error from None
            abandoned[failure.index] = failure.error
        except Exception as error:
            doubt.begin(error, rows)
            raise
        else:
            doubt.end()
            for place in sorted(written):
                refused.insert(place, None)
            open_ids.clear()
            open_ids.update(now_open)
            return Done(results, refused)


def _run(connection: Connection, index: int, function: Function) -> tuple[Any, Exception | None]:
    nested = connection.begin_nested()
    try:
        result = function(connection)
    except DBAPIError as error:
        raise _Abandon(index, error) from error
    except Exception as error:
        nested.rollback()
        return None, error
    nested.commit()
    return result, None
