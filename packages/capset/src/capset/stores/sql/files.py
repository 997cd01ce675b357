"""The files of sessions in SQL: their rows and their content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from os import SEEK_END
from typing import Any, BinaryIO, Final, TypeVar, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    RowMapping,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)

from capset.definitions.calls.files import FileQuota, FileStat, parent_of
from capset.errors import FileError
from capset.stores import file_tree as filetree
from capset.stores.base.audit import Entry
from capset.stores.base.files import DEFAULT_QUOTA, open_content
from capset.stores.file_tree import ROOT, TreeNode, Usage
from capset.stores.sql.blobs import PART_BYTES, Blob, PartStore, read_parts, remove_blobs, store_blob
from capset.stores.sql.inserts import batches
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import blobs, files, sessions
from capset.stores.sql.writer.writer import Writer

_T = TypeVar("_T")

_STAT_FIELDS: Final = tuple(field.name for field in fields(FileStat))
_DIGEST: Final = func.coalesce(files.c.digest, files.c.parts)
"""The digest of a file's content, in one row or in parts; null for a directory."""
_OF_SESSION: Final = files.c.session == bindparam("of")
_AT_PATH: Final = _OF_SESSION & (files.c.path == bindparam("at"))
# Statements that every call needs are built once: building one takes longer than running it on SQLite.
_WITH_CONTENT: Final = select(files, blobs.c.content).select_from(
    files.outerjoin(blobs, (files.c.org == blobs.c.org) & (files.c.digest == blobs.c.digest))
)
"""Rows with their content, unless that is in parts."""
_ROW_WITH_CONTENT: Final = _WITH_CONTENT.where(_AT_PATH)
_ROW: Final = select(files).where(_AT_PATH)
_CONTENT_REFERENCE: Final = select(files.c.org, files.c.digest, files.c.parts).where(_AT_PATH)
"""The content that the row at a path refers to."""
_VERSION: Final = select(files.c.version).where(_AT_PATH)
_TOTALS: Final = (
    select(files.c.is_directory, func.count(), func.sum(files.c.size_bytes))
    .where(_OF_SESSION)
    .group_by(files.c.is_directory)
)
_INSERT: Final = insert(files)
_REPLACE: Final = update(files).where(_AT_PATH)


