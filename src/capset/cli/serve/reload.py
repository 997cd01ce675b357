"""``SIGHUP``: a new version of a configuration file replaces the one being served (spec 4, G28)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import signal
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from capset.adapters.config_file import Configuration, read_configuration
from capset.definitions.agents import Agent
from capset.definitions.principals import Principal
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.schema_tools import schema_tool
from capset.errors import CapsetError, ToolError
from capset.kernel.registry import Registry

if TYPE_CHECKING:
    from capset.server.service import Service

OPERATOR: Final = "capset-serve"
"""The agent named in a reload's records."""
_log = logging.getLogger("capset.configuration")


class Reload:
    """Reloader of the configuration file: each ``SIGHUP`` switches the service to the new content atomically.

    Each reload is a call of the tool ``reload_configuration`` as the process's principal, so that it is recorded with
    the file's digest and its outcome. Governance is fixed while a kernel runs: a file that changes it is refused.
    """

    def __init__(
        self, service: Service, installed: Registry, configuration: Configuration, principal: Principal
    ) -> None:
        self._service = service
        self._installed = installed
        self._current = configuration
        self._principal = principal
        self._again = asyncio.Event()
        self._tool = self._make_tool()
        self._agent = Agent(OPERATOR, tools=[self._tool])

    @contextlib.contextmanager
    def listening(self) -> Generator[None]:
        """Listen to the signal while inside, on platforms that have it."""
        loop = asyncio.get_running_loop()
        number = getattr(signal, "SIGHUP", None)  # not on Windows
        if number is None:
            yield
            return
        loop.add_signal_handler(number, self._again.set)
        task = loop.create_task(self._listen())
        try:
            yield
        finally:
            loop.remove_signal_handler(number)
            task.cancel()

    async def reload(self) -> None:
        """Read the file again. An error is logged and recorded, and changes nothing."""
        path = self._current.path
        try:
            kernel = self._service.kernel
            async with kernel.open(self._agent, principal=self._principal) as session:
                data = {"file": str(path), "sha256": _digest(path), "before": self._current.digest}
                result = await session.try_message(session.message(self._tool.name, data))
        except CapsetError as error:
            _log.error("the configuration stays as it was: %s", error.message)
            return
        if result.error is not None:
            _log.error("the configuration stays as it was: %s (record %s)", result.error.message, result.record)
            return
        _log.info("the configuration %s is in force, with %d actions (record %s)", path, result.data, result.record)
        for one in self._current.warnings:
            _log.warning("%s: %s", path, one)

    async def _listen(self) -> None:
        while True:
            await self._again.wait()
            self._again.clear()
            await self.reload()

    def _make_tool(self) -> AnyTool:
        text: dict[str, Any] = {"type": "string", "required": True}
        return schema_tool(
            name="reload_configuration",
            description="Let another version of the configuration file take the place of the one that is served.",
            parameters={"file": text, "sha256": {"type": ["string", "null"], "required": True}, "before": text},
            returns={"type": "integer"},
            handler=self._take,
        )

    async def _take(self, params: dict[str, Any]) -> int:
        """Switch to the file, or raise ``ToolError``: nothing changes until all of it is validated."""
        current = self._current
        try:
            # Handlers may do slow work on import, and calls continue in the meantime.
            found = await asyncio.to_thread(read_configuration, current.path, self._installed)
            before = (current.agent, *self._service.registry.earlier)
            registry = found.within(self._installed, earlier=before)
        except CapsetError as error:
            raise ToolError(error.message, code=error.code, status=error.status) from None
        if found.digest != params["sha256"]:
            raise ToolError("the file was changed while it was read; send the signal again", status=409)
        if found.lasting != current.lasting:
            told = "governance, roles, audit and workspace hold while the server runs: start it again to change them"
            raise ToolError(told, status=409)
        self._service.adopt(registry)
        self._current = found
        return len(found.actions)


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a file's text, as in a configuration; ``None`` for a file that cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes().removeprefix(b"\xef\xbb\xbf")).hexdigest()
    except OSError:
        return None
