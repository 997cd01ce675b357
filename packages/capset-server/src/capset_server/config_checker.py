"""Checks of configurations in a separate low-priority process, with bounds on time and memory.

The first check starts the process, and later ones reuse it; a check that takes too long is killed with it. The process
knows only what is installed, like a server whose host adds no capabilities of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic_core import from_json, to_json

from capset.definitions.principals import Principal
from capset.errors import InvalidArguments
from capset.kernel.registry import Registry
from capset.wire.operations import ConfigCheckShape
from capset_connect.config_file.checks import Format, check_text
from capset_server.http.request_rules import overloaded
from capset_server.shield.fair_shares import Turns

CHECK_SECONDS: Final = 5.0
"""Maximum processor time of a check, enforced by the operating system."""
_PATIENCE_SECONDS: Final = 60.0
"""Maximum time that a check, or the start of the process, may take on a busy machine."""
MEMORY: Final = 512 * 1024 * 1024
"""Maximum address space of the process, in bytes, beyond what it has after its start."""
_SIZE: Final = 8
_NICE: Final = 10


class ConfigChecker:
    """The process, and the queue for it."""

    def __init__(self, seconds: float) -> None:
        self._turns = Turns(seconds)
        self.process: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[asyncio.subprocess.Process] | None = None

    async def check(self, principal: Principal, text: str, format: Format, registry: Registry) -> ConfigCheckShape:
        """Check a configuration by its text alone, as ``check_text`` does.

        Raises ``InvalidArguments`` if the check takes too much time or memory, and ``HttpRefusal`` if it waits too long
        for its turn or the process does not start. Cancellation kills the process.
        """
        names = sorted(registry.capabilities)
        async with self._turns.take(principal):
            answer = await self._ask(
                to_json({"text": text, "format": format, "names": names, "seconds": CHECK_SECONDS})
            )
            if answer == b"null":  # only this process knows the host's own capabilities
                return await asyncio.to_thread(check_text, text, format, registry)
        return ConfigCheckShape.model_validate_json(answer)

    async def _ask(self, request: bytes) -> bytes:
        process = self.process
        if process is None or process.returncode is not None:
            self._starting = self._starting or asyncio.create_task(self._start())
            process = await asyncio.shield(
                self._starting
            )  # a client that disconnects must not cancel the start: the next one needs it
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await _send(process, request)
                return await _receive(process)
        except (TimeoutError, EOFError, OSError):
            self.process = None
            await self.close(process)
            raise InvalidArguments(
                f"The check took more than {CHECK_SECONDS:g} seconds of processor time, or {MEMORY // 2**20} MiB of "
                "memory: check parts of the configuration, or use capset check FILE, which has no such limits"
            ) from None
        except BaseException:
            self.process = None
            process.kill()
            raise

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", __name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await _receive(process)  # sent once it has loaded what is installed
            except (TimeoutError, EOFError):
                await self.close(process)
                raise overloaded("The process that checks configurations did not start: try again later") from None
            except BaseException:
                await self.close(process)
                raise
            self.process = process
            return process
        finally:
            self._starting = None

    async def close(self, process: asyncio.subprocess.Process | None = None) -> None:
        """End the process."""
        if process is None and self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        process = process or self.process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _send(process: asyncio.subprocess.Process, message: bytes) -> None:
    assert process.stdin is not None  # noqa: S101  # it is a pipe
    process.stdin.write(len(message).to_bytes(_SIZE) + message)
    await process.stdin.drain()


async def _receive(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None  # noqa: S101  # it is a pipe
    size = int.from_bytes(await process.stdout.readexactly(_SIZE))
    return await process.stdout.readexactly(size)


def _work() -> None:
    """Answer checks until stdin ends: the main function of the process."""
    registry = Registry.installed()
    os.nice(_NICE)  # not earlier: on a busy machine the first caller would wait for many seconds
    _bound_memory()
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    answer = b"ready"
    while True:
        stdout.write(len(answer).to_bytes(_SIZE) + answer)
        stdout.flush()
        head = stdin.read(_SIZE)
        if not head:
            return
        request = from_json(stdin.read(int.from_bytes(head)))
        answer = b"null"
        if request["names"] == sorted(registry.capabilities):
            _bound_time(request["seconds"])
            checked = check_text(request["text"], request["format"], registry)
            answer = checked.model_dump_json(exclude_unset=True).encode()
            _bound_time(0)


def _bound_time(seconds: float) -> None:
    """Let the operating system kill this process after ``seconds`` more of processor time; 0 lifts the bound."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)  # SIGPROF ends a process that does not handle it


def _bound_memory() -> None:
    if sys.platform == "win32":
        return
    import resource

    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        size = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (size, size))


if __name__ == "__main__":
    _work()
