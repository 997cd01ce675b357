"""The files of sessions in SQL: their rows and their content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from os import SEEK_END
from typing import Any, BinaryIO, Final

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
from capset.stores.base.files import STANDARD, open_content
from capset.stores.file_tree import ROOT, TreeNode, Usage
from capset.stores.sql.blobs import PART_BYTES, Blob, Parts, read_parts, remove_blobs, store_blob
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import blobs, files, sessions
from capset.stores.sql.writer.writer import Writer

_CHUNK: Final = 500
"""Number of paths per statement."""
_DIGEST: Final = func.coalesce(files.c.digest, files.c.parts)
"""The digest of a file's content, in one row or in parts; null for a directory."""


_OF: Final = files.c.session == bindparam("of")
_AT: Final = _OF & (files.c.path == bindparam("at"))
# Statements that every call needs are built once: building one takes longer than running it on SQLite.
_WITH_CONTENT: Final = (
    select(files, blobs.c.content)
    .select_from(files.outerjoin(blobs, (files.c.org == blobs.c.org) & (files.c.digest == blobs.c.digest)))
    .where(_AT)
)
"""The row at a path, with its content unless that is in parts."""
_ROW: Final = select(files).where(_AT)
_HELD: Final = select(files.c.org, files.c.digest, files.c.parts).where(_AT)
"""The content that the row at a path refers to."""
_VERSION: Final = select(files.c.version).where(_AT)
_USED: Final = (
    select(files.c.is_directory, func.count(), func.sum(files.c.size_bytes)).where(_OF).group_by(files.c.is_directory)
)
_INSERT: Final = insert(files)
_REPLACE: Final = update(files).where(_AT)


