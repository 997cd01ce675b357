"""``SIGHUP``: a new version of a configuration file replaces the one being served (spec 4, G28)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import signal
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capset.errors import CapsetError, Conflict, DefinitionError, StoreError, counted
from capset.kernel.governance.acts import ActColumns, Actor
from capset.kernel.registry import Registry
from capset.stores.base.pins import ToolPin
from capset_cli.common.upstream import Upstream
from capset_connect.config_file import Configuration, read_configuration
from capset_connect.vault.user_auth import user_servers

if TYPE_CHECKING:
    from capset_server.service import Service

_log = logging.getLogger("capset.configuration")


class Reload:
    """Reloader of the configuration file: each ``SIGHUP`` switches the service to the new content atomically.

    So does an approval of tools of its MCP servers and APIs by any process, about two seconds later.

    Each reload is recorded as an act, with the digests of the new and the previous file and of the files that it names,
    and its outcome. A new file
    takes effect once the record is durable. Governance is fixed while a kernel runs: a file that changes it is refused.
    """

    def __init__(
        self, service: Service, installed: Registry, configuration: Configuration, upstream: Upstream, actor: Actor
    ) -> None:
        self._service = service
        self._upstream = upstream
        self._installed = installed
        self._current = configuration
        self._actor = actor
        self._requested = asyncio.Event()
        self._lock = asyncio.Lock()

    @contextlib.contextmanager
    def listening(self) -> Generator[None]:
        """Listen for the signal within the ``with`` block, on platforms that have it."""
        loop = asyncio.get_running_loop()
        number = getattr(signal, "SIGHUP", None)  # not on Windows
        if number is None:
            yield
            return
        loop.add_signal_handler(number, self._requested.set)
        tasks = [loop.create_task(self._listen()), loop.create_task(self._watch())]
        try:
            yield
        finally:
            loop.remove_signal_handler(number)
            for task in tasks:
                task.cancel()

    async def reload(self) -> bool:
        """Reload the file, and return whether the new content is in force.

        An error is logged and recorded, and changes nothing.
        """
        async with self._lock:
            return await self._reload()

    async def _reload(self) -> bool:
        path = self._current.path
        about = {"file": str(path), "sha256": _file_digest(path), "before": self._current.digest}
        try:
            configuration, registry = await self._read(about["sha256"])
            if user_servers(configuration.sources) and self._service.connections is None:
                raise DefinitionError(
                    "servers with auth: user need a vault: start the server again, with the vault's key"
                )
        except CapsetError as error:
            columns: ActColumns = {"outcome": "failed", "code": error.code, "reason": error.message}
            record = await self._record(about, columns)
            _log.error("the configuration stays as it was: %s (record %s)", error.message, record)
            return False
        record = await self._record(about | {"files": _digests(configuration)}, {})
        if record is None:
            _log.error("the configuration stays as it was: the reload could not be recorded")
            return False
        self._service.adopt(registry)
        self._upstream.declare(configuration.sources)
        if self._service.sources is not None:
            self._service.sources.declare(configuration.sources)
        if self._service.connections is not None:
            self._service.connections.declare(configuration.sources)
        self._current = configuration
        _log.info(
            "the configuration %s is in force, with %s (record %s)",
            path,
            counted(len(configuration.actions), "action"),
            record,
        )
        for warning in configuration.warnings:
            _log.warning("%s: %s", path, warning)
        return True

    async def _listen(self) -> None:
        while True:
            await self._requested.wait()
            self._requested.clear()
            await self.reload()

    async def _watch(self) -> None:
        """Reload when approvals of tools of the configuration's MCP servers and APIs have changed since it was read."""
        while True:
            await asyncio.sleep(2)
            try:
                is_stale = self._upstream.is_shared and await self._stored_pins() != self._known_pins()
            except StoreError:
                continue  # code that needs the store reports it; the next check finds the change
            if is_stale and not await self.reload():
                await asyncio.sleep(60)  # because each failure is recorded

    def _source_keys(self) -> set[str]:
        return {source.pin_key for source in self._current.sources}

    def _known_pins(self) -> set[ToolPin]:
        return {pin for pin in self._upstream.pins if pin.server in self._source_keys()}

    async def _stored_pins(self) -> set[ToolPin]:
        keys = self._source_keys()
        return {pin for pin in await self._service.kernel.store.pins.list() if pin.server in keys} if keys else set()

    async def _record(self, about: Mapping[str, Any], columns: ActColumns) -> str | None:
        """Record a reload, and return the record's id; ``None`` if it cannot be written."""
        kernel = self._service.kernel
        act = kernel.act("config.reload", about, by=self._actor, **columns)
        try:
            await kernel.audit.commit(act)
        except StoreError as error:
            _log.error("a reload of the configuration left no record: %s", error.message)
            return None
        return act.id

    async def _read(self, digest: str | None) -> tuple[Configuration, Registry]:
        """Return the content of the file, completely validated. Raises ``CapsetError``."""
        current = self._current
        # In a thread: handlers may do slow work on import, and calls continue in the meantime.
        configuration = await asyncio.to_thread(
            read_configuration, current.path, self._installed, upstream=self._upstream
        )
        before = (current.agent, *self._service.registry.earlier)
        registry = configuration.within(self._installed, earlier=before)
        if configuration.digest != digest:
            raise Conflict("the file was changed while it was read; send the signal again")
        if configuration.lasting != current.lasting:
            lasting = "governance, roles, audit, workspace and notifications"
            raise Conflict(f"{lasting} cannot change while the server runs: restart it to change them")
        return configuration, registry


def _digests(configuration: Configuration) -> dict[str, str]:
    """Return the SHA-256 of each file that a configuration consists of, by its path from the configuration file."""
    folder = configuration.path.parent
    return {Path(os.path.relpath(file, folder)).as_posix(): digest for file, digest in configuration.files.items()}


def _file_digest(path: Path) -> str | None:
    """Return the SHA-256 of a file's text, as in a configuration; ``None`` for a file that cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes().removeprefix(b"\xef\xbb\xbf")).hexdigest()
    except OSError:
        return None