class FileRows:
    """``TreeRows`` in SQL. New rows belong to ``org`` (``''`` for none); a new file has the content of ``blob``."""

    def __init__(self, connection: Connection, session: str, org: str = "", blob: Blob | None = None) -> None:
        self._connection = connection
        self._blob = blob
        self._org = org
        self._session = files.c.session == session
        self._own = {"session": session, "org": org}
        self._root_versions: list[int] | None = None  # the version in the root's row, if any; None until read
        self._freed: set[tuple[str, str]] = set()  # by org and digest: content that rows no longer refer to
        self._freed_parts: set[tuple[str, str]] = set()  # the same for content in parts

    def get(self, path: str) -> TreeNode | None:
        row = self._connection.execute(_ROW, self._parameters(path)).mappings().first()
        return None if row is None else _node(row)

    def put(self, node: TreeNode) -> None:
        """Insert or replace a row, and the content of a file."""
        stat = node.stat
        values = {name: getattr(stat, name) for name in _STAT_FIELDS}
        values |= {**self._own, "parent": parent_of(stat.path), "digest": None, "parts": None}
        if node.digest is not None and self._blob is not None:
            values |= store_blob(self._connection, self._org, self._blob)
        parameters = self._parameters(stat.path)
        if self._note_freed(self._connection.execute(_CONTENT_REFERENCE, parameters).all()):
            self._connection.execute(_REPLACE, values | parameters)
        else:
            self._connection.execute(_INSERT, values)

    def children(self, path: str) -> Sequence[TreeNode]:
        return self._select(files.c.parent == path)

    def descendants(self, path: str) -> Sequence[TreeNode]:
        return self._select(_below(path))

    def usage(self) -> Usage:
        """Return the session's totals, which a covering index counts."""
        totals = {row[0]: row for row in self._connection.execute(_TOTALS, {"of": self._own["session"]})}
        _, count, size = totals.get(False, (False, 0, 0))
        directories = totals[True][1] if True in totals else 0
        return Usage(count, directories - (self._root_version() is not None), int(size))

    def highest_removed_version(self) -> int:
        return self._root_version() or 0

    def record_removal(self, version: int) -> None:
        root = self._root_version()
        if root is None:
            values = asdict(ROOT) | {"version": version, "parent": "", "digest": None}
            self._connection.execute(insert(files).values(**self._own, **values))
        elif root < version:
            is_root = files.c.path == "/"
            self._connection.execute(update(files).where(self._session, is_root).values(version=version))
        self._root_versions = [max(root or 0, version)]

    def _root_version(self) -> int | None:
        """Return the version in the row of ``/``, if any. It is the highest version of all removed entries."""
        if self._root_versions is None:
            self._root_versions = list(self._connection.execute(_VERSION, self._parameters("/")).scalars())
        return self._root_versions[0] if self._root_versions else None

    def remove(self, paths: Sequence[str]) -> None:
        for batch in batches(paths):
            is_named = files.c.path.in_(batch)
            self._note_all_freed(is_named)
            self._connection.execute(delete(files).where(self._session, is_named))

    def move(self, source: str, target: str, *, version: int, now: str) -> None:
        """Move the row at ``source`` and all its descendants to ``target``, with two statements."""
        new = {"version": version, "modified_at": now}
        top = update(files).where(self._session, files.c.path == source)
        self._connection.execute(top.values(path=target, parent=parent_of(target), **new))
        # Their parents are the source or below it. The engine itself measures the prefix, in its own units of text.
        new_path, new_parent = (
            literal(target) + func.substr(column, func.length(source) + 1) for column in (files.c.path, files.c.parent)
        )
        below = update(files).where(self._session, _below(source))
        self._connection.execute(below.values(path=new_path, parent=new_parent, **new))

    def remove_all(self, parts: PartStore) -> None:
        """Remove every row, and release the content as ``remove_freed`` does."""
        everything = files.c.path.is_not(None)
        self._note_all_freed(everything)
        self._connection.execute(delete(files).where(self._session, everything))
        self.remove_freed(parts)

    def contents(self, paths: Sequence[str]) -> Mapping[str, tuple[FileStat, bytes]]:
        """Return the files among these paths, with their content."""
        statement = _WITH_CONTENT.where(self._session, _DIGEST.is_not(None))
        by_path: dict[str, tuple[FileStat, bytes]] = {}
        for batch in batches(paths):
            rows = self._connection.execute(statement.where(files.c.path.in_(batch))).mappings()
            by_path |= {row["path"]: (_node(row).stat, self._content(row)) for row in rows.all()}
        return by_path

    def _content(self, row: RowMapping) -> bytes:
        if row["digest"] is not None:
            return row["content"]
        return read_parts(self._connection, row["org"], row["parts"], 0, row["size_bytes"])

    def remove_freed(self, parts: PartStore) -> None:
        """Remove the freed content to which no row of any session refers. ``PartStore.sweep_freed`` removes parts."""
        remove_blobs(self._connection, self._freed)
        parts.mark_loose(self._connection, self._freed_parts)
        self._freed.clear()
        self._freed_parts.clear()

    def _note_all_freed(self, condition: ColumnElement[bool]) -> None:
        """Note the content of matching rows as freed."""
        statement = select(files.c.org, files.c.digest, files.c.parts).where(self._session, condition)
        self._note_freed(self._connection.execute(statement).all())

    def _note_freed(self, rows: Sequence[Row[Any, Any, Any]]) -> bool:
        """Note the content of rows as freed, and return whether there are any rows."""
        self._freed.update((row.org, row.digest) for row in rows if row.digest is not None)
        self._freed_parts.update((row.org, row.parts) for row in rows if row.parts is not None)
        return bool(rows)

    def _parameters(self, path: str) -> dict[str, str]:
        return {"of": self._own["session"], "at": path}

    def _select(self, condition: ColumnElement[bool]) -> list[TreeNode]:
        rows = self._connection.execute(select(files).where(self._session, condition)).mappings()
        return [_node(row) for row in rows]


def _below(path: str) -> ColumnElement[bool]:
    """Return the condition for all paths below a path: a range, since ``0`` is the character after ``/``."""
    if path == "/":
        return files.c.path > "/"
    return (files.c.path > f"{path}/") & (files.c.path < f"{path}0")


def _node(row: RowMapping) -> TreeNode:
    stat = FileStat(**{name: row[name] for name in _STAT_FIELDS})
    return TreeNode(stat, row["digest"] or row["parts"])