class FileRows:
    """``TreeRows`` in SQL. New rows belong to ``org`` (``''`` for none); a new file has the content of ``blob``."""

    def __init__(self, connection: Connection, session: str, org: str = "", blob: Blob | None = None) -> None:
        self._connection = connection
        self._blob = blob
        self._org = org
        self._session = files.c.session == session
        self._own = {"session": session, "org": org}
        self._gone: list[int] | None = None  # the version in the root's row, if any; None until read
        self._freed: set[tuple[str, str]] = set()  # by org and digest: content that rows no longer refer to
        self._freed_parts: set[tuple[str, str]] = set()  # the same for content in parts

    def get(self, path: str) -> TreeNode | None:
        """Return the row at a path."""
        row = self._connection.execute(_ROW, self._at(path)).mappings().first()
        return None if row is None else _node(row)

    def put(self, node: TreeNode) -> None:
        """Insert or replace a row, and the content of a file."""
        stat = node.stat
        values = {
            **self._own,
            "path": stat.path,
            "parent": parent_of(stat.path),
            "is_directory": stat.is_directory,
            "is_readonly": stat.is_readonly,
            "size_bytes": stat.size_bytes,
            "version": stat.version,
            "created_at": stat.created_at,
            "modified_at": stat.modified_at,
            "digest": None,
            "parts": None,
        }
        if node.digest is not None and self._blob is not None:
            values |= store_blob(self._connection, self._org, self._blob)
        at = self._at(stat.path)
        if self._free(self._connection.execute(_HELD, at).all()):
            self._connection.execute(_REPLACE, values | at)
        else:
            self._connection.execute(_INSERT, values)

    def children(self, path: str) -> Sequence[TreeNode]:
        """Return the rows directly below a directory."""
        return self._select(files.c.parent == path)

    def descendants(self, path: str) -> Sequence[TreeNode]:
        """Return all rows below a directory."""
        return self._select(_below(path))

    def usage(self) -> Usage:
        """Return the session's totals, which a covering index counts."""
        totals = {row[0]: row for row in self._connection.execute(_USED, {"of": self._own["session"]})}
        _, count, size = totals.get(False, (False, 0, 0))
        directories = totals[True][1] if True in totals else 0
        return Usage(count, directories - (self._root() is not None), int(size))

    def gone(self) -> int:
        """Return the highest version of all removed entries; 0 if there are none."""
        return self._root() or 0

    def went(self, version: int) -> None:
        """Record the version of a removed entry."""
        root = self._root()
        if root is None:
            values = asdict(ROOT) | {"version": version, "parent": "", "digest": None}
            self._connection.execute(insert(files).values(**self._own, **values))
        elif root < version:
            at = files.c.path == "/"
            self._connection.execute(update(files).where(self._session, at).values(version=version))
        self._gone = [max(root or 0, version)]

    def _root(self) -> int | None:
        """Return the version in the row of ``/``, if any. It is the highest version of all removed entries."""
        if self._gone is None:
            self._gone = list(self._connection.execute(_VERSION, self._at("/")).scalars())
        return self._gone[0] if self._gone else None

    def remove(self, paths: Sequence[str]) -> None:
        """Remove the rows at these paths."""
        for start in range(0, len(paths), _CHUNK):
            at = files.c.path.in_(paths[start : start + _CHUNK])
            self._free_all(at)
            self._connection.execute(delete(files).where(self._session, at))

    def move(self, source: str, target: str, *, version: int, now: str) -> None:
        """Move the row at ``source`` and all its descendants to ``target``, with two statements."""
        new = {"version": version, "modified_at": now}
        at = update(files).where(self._session, files.c.path == source)
        self._connection.execute(at.values(path=target, parent=parent_of(target), **new))
        # Their parents are the source or below it. The engine itself measures the prefix, in its own units of text.
        place, holder = (
            literal(target) + func.substr(column, func.length(source) + 1) for column in (files.c.path, files.c.parent)
        )
        below = update(files).where(self._session, _below(source))
        self._connection.execute(below.values(path=place, parent=holder, **new))

    def remove_all(self, parts: Parts) -> None:
        """Remove every row, and release the content as ``let_go`` does."""
        everything = files.c.path.is_not(None)
        self._free_all(everything)
        self._connection.execute(delete(files).where(self._session, everything))
        self.let_go(parts)

    def contents(self, paths: Sequence[str]) -> Mapping[str, tuple[FileStat, bytes]]:
        """Return the files among these paths, with their content."""
        of = (files.c.org == blobs.c.org) & (files.c.digest == blobs.c.digest)
        statement = (
            select(files, blobs.c.content)
            .select_from(files.outerjoin(blobs, of))
            .where(self._session, _DIGEST.is_not(None))
        )
        by_path: dict[str, tuple[FileStat, bytes]] = {}
        for start in range(0, len(paths), _CHUNK):
            rows = self._connection.execute(statement.where(files.c.path.in_(paths[start : start + _CHUNK]))).mappings()
            by_path |= {row["path"]: (_node(row).stat, self._content(row)) for row in rows.all()}
        return by_path

    def _content(self, row: RowMapping) -> bytes:
        if row["digest"] is not None:
            return row["content"]
        return read_parts(self._connection, row["org"], row["parts"], 0, row["size_bytes"])

    def let_go(self, parts: Parts) -> None:
        """Remove the freed content to which no row of any session refers. Parts are left to ``Parts.sweep_freed``."""
        remove_blobs(self._connection, self._freed)
        parts.free(self._connection, self._freed_parts)
        self._freed.clear()
        self._freed_parts.clear()

    def _free_all(self, at: ColumnElement[bool]) -> None:
        """Note the content of matching rows as freed."""
        statement = select(files.c.org, files.c.digest, files.c.parts).where(self._session, at)
        self._free(self._connection.execute(statement).all())

    def _free(self, rows: Sequence[Row[Any, Any, Any]]) -> bool:
        """Note the content of rows as freed, and return whether there are any rows."""
        self._freed.update((row.org, row.digest) for row in rows if row.digest is not None)
        self._freed_parts.update((row.org, row.parts) for row in rows if row.parts is not None)
        return bool(rows)

    def _at(self, path: str) -> dict[str, str]:
        return {"of": self._own["session"], "at": path}

    def _select(self, at: ColumnElement[bool]) -> list[TreeNode]:
        rows = self._connection.execute(select(files).where(self._session, at)).mappings()
        return [_node(row) for row in rows]


def _below(path: str) -> ColumnElement[bool]:
    """Return the condition for all paths below a path: a range, since ``0`` is the character after ``/``."""
    if path == "/":
        return files.c.path > "/"
    return (files.c.path > f"{path}/") & (files.c.path < f"{path}0")


def _node(row: RowMapping) -> TreeNode:
    stat = FileStat(
        path=row["path"],
        is_directory=row["is_directory"],
        size_bytes=row["size_bytes"],
        version=row["version"],
        created_at=row["created_at"],
        modified_at=row["modified_at"],
        is_readonly=row["is_readonly"],
    )
    return TreeNode(stat, row["digest"] or row["parts"])


