"""One session's files: those in the store under the session's key, and the files mounted over them (P25)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType
from typing import BinaryIO, Final

from capset.clock import iso
from capset.definitions.calls.files import FileStat, normalise_path, parents_of
from capset.errors import FileError
from capset.kernel.runtime import KernelRuntime
from capset.stores.base import Entry

_NEVER: Final = "1970-01-01T00:00:00.000000Z"
"""The time of mounted files; their version is 0, which no written file has."""


class SessionFiles:
    """The ``Files`` of one session. Mounted files are read-only, cover the store's, and count towards no quota."""

    __slots__ = ("_approved", "_folders", "_mounts", "_org", "_runtime", "_session")

    def __init__(
        self, runtime: KernelRuntime, session: str, org: str | None, mounts: Mapping[str, bytes] = MappingProxyType({})
    ) -> None:
        self._runtime = runtime
        self._session = session
        self._org = org
        self._mounts = mounts
        self._approved: dict[str, str | None] = {}
        self._folders = {folder for path in mounts for folder in ("/", *parents_of(path))}

    def as_approved(self, digests: Mapping[str, str | None]) -> SessionFiles:
        """Return the same files for a call that was approved for the content that some of them had.

        ``digests`` has the SHA-256 of each of these by path, ``None`` for one that did not exist. Reading one with
        another content raises ``FileError`` (``approval_void``), unless the call itself has changed it.
        """
        files = SessionFiles(self._runtime, self._session, self._org, self._mounts)
        files._approved.update(digests)
        return files

    async def stat(self, path: str) -> FileStat | None:
        """Return the entry at ``path``, or ``None``."""
        location, files = normalise_path(path), self._runtime.store.files
        mounted = self._mounted(location)
        if self._is_covered(location) or (mounted is not None and not mounted.is_directory):
            return mounted
        stored = await files.stat(self._session, location)
        return stored if mounted is None or (stored is not None and stored.is_directory) else mounted

    async def read(self, path: str, *, start: int = 0, size: int | None = None) -> tuple[FileStat, bytes]:
        """Return a file and its content, or a part of it. Raises ``FileError`` if there is no file at ``path``."""
        location = normalise_path(path)
        if (content := self._mounted_content(location)) is not None:
            return self._file(location, content), content[start : None if size is None else start + size]
        stat, content = await self._runtime.store.files.read(self._session, location, start=start, size=size)
        await self._check_approved(stat)
        return stat, content

    async def digest(self, path: str) -> tuple[FileStat, str]:
        """Return a file and the SHA-256 of its content, as hex, without loading it. Raises as ``read`` does."""
        location = normalise_path(path)
        if (content := self._mounted_content(location)) is not None:
            return self._file(location, content), (await asyncio.to_thread(sha256, content)).hexdigest()
        return await self._runtime.store.files.digest(self._session, location)

    async def write(
        self, path: str, content: bytes | BinaryIO, *, version: int | None = None, act: Entry | None = None
    ) -> tuple[FileStat, bool]:
        """Create or replace a file, with its parents; return it and whether it is new. ``act`` is as for stores.

        With ``version``, the file must have exactly this version, where 0 means that there is no file; otherwise this
        raises ``VersionMismatch``. Raises ``QuotaExceeded`` for more than the kernel's governance allows.
        """
        location, now = normalise_path(path), iso(self._runtime.clock.time_ns())
        if location in self._folders:
            raise FileError(f"{location!r} is a directory")
        self._refuse_mounted(location, *parents_of(location))
        files, quota = self._runtime.store.files, self._runtime.governance.file_quota
        saved = await files.write(
            self._session, location, content, org=self._org, now=now, version=version, quota=quota, act=act
        )
        self._approved.pop(location, None)
        return saved

    async def list(self, path: str = "/", *, recursive: bool = False) -> list[FileStat]:
        """Return a directory's entries, directories first, then by name; if recursive, all below it, by path."""
        location, files = normalise_path(path), self._runtime.store.files
        if location in self._mounts:
            raise FileError(f"{location!r} is a file, not a directory")
        if self._is_covered(location):
            raise FileError(f"there is no directory {location!r}", status=404)
        if location not in self._folders:
            return await files.list(self._session, location, recursive=recursive)
        at = await files.stat(self._session, location)
        stored = await files.list(self._session, location, recursive=recursive) if at and at.is_directory else []
        below = "/" if location == "/" else f"{location}/"
        stats = {stat.path: stat for stat in stored if not self._is_covered(stat.path)}
        for inner in (*self._folders, *self._mounts):
            if inner.startswith(below) and inner != location and (recursive or "/" not in inner[len(below) :]):
                mounted = self._mounted(inner)
                if mounted is not None and not (mounted.is_directory and inner in stats and stats[inner].is_directory):
                    stats[inner] = mounted
        by_path = sorted(stats.values(), key=lambda stat: stat.path)
        return by_path if recursive else sorted(by_path, key=lambda stat: not stat.is_directory)

    async def delete(
        self, path: str, *, recursive: bool = False, version: int | None = None, act: Entry | None = None
    ) -> int:
        """Delete a file or directory; return how many entries were deleted. ``version`` is as for ``write``.

        A mounted file, or a directory that contains one, cannot be deleted; ``/`` is emptied except for them.
        """
        location = normalise_path(path)
        if location != "/":
            self._refuse_mounted(location, *parents_of(location))
            if location in self._folders:
                raise FileError(f"{location!r} holds read-only files and cannot be deleted")
        files = self._runtime.store.files
        return await files.delete(self._session, location, recursive=recursive, version=version, act=act)

    async def move(self, source: str, target: str, *, overwrite: bool = False, version: int | None = None) -> FileStat:
        """Move a file, or a directory with all below it, and return the entry at ``target``; its parents are created.

        A mounted file, or a directory that contains one, cannot be moved or replaced.
        """
        locations = before, after = normalise_path(source), normalise_path(target)
        self._refuse_mounted(*(path for location in locations for path in (location, *parents_of(location))))
        if before in self._folders and before != "/":
            raise FileError(f"{before!r} holds read-only files and cannot be moved")
        if after in self._folders and before not in (after, "/"):
            raise FileError(f"there is already a directory {after!r}", code="file_exists", status=409)
        files, quota = self._runtime.store.files, self._runtime.governance.file_quota
        now = iso(self._runtime.clock.time_ns())
        moved = await files.move(
            self._session, before, after, overwrite=overwrite, now=now, version=version, quota=quota
        )
        self._approved.pop(after, None)
        if before in self._approved:
            self._approved[after] = self._approved.pop(before)
        return moved

    async def read_many(self, paths: Sequence[str]) -> Sequence[tuple[FileStat, bytes]]:
        """Return those of ``paths`` that are files, with their content, in the order given."""
        locations = [normalise_path(path) for path in paths]
        stored = [location for location in locations if not (self._mounted(location) or self._is_covered(location))]
        by_path: dict[str, tuple[FileStat, bytes]] = {}
        if stored:
            read = await self._runtime.store.files.read_many(self._session, stored)
            for stat, content in read:
                await self._check_approved(stat)
                by_path[stat.path] = (stat, content)
        for location in locations:
            if (content := self._mounts.get(location)) is not None:
                by_path[location] = (self._file(location, content), content)
        return [by_path[location] for location in locations if location in by_path]

    def _mounted_content(self, location: str) -> bytes | None:
        """Return the content of a mounted file, or ``None`` if the store may have one there. Raises ``FileError``."""
        if (content := self._mounts.get(location)) is not None:
            return content
        if location in self._folders:
            raise FileError(f"{location!r} is a directory")
        if self._is_covered(location):
            raise FileError(f"there is no file {location!r}", status=404)
        return None

    async def _check_approved(self, file: FileStat) -> None:
        """Raise ``FileError`` if the file just read was approved with another content."""
        if file.path not in self._approved:
            return
        try:
            current, digest = await self._runtime.store.files.digest(self._session, file.path)
        except FileError:
            current, digest = file, ""
        if (current.version, digest) != (file.version, self._approved[file.path]):
            raise FileError(
                f"{file.path!r} has changed since the call was approved: it needs a new approval",
                code="approval_void",
                status=409,
            )

    def _mounted(self, location: str) -> FileStat | None:
        if (content := self._mounts.get(location)) is not None:
            return self._file(location, content)
        if location in self._folders and location != "/":
            return replace(self._file(location, b""), is_directory=True, is_readonly=False)
        return None

    def _is_covered(self, location: str) -> bool:
        """Whether a mounted file stands where a path needs a directory."""
        return any(folder in self._mounts for folder in parents_of(location))

    def _file(self, location: str, content: bytes) -> FileStat:
        return FileStat(location, False, len(content), 0, _NEVER, _NEVER, is_readonly=True)

    def _refuse_mounted(self, *locations: str) -> None:
        for location in locations:
            if location in self._mounts:
                raise FileError(f"{location!r} is read-only: a capability brings it")
