"""One session's files: the store's, with the session's key and nobody else's (spec 5, P25)."""

from __future__ import annotations

from capset.clock import iso
from capset.definitions.files import FileStat, normalise_path
from capset.kernel.world import World


class SessionFiles:
    """The ``Files`` of one session."""

    __slots__ = ("_org", "_session", "_world")

    def __init__(self, world: World, session: str, org: str | None) -> None:
        self._world = world
        self._session = session
        self._org = org

    async def stat(self, path: str) -> FileStat | None:
        """Return what is at ``path``, or ``None``."""
        return await self._world.store.files.stat(self._session, normalise_path(path))

    async def read(self, path: str) -> tuple[FileStat, bytes]:
        """Return a file and its content. Raises ``FileError`` if there is none or it is a directory."""
        return await self._world.store.files.read(self._session, normalise_path(path))

    async def write(self, path: str, content: bytes, *, version: int | None = None) -> tuple[FileStat, bool]:
        """Create or replace a file, with its parents; return it and whether it is new.

        With ``version``, only if the file has just this one, 0 being that of none; else it raises ``VersionMismatch``.
        """
        place, now = normalise_path(path), iso(self._world.clock.time_ns())
        files = self._world.store.files
        return await files.write(self._session, place, content, org=self._org, now=now, version=version)

    async def list(self, path: str = "/", *, recursive: bool = False) -> list[FileStat]:
        """Return a directory's entries, directories first, then by name; all below it, by path, when recursive."""
        return await self._world.store.files.list(self._session, normalise_path(path), recursive=recursive)

    async def delete(self, path: str, *, recursive: bool = False, version: int | None = None) -> int:
        """Delete a file or directory and return how many entries went; 0 if there was none. ``version`` as above."""
        place = normalise_path(path)
        return await self._world.store.files.delete(self._session, place, recursive=recursive, version=version)