class SqlFiles:
    """The files of all sessions. Content is stored once per hash within an org."""

    def __init__(self, writer: Writer, reader: ReadConnections, parts: Parts) -> None:
        self._writer = writer
        self._reader = reader
        self._parts = parts

    async def stat(self, session: str, path: str) -> FileStat | None:
        """Return the entry at ``path``; the root always exists."""
        return await self._reader.read(lambda connection: filetree.stat(FileRows(connection, session), path))

    async def read(self, session: str, path: str, *, start: int = 0, size: int | None = None) -> tuple[FileStat, bytes]:
        """Return a file and its content, or part of it. Raises ``FileError`` if it is missing or a directory."""
        stop = None if size is None else start + size

        def row_at(connection: Connection) -> RowMapping | None:
            return connection.execute(_WITH_CONTENT, {"of": session, "at": path}).mappings().first()

        def read_again(connection: Connection) -> tuple[FileStat, bytes]:
            row = row_at(connection)
            stat, _ = filetree.read(None if row is None else _node(row), path)
            if row is None or row["parts"] is None:
                return stat, b"" if row is None else row["content"][start:stop]
            end = stat.size_bytes if stop is None else min(stop, stat.size_bytes)
            return stat, read_parts(connection, row["org"], row["parts"], start, end)

        row = await self._reader.read(row_at, is_one_statement=True)
        if row is not None and row["parts"] is not None:  # parts are rows: one transaction for all
            return await self._reader.read(read_again)
        stat, _ = filetree.read(None if row is None else _node(row), path)
        return stat, b"" if row is None else row["content"][start:stop]

    async def digest(self, session: str, path: str) -> tuple[FileStat, str]:
        """Return a file and the SHA-256 of its content."""
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
        quota: FileQuota = STANDARD,
        act: Entry | None = None,
    ) -> tuple[FileStat, bool]:
        """Create or replace a file and its missing parents; return the file and whether it is new.

        Raises ``FileError`` as ``filetree.write`` does, and if the session does not exist.
        """
        file = open_content(content)
        size = file.seek(0, SEEK_END)

        def check(connection: Connection) -> None:
            filetree.check_write(FileRows(connection, session), path, size=size, version=version, quota=quota)

        def write(connection: Connection, blob: Blob) -> tuple[FileStat, bool]:
            if connection.execute(select(sessions.c.id).where(sessions.c.id == session)).first() is None:
                raise FileError("the session of these files was deleted", status=404)
            rows = FileRows(connection, session, org or "", blob)
            stat, old = filetree.write(rows, path, digest=blob.digest, size=size, now=now, version=version, quota=quota)
            rows.let_go(self._parts)
            return stat, old is None

        if size > PART_BYTES:  # before any part is written
            await self._reader.read(check)
        async with self._parts.stored(org or "", file, size) as blob:
            saved = await self._writer.write(partial(write, blob=blob), act)
        await self._parts.sweep_freed()
        return saved

    async def list(self, session: str, path: str, *, recursive: bool) -> list[FileStat]:
        """Return a directory's entries, directories first, then by name; if ``recursive``, all descendants by path."""
        return await self._reader.read(
            lambda connection: filetree.listing(FileRows(connection, session), path, recursive=recursive)
        )

    async def delete(
        self, session: str, path: str, *, recursive: bool, version: int | None = None, act: Entry | None = None
    ) -> int:
        """Delete an entry; return the number of deleted entries. Raises ``FileError`` as ``filetree.delete`` does."""

        def write(connection: Connection) -> int:
            rows = FileRows(connection, session)
            gone = filetree.delete(rows, path, recursive=recursive, version=version)
            rows.let_go(self._parts)
            return len(gone)

        count = await self._writer.write(write, act)
        await self._parts.sweep_freed()
        return count

    async def move(
        self,
        session: str,
        source: str,
        target: str,
        *,
        overwrite: bool,
        now: str,
        version: int | None = None,
        quota: FileQuota = STANDARD,
    ) -> FileStat:
        """Move a file or a directory with its content, and return the entry at ``target``.

        Raises ``FileError`` as ``filetree.move`` does.
        """

        def write(connection: Connection) -> FileStat:
            rows = FileRows(connection, session)
            stat, _ = filetree.move(rows, source, target, overwrite=overwrite, now=now, version=version, quota=quota)
            rows.let_go(self._parts)
            return stat

        moved = await self._writer.write(write)
        await self._parts.sweep_freed()
        return moved

    async def read_many(self, session: str, paths: Sequence[str]) -> Sequence[tuple[FileStat, bytes]]:
        """Return the files among ``paths`` with their content, in the given order."""
        requested = tuple(paths)
        by_path = await self._reader.read(lambda connection: FileRows(connection, session).contents(requested))
        return [by_path[path] for path in requested if path in by_path]
