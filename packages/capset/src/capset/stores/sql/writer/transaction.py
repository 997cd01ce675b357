"""One transaction of the writer: admissions of calls, write functions, then chained records; all or nothing.

The changes of a function and the record of its act are committed together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError

from capset.stores.audit_rules import BadEntry, Row
from capset.stores.base import Claim
from capset.stores.sql.audit.records import RefusedTogether, extend, extend_at_once
from capset.stores.sql.schema.tables import open_intents, records
from capset.stores.sql.writer.reservations import admit_all

_NAMED: Final = 1_000
"""Number of ids per statement."""

# A write function. Only its caller interprets its result.
Function = Callable[[Connection], Any]


class RecoveryState:
    """The rows, by id and phase, that a writer may or may not have stored before it lost the connection."""

    def __init__(self) -> None:
        self._rows: set[tuple[str, str]] = set()
        self._lost = False

    def begin(self, error: Exception, rows: Iterable[Row]) -> None:
        """Mark rows as uncertain if the connection was lost while they were written."""
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            self._lost = True
            self._rows.update((row["id"], row["phase"]) for row in rows)

    def settle(self, connection: Connection, writer: str, rows: Sequence[Row], open_ids: set[str]) -> Collection[int]:
        """Return the indexes of the rows that are already stored, and update ``open_ids`` from the database.

        Call it within the transaction that writes the rows. They stay uncertain until ``end``.
        """
        if not self._lost:
            return ()
        open_ids.clear()
        open_ids.update(connection.execute(select(open_intents.c.id).where(open_intents.c.writer == writer)).scalars())
        stored: set[tuple[str, str]] = set()
        ids = sorted({call_id for call_id, _ in self._rows})
        for start in range(0, len(ids), _NAMED):
            some = records.c.id.in_(ids[start : start + _NAMED])
            matches = connection.execute(select(records.c.id, records.c.phase).where(some, records.c.writer == writer))
            stored.update((call_id, phase) for call_id, phase in matches)
        confirmed = stored & self._rows
        return {place for place, row in enumerate(rows) if (row["id"], row["phase"]) in confirmed}

    def end(self) -> None:
        """Clear the state, after a transaction that used it was committed."""
        self._rows.clear()
        self._lost = False


@dataclass(frozen=True, slots=True)
class Done:
    """The results of a committed transaction.

    They are the refusals of the claims, the results or errors of the functions, and the refusals of the rows, in order.
    """

    admitted: list[Exception | None]
    results: list[tuple[Any, Exception | None]]
    refused: list[BadEntry | None]


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one transaction.

    ``terms`` maps the index of a row to the index of the claim that must be admitted for it to be written. ``acts``
    maps the index of a function to the row that is written if the function's result is true.
    """

    claims: Sequence[Claim]
    functions: Sequence[Function]
    rows: Sequence[Row]
    terms: Mapping[int, int]
    acts: Mapping[int, Row]


class _Abandon(Exception):
    """Raised to start over without a function that failed the transaction, or whose act cannot become a record."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index)
        self.index = index
        self.error = error


class _Unwritten(Exception):
    """Raised to start over without claims whose intents cannot become records."""

    def __init__(self, refused: Mapping[int, BadEntry]) -> None:
        super().__init__(refused)
        self.refused = refused


def transact(engine: Engine, writer: str, work: Work, open_ids: set[str], doubt: RecoveryState) -> Done:
    """Run everything in one transaction and return the results.

    If a function raises, only its own changes are undone. ``open_ids``, the writer's open intents, is updated after the
    commit. Propagates errors of the database if nothing was committed, or if that is unknown. In the latter case the
    rows are added to ``doubt``, and those that turn out to be stored are not written again.
    """
    functions, rows, terms = work.functions, work.rows, work.terms
    abandoned: dict[int, Exception] = {}
    unwritten: dict[int, BadEntry] = {}
    # A savepoint costs as much as two other statements. So there is none where starting over costs no more: for a
    # single function, and for records until one is refused.
    run = _run_alone if len(functions) == 1 else _run
    append = extend_at_once
    while True:
        try:
            with engine.begin() as connection:
                admitted = _admit(connection, work.claims, unwritten)
                results = [
                    (None, abandoned[index]) if index in abandoned else run(connection, index, function)
                    for index, function in enumerate(functions)
                ]
                now_open = set(open_ids)
                stored_places = doubt.settle(connection, writer, rows, now_open)
                left_out = {place for place, claim in terms.items() if admitted[claim] is not None}.union(stored_places)
                places = [place for place in range(len(rows)) if place not in left_out]
                new = [rows[place] for place in places] if left_out else rows
                acts = [place for place in work.acts if results[place][1] is None and results[place][0]]
                chained = [*new, *(work.acts[place] for place in acts)]
                refused = append(connection, writer, chained, now_open) if chained else []
                for place, bad in zip(acts, refused[len(new) :], strict=True):
                    if bad is not None:
                        raise _Abandon(place, bad)
                del refused[len(new) :]
                if terms and (bad := _bad_terms(terms, places, refused)):
                    raise _Unwritten(bad)
        except _Unwritten as failure:
            unwritten.update(failure.refused)
        except RefusedTogether:
            append = extend
        except _Abandon as failure:
            # On a lost connection, nothing can be committed without this function either.
            if isinstance(failure.error, DBAPIError) and failure.error.connection_invalidated:
                raise failure.error from None
            abandoned[failure.index] = failure.error
        except Exception as error:
            doubt.begin(error, rows)
            raise
        else:
            doubt.end()
            for place in sorted(left_out):
                refused.insert(place, None)
            open_ids.clear()
            open_ids.update(now_open)
            return Done(admitted, results, refused)


def _admit(
    connection: Connection, claims: Sequence[Claim], unwritten: Mapping[int, BadEntry]
) -> list[Exception | None]:
    """Count the calls whose intents can become records, and return the refusal of each claim, or ``None``."""
    if not claims:
        return []
    refusals = iter(admit_all(connection, [claim for place, claim in enumerate(claims) if place not in unwritten]))
    return [unwritten[place] if place in unwritten else next(refusals) for place in range(len(claims))]


def _bad_terms(
    terms: Mapping[int, int], places: Sequence[int], refused: Sequence[BadEntry | None]
) -> dict[int, BadEntry]:
    """Return the refusals of intents, by the index of their claims."""
    return {terms[place]: bad for place, bad in zip(places, refused, strict=True) if bad is not None and place in terms}


def _run_alone(connection: Connection, index: int, function: Function) -> tuple[Any, None]:
    try:
        return function(connection), None
    except Exception as error:
        raise _Abandon(index, error) from error


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
