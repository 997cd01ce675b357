"""Processes of MCP servers: started with the declared environment, and connected through stdio (spec 7, M2)."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast

import anyio
from anyio.abc import ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, jsonrpc_message_adapter

from capset.errors import DefinitionError, ToolError
from capset_connect.declarations import mask_text
from capset_connect.mcp import keeper
from capset_connect.mcp.lists.meter import MEMBERS, ListMeter
from capset_connect.mcp.raw_results import UnreadableLine
from capset_connect.mcp.server import McpServer
from capset_connect.mcp.transports import LEAST, Meter, Streams, too_large
from capset_connect.pins.offers import shown

_GRACE_SECONDS: Final = 2.0
"""How long a process may take to exit after its input is closed."""
_END_SECONDS: Final = keeper.GRACE_SECONDS + 5.0
"""How long the keeper may take to end the process and all that it has started."""
_KEEPER: Final = (sys.executable, "-I", "-S", keeper.__file__)
_OUTPUT_BYTES: Final = 8 * 1024
_OUTPUT_LINES: Final = 10
"""How much of a process's stderr is kept, and how many of its last lines are shown if it fails."""


class ProcessOutput:
    """The last output of a server's process on stderr. ``credentials`` returns what is masked in it."""

    def __init__(self, credentials: Callable[[], Iterable[str]]) -> None:
        self._credentials = credentials
        self._bytes = bytearray()
        self._is_cut = False

    def clear(self) -> None:
        """Forget the output of an earlier process."""
        self._bytes.clear()
        self._is_cut = False

    def add(self, part: bytes) -> None:
        """Add a part, and forget the oldest bytes beyond the limit."""
        self._bytes += part
        if len(self._bytes) > _OUTPUT_BYTES:
            del self._bytes[:-_OUTPUT_BYTES]
            self._is_cut = True

    def lines(self) -> list[str]:
        """Return the last lines that are not empty, for display, with credentials masked.

        A line whose beginning is lost is left out, since a credential in it could not be recognised.
        """
        text = self._bytes.decode(errors="replace")
        if self._is_cut:
            text = text.partition("\n")[2]
        lines = [line.strip() for line in mask_text(text, self._credentials()).splitlines()]
        return [shown(line) for line in lines if line][-_OUTPUT_LINES:]


@asynccontextmanager
async def process_streams(
    server: McpServer,
    env: Mapping[str, str],
    output: ProcessOutput,
    ended: Callable[[str], object],
    lists: ListMeter,
) -> AsyncGenerator[Streams]:
    """Start the process of a server, and yield its message streams.

    The process leads its own session. Its ``keeper`` ends it together with all processes that it has started.
    ``output`` collects its stderr; ``ended`` is called with the reason when its stdout ends. Raises
    ``DefinitionError`` if it cannot be started.
    """
    output.clear()
    process = await _start(server, env)
    received, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read(server, process, received, ended, lists)),
        asyncio.create_task(_write(process, sent)),
        asyncio.create_task(_listen(process, output)),
    ]
    try:
        yield reading, writing
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await process.aclose()
        for stream in (received, reading, writing, sent):
            stream.close()


async def _start(server: McpServer, env: Mapping[str, str]) -> Process:
    program, *arguments = server.command
    path = shutil.which(program)
    if path is None:
        raise DefinitionError(f"MCP server {server.name!r}: there is no program {program!r} on this machine's path")
    try:
        command = [*_KEEPER, path, *arguments]
        return await anyio.open_process(command, env=dict(env), cwd=server.cwd, start_new_session=True)
    except OSError as error:
        raise DefinitionError(f"MCP server {server.name!r} cannot be started: {error.strerror}") from None


async def _read(
    server: McpServer,
    process: Process,
    received: MemoryObjectSendStream[SessionMessage | Exception],
    ended: Callable[[str], object],
    lists: ListMeter,
) -> None:
    """Forward each message that the process writes, until its output ends or exceeds a limit."""
    meter, why = Meter(server), "it closed its output"
    async with received:
        try:
            async for line in _lines(server, cast("AsyncIterable[bytes]", process.stdout)):
                meter.count(max(len(line) + 1, LEAST))
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    if line.lstrip().startswith(b"{"):  # it may be the response to a request
                        await received.send(UnreadableLine(line))
                    continue
                if isinstance(message, JSONRPCResponse) and not MEMBERS.isdisjoint(message.result):
                    lists.count(line)
                await received.send(SessionMessage(message))
            if await _has_exited(process):
                why = "it exited"
        except ToolError as error:
            why = error.message
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        ended(why)


async def _lines(server: McpServer, parts: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a stream. Raises ``ToolError`` for a line that is too long."""
    rest = bytearray()
    async for part in parts:
        *lines, last = part.split(b"\n")
        for line in lines:
            rest += line
            yield bytes(rest)
            rest.clear()
        rest += last
        if len(rest) > server.message_bytes:
            raise too_large(server)


async def _write(process: Process, sent: MemoryObjectReceiveStream[SessionMessage]) -> None:
    stream = cast("ByteSendStream", process.stdin)
    async with sent:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for session_message in sent:
                await stream.send(
                    session_message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                )


async def _listen(process: Process, output: ProcessOutput) -> None:
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for part in cast("AsyncIterable[bytes]", process.stderr):
            output.add(part)


async def _has_exited(process: Process) -> bool:
    """Return whether a process whose stdout has ended exits. Its last output on stderr has then been received."""
    with anyio.move_on_after(_GRACE_SECONDS):
        await process.wait()
        await asyncio.sleep(0.05)  # its last output may still be in transit
        return True
    return False


async def _end(process: Process) -> None:
    """Close the process's input. If it does not exit then, have its keeper end it."""
    await cast("ByteSendStream", process.stdin).aclose()
    for number, seconds in ((None, _GRACE_SECONDS), (signal.SIGTERM, _END_SECONDS), (signal.SIGKILL, _GRACE_SECONDS)):
        if number is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
        with anyio.move_on_after(seconds):
            await process.wait()
            return