class SqlFiles:
    """The files of all sessions. Content is stored once per hash within an org."""

    def __init__(self, writer: Writer, reader: ReadConnections, parts: PartStore) -> None:
        self._writer = writer
        self._reader = reader
        self._parts = parts

    async def stat(self, session: str, path: str) -> FileStat | None:
        return await self._reader.read(lambda connection: filetree.stat(FileRows(connection, session), path))

    async def read(self, session: str, path: str, *, start: int = 0, size: int | None = None) -> tuple[FileStat, bytes]:
        stop = None if size is None else start + size

        def read_row(connection: Connection) -> tuple[FileStat, RowMapping]:
            row = connection.execute(_ROW_WITH_CONTENT, {"of": session, "at": path}).mappings().first()
            stat, _ = filetree.read(None if row is None else _node(row), path)
            return stat, cast("RowMapping", row)  # without a row, filetree.read raises

        def read_with_parts(connection: Connection) -> tuple[FileStat, bytes]:
            stat, row = read_row(connection)
            if row["parts"] is None:
                return stat, row["content"][start:stop]
            end = stat.size_bytes if stop is None else min(stop, stat.size_bytes)
            return stat, read_parts(connection, row["org"], row["parts"], start, end)

        stat, row = await self._reader.read(read_row, is_one_statement=True)
        if row["parts"] is None:
            return stat, row["content"][start:stop]
        return await self._reader.read(read_with_parts)  # parts are rows: one transaction for all

    async def digest(self, session: str, path: str) -> tuple[FileStat, str]:
        return await self._reader.read(
            lambda connection: filetree.read(FileRows(connection, session).get(path), path), is_one_statement=True
        )

    async def write(
        self,
        session: str,
        path: str,
        content: bytes | BinaryIO,
        *,
        org: str | None,
        now: str,
        version: int | None = None,
        quota: FileQuota = DEFAULT_QUOTA,
        act: Entry | None = None,
    ) -> tuple[FileStat, bool]:
        file = open_content(content)
        size = file.seek(0, SEEK_END)

        def check(connection: Connection) -> None:
            filetree.check_write(FileRows(connection, session), path, size=size, version=version, quota=quota)

        def write(connection: Connection, blob: Blob) -> tuple[FileStat, bool]:
            if connection.execute(select(sessions.c.id).where(sessions.c.id == session)).first() is None:
                raise FileError("the session of these files was deleted", status=404)
            rows = FileRows(connection, session, org or "", blob)
            stat, old = filetree.write(rows, path, digest=blob.digest, size=size, now=now, version=version, quota=quota)
            rows.remove_freed(self._parts)
            return stat, old is None

        if size > PART_BYTES:  # before any part is written
            await self._reader.read(check)
        async with self._parts.stored(org or "", file, size) as blob:
            saved = await self._writer.write(partial(write, blob=blob), act)
        await self._parts.sweep_freed()
        return saved

    async def list(self, session: str, path: str, *, recursive: bool) -> list[FileStat]:
        return await self._reader.read(
            lambda connection: filetree.list_directory(FileRows(connection, session), path, recursive=recursive)
        )

    async def delete(
        self, session: str, path: str, *, recursive: bool, version: int | None = None, act: Entry | None = None
    ) -> int:
        def delete_entry(rows: FileRows) -> int:
            return len(filetree.delete(rows, path, recursive=recursive, version=version))

        return await self._change(session, delete_entry, act)

    async def move(
        self,
        session: str,
        source: str,
        target: str,
        *,
        overwrite: bool,
        now: str,
        version: int | None = None,
        quota: FileQuota = DEFAULT_QUOTA,
    ) -> FileStat:
        def move_entry(rows: FileRows) -> FileStat:
            stat, _ = filetree.move(rows, source, target, overwrite=overwrite, now=now, version=version, quota=quota)
            return stat

        return await self._change(session, move_entry)

    async def _change(self, session: str, change: Callable[[FileRows], _T], act: Entry | None = None) -> _T:
        def write(connection: Connection) -> _T:
            rows = FileRows(connection, session)
            result = change(rows)
            rows.remove_freed(self._parts)
            return result

        result = await self._writer.write(write, act)
        await self._parts.sweep_freed()
        return result

    async def read_many(self, session: str, paths: Sequence[str]) -> Sequence[tuple[FileStat, bytes]]:
        requested = tuple(paths)
        by_path = await self._reader.read(lambda connection: FileRows(connection, session).contents(requested))
        return [by_path[path] for path in requested if path in by_path]
