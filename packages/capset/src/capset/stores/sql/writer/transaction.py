"""One transaction of the writer: admissions of calls, write functions, then chained records; all or nothing.

The changes of a function and the record of its act are committed together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError

from capset.stores.audit_rules import BadEntry, Row
from capset.stores.base import Claim
from capset.stores.sql.audit.records import BatchRefused, extend, extend_without_savepoint
from capset.stores.sql.schema.tables import open_intents, records
from capset.stores.sql.writer.reservations import admit_all

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
        ids_per_statement = 1_000
        for start in range(0, len(ids), ids_per_statement):
            condition = records.c.id.in_(ids[start : start + ids_per_statement])
            matches = connection.execute(
                select(records.c.id, records.c.phase).where(condition, records.c.writer == writer)
            )
            stored.update((call_id, phase) for call_id, phase in matches)
        confirmed = stored & self._rows
        return {index for index, row in enumerate(rows) if (row["id"], row["phase"]) in confirmed}

    def end(self) -> None:
        """Clear the state, after a transaction that used it was committed."""
        self._rows.clear()
        self._lost = False


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """The results of a committed transaction.

    They are the refusals of the claims, the results or errors of the functions, and the refusals of the rows, in order.
    """

    admission_errors: list[Exception | None]
    results: list[tuple[Any, Exception | None]]
    refused: list[BadEntry | None]


@dataclass(frozen=True, slots=True)
class TransactionWork:
    """The work of one transaction.

    ``claim_of_row`` maps the index of a row to the index of the claim that must be admitted for it to be written.
    ``acts`` maps the index of a function to the row that is written if the function's result is true.
    """

    claims: Sequence[Claim]
    functions: Sequence[Function]
    rows: Sequence[Row]
    claim_of_row: Mapping[int, int]
    acts: Mapping[int, Row]


class _RetryWithoutFunction(Exception):
    """Raised to start over without a function that failed the transaction, or whose act cannot become a record."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index)
        self.index = index
        self.error = error


class _RetryWithoutClaims(Exception):
    """Raised to start over without claims whose intents cannot become records."""

    def __init__(self, refused: Mapping[int, BadEntry]) -> None:
        super().__init__(refused)
        self.refused = refused


def transact(
    engine: Engine, writer: str, work: TransactionWork, open_ids: set[str], recovery: RecoveryState
) -> TransactionResult:
    """Run everything in one transaction and return the results.

    If a function raises, only its own changes are undone. ``open_ids``, the writer's open intents, is updated after the
    commit. Propagates errors of the database if nothing was committed, or if that is unknown. In the latter case the
    rows are added to ``recovery``, and those that turn out to be stored are not written again.
    """
    functions, rows, claim_of_row = work.functions, work.rows, work.claim_of_row
    function_errors: dict[int, Exception] = {}
    bad_intents: dict[int, BadEntry] = {}
    # A savepoint costs as much as two other statements. So there is none where starting over costs no more: for a
    # single function, and for records until one is refused.
    run = _run_alone if len(functions) == 1 else _run
    append = extend_without_savepoint
    while True:
        try:
            with engine.begin() as connection:
                admission_errors = _admit(connection, work.claims, bad_intents)
                results = [
                    (None, function_errors[index]) if index in function_errors else run(connection, index, function)
                    for index, function in enumerate(functions)
                ]
                now_open = set(open_ids)
                stored_indexes = recovery.settle(connection, writer, rows, now_open)
                left_out = {index for index, claim in claim_of_row.items() if admission_errors[claim] is not None}
                left_out.update(stored_indexes)
                indexes = [index for index in range(len(rows)) if index not in left_out]
                new = [rows[index] for index in indexes] if left_out else rows
                acts = [index for index in work.acts if results[index][1] is None and results[index][0]]
                chained = [*new, *(work.acts[index] for index in acts)]
                refused = append(connection, writer, chained, now_open) if chained else []
                for index, bad in zip(acts, refused[len(new) :], strict=True):
                    if bad is not None:
                        raise _RetryWithoutFunction(index, bad)
                del refused[len(new) :]
                if claim_of_row and (bad := _refused_claims(claim_of_row, indexes, refused)):
                    raise _RetryWithoutClaims(bad)
        except _RetryWithoutClaims as failure:
            bad_intents.update(failure.refused)
        except BatchRefused:
            append = extend
        except _RetryWithoutFunction as failure:
            # On a lost connection, nothing can be committed without this function either.
            if isinstance(failure.error, DBAPIError) and failure.error.connection_invalidated:
                raise failure.error from None
            function_errors[failure.index] = failure.error
        except Exception as error:
            recovery.begin(error, rows)
            raise
        else:
            recovery.end()
            for index in sorted(left_out):
                refused.insert(index, None)
            open_ids.clear()
            open_ids.update(now_open)
            return TransactionResult(admission_errors, results, refused)


def _admit(
    connection: Connection, claims: Sequence[Claim], bad_intents: Mapping[int, BadEntry]
) -> list[Exception | None]:
    """Count the calls whose intents can become records, and return the refusal of each claim, or ``None``."""
    if not claims:
        return []
    refusals = iter(admit_all(connection, [claim for index, claim in enumerate(claims) if index not in bad_intents]))
    return [bad_intents[index] if index in bad_intents else next(refusals) for index in range(len(claims))]


def _refused_claims(
    claim_of_row: Mapping[int, int], indexes: Sequence[int], refused: Sequence[BadEntry | None]
) -> dict[int, BadEntry]:
    """Return the refusals of intents, by the index of their claims."""
    return {
        claim_of_row[index]: bad
        for index, bad in zip(indexes, refused, strict=True)
        if bad is not None and index in claim_of_row
    }


def _run_alone(connection: Connection, index: int, function: Function) -> tuple[Any, None]:
    try:
        return function(connection), None
    except Exception as error:
        raise _RetryWithoutFunction(index, error) from error


def _run(connection: Connection, index: int, function: Function) -> tuple[Any, Exception | None]:
    nested = connection.begin_nested()
    try:
        result = function(connection)
    except DBAPIError as error:
        raise _RetryWithoutFunction(index, error) from error
    except Exception as error:
        nested.rollback()
        return None, error
    nested.commit()
    return result, None
