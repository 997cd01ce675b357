"""One session's files: the store's, with the session's key and nobody else's, and what is mounted over them (P25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from capset.clock import iso
from capset.definitions.files import FileStat, normalise_path, parents_of
from capset.errors import FileError
from capset.kernel.world import World

_NEVER: Final = "1970-01-01T00:00:00.000000Z"
"""The time of what was there from the beginning; its version is 0, which nothing has that was written."""


class SessionFiles:
    """The ``Files`` of one session. Mounted files are read-only, cover what the store has there, and cost no quota."""

    __slots__ = ("_folders", "_mounts", "_org", "_session", "_world")

    def __init__(
        self, world: World, session: str, org: str | None, mounts: Mapping[str, bytes] = MappingProxyType({})
    ) -> None:
        self._world = world
        self._session = session
        self._org = org
        self._mounts = mounts
        self._folders = {folder for path in mounts for folder in ("/", *parents_of(path))}

    async def stat(self, path: str) -> FileStat | None:
        """Return what is at ``path``, or ``None``."""
        place, files = normalise_path(path), self._world.store.files
        mounted = self._mounted(place)
        if self._is_covered(place) or (mounted is not None and not mounted.is_directory):
            return mounted
        stored = await files.stat(self._session, place)
        return stored if mounted is None or (stored is not None and stored.is_directory) else mounted

    async def read(self, path: str) -> tuple[FileStat, bytes]:
        """Return a file and its content. Raises ``FileError`` if there is none or it is a directory."""
        place = normalise_path(path)
        if (content := self._mounts.get(place)) is not None:
            return self._file(place, content), content
        if place in self._folders:
            raise FileError(f"{place!r} is a directory")
        if self._is_covered(place):
            raise FileError(f"there is no file {place!r}", status=404)
        return await self._world.store.files.read(self._session, place)

    async def write(self, path: str, content: bytes, *, version: int | None = None) -> tuple[FileStat, bool]:
        """Create or replace a file, with its parents; return it and whether it is new.

        With ``version``, only if the file has just this one, 0 being that of none; else it raises ``VersionMismatch``.
        Raises ``QuotaExceeded`` for more than the kernel's governance allows.
        """
        place, now = normalise_path(path), iso(self._world.clock.time_ns())
        if place in self._folders:
            raise FileError(f"{place!r} is a directory")
        self._refuse_mounted(place, *parents_of(place))
        files, quota = self._world.store.files, self._world.governance.file_quota
        return await files.write(self._session, place, content, org=self._org, now=now, version=version, quota=quota)

    async def list(self, path: str = "/", *, recursive: bool = False) -> list[FileStat]:
        """Return a directory's entries, directories first, then by name; all below it, by path, when recursive."""
        place, files = normalise_path(path), self._world.store.files
        if place in self._mounts:
            raise FileError(f"{place!r} is a file, not a directory")
        if self._is_covered(place):
            raise FileError(f"there is no directory {place!r}", status=404)
        if place not in self._folders:
            return await files.list(self._session, place, recursive=recursive)
        at = await files.stat(self._session, place)
        stored = await files.list(self._session, place, recursive=recursive) if at and at.is_directory else []
        below = "/" if place == "/" else f"{place}/"
        found = {one.path: one for one in stored if not self._is_covered(one.path)}
        for inner in (*self._folders, *self._mounts):
            if inner.startswith(below) and inner != place and (recursive or "/" not in inner[len(below) :]):
                mounted = self._mounted(inner)
                if mounted is not None and not (mounted.is_directory and inner in found and found[inner].is_directory):
                    found[inner] = mounted
        by_path = sorted(found.values(), key=lambda one: one.path)
        return by_path if recursive else sorted(by_path, key=lambda one: not one.is_directory)

    async def delete(self, path: str, *, recursive: bool = False, version: int | None = None) -> int:
        """Delete a file or directory and return how many entries went; 0 if there was none. ``version`` as above.

        What is mounted cannot be deleted, nor a directory that holds it; ``/`` is emptied around it.
        """
        place = normalise_path(path)
        if place != "/":
            self._refuse_mounted(place, *parents_of(place))
            if place in self._folders:
                raise FileError(f"{place!r} holds read-only files and cannot be deleted")
        return await self._world.store.files.delete(self._session, place, recursive=recursive, version=version)

    async def move(self, source: str, target: str, *, overwrite: bool = False, version: int | None = None) -> FileStat:
        """Move a file, or a directory with all below it, and return what is at ``target`` now; its parents are made.

        What is mounted cannot be moved or replaced, nor a directory that holds it.
        """
        places = before, after = normalise_path(source), normalise_path(target)
        self._refuse_mounted(*(one for place in places for one in (place, *parents_of(place))))
        if before in self._folders and before != "/":
            raise FileError(f"{before!r} holds read-only files and cannot be moved")
        if after in self._folders and before not in (after, "/"):
            raise FileError(f"there is a directory {after!r} already", code="file_exists", status=409)
        files, quota = self._world.store.files, self._world.governance.file_quota
        now = iso(self._world.clock.time_ns())
        return await files.move(
            self._session, before, after, overwrite=overwrite, now=now, version=version, quota=quota
        )

    async def read_many(self, paths: Sequence[str]) -> Sequence[tuple[FileStat, bytes]]:
        """Return those of ``paths`` that are files, with their content, in the order given."""
        places = [normalise_path(path) for path in paths]
        stored = [place for place in places if not (self._mounted(place) or self._is_covered(place))]
        found: dict[str, tuple[FileStat, bytes]] = {}
        if stored:
            read = await self._world.store.files.read_many(self._session, stored)
            found = {stat.path: (stat, content) for stat, content in read}
        for place in places:
            if (content := self._mounts.get(place)) is not None:
                found[place] = (self._file(place, content), content)
        return [found[place] for place in places if place in found]

    def _mounted(self, place: str) -> FileStat | None:
        if (content := self._mounts.get(place)) is not None:
            return self._file(place, content)
        if place in self._folders and place != "/":
            return replace(self._file(place, b""), is_directory=True, is_readonly=False)
        return None

    def _is_covered(self, place: str) -> bool:
        """Whether a mounted file stands where a path would need a directory."""
        return any(folder in self._mounts for folder in parents_of(place))

    def _file(self, place: str, content: bytes) -> FileStat:
        return FileStat(place, False, len(content), 0, _NEVER, _NEVER, is_readonly=True)

    def _refuse_mounted(self, *places: str) -> None:
        for place in places:
            if place in self._mounts:
                raise FileError(f"{place!r} is read-only: a capability brings it")
