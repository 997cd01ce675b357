"""The writer of a store, and its commits."""

from __future__ import annotations

from sqlalchemy import event

from capset.stores.sql.sqlite import SqliteStore
from capset.stores.sql.writer.writer import Writer


def writer_of(store: SqliteStore) -> Writer:
    return store.audit._writer


def count_commits(store: SqliteStore) -> list[object]:
    """Return a list that grows with every transaction that the store's writer commits."""
    assert store._engines is not None
    commits: list[object] = []
    event.listen(store._engines[0], "commit", commits.append)
    return commits
