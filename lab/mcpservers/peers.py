"""Clients of MCP, over streams and over HTTP, that return what a server sends as it came."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from abc import ABC, abstractmethod
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx2

from lab.corpus.nodes import Node, elements, members

REVISION: Final = "2025-11-25"
SECONDS: Final = 30.0
_LINE_BYTES: Final = 64 * 2**20
_METHOD_NOT_FOUND: Final = -32601


class Refusal(Exception):
    """An error of JSON-RPC in the place of a result."""


class Peer(ABC):
    """A client of one server."""

    def __init__(self) -> None:
        self.revision = ""
        """The revision of the protocol that its server speaks."""
        self._requests = 0

    async def initialize(self) -> None:
        """Begin a session. Raises as ``request``."""
        client = {"name": "capset-compare", "version": "1"}
        params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}
        self.revision = str((await self.request("initialize", params)).get("protocolVersion"))
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, None)

    async def tools(self) -> list[Node]:
        """Return all pages of the list of tools."""
        descriptions: list[Node] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await self.request("tools/list", cursor)
            descriptions += map(members, elements(page.get("tools")))
            if not page.get("nextCursor"):
                return descriptions
            cursor = {"cursor": page["nextCursor"]}

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Node:
        """Call a tool, and return its result; an error of JSON-RPC, or none in time, is one, too."""
        try:
            return await self.request("tools/call", {"name": tool, "arguments": dict(arguments)})
        except Refusal as refusal:
            return {"content": [{"type": "text", "text": str(refusal)}], "isError": True}

    async def request(self, method: str, params: Mapping[str, Any]) -> Node:
        """Make a request, and return its result. Raises ``Refusal`` for an error, and if none comes in time."""
        self._requests += 1
        message = {"jsonrpc": "2.0", "id": self._requests, "method": method, "params": params}
        try:
            async with asyncio.timeout(SECONDS):
                response = await self.send(message, self._requests)
        except TimeoutError:
            raise Refusal(f"no answer to {method} within {SECONDS:.0f} s") from None
        if "error" in response:
            raise Refusal(str(members(response["error"]).get("message")))
        return members(response.get("result"))

    @abstractmethod
    async def send(self, message: Mapping[str, Any], number: int | None) -> Node:
        """Send a message, and return the response to the request of that number, if it is one.

        Raises ``Refusal`` if the connection breaks.
        """


class StreamPeer(Peer):
    """A client of a process, by its standard streams."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process
        self.printed: list[str] = []
        """The lines on its standard output that are no messages."""

    async def send(self, message: Mapping[str, Any], number: int | None) -> Node:
        """Write a line, and read lines until the response is there; requests of the server are refused."""
        reader = self._process.stdout
        assert reader is not None
        await self._write(message)
        while number is not None:
            if not (line := await reader.readline()):
                raise Refusal(f"the server ended with {await self._process.wait()}")
            try:
                received = members(json.loads(line))
            except ValueError:
                self.printed.append(line.decode(errors="replace").rstrip())
                continue
            if received.get("id") == number and "method" not in received:
                return received
            if "id" in received and "method" in received:
                is_ping = received["method"] == "ping"
                error = {"code": _METHOD_NOT_FOUND, "message": "not supported"}
                answer: dict[str, Any] = {"result": {}} if is_ping else {"error": error}
                await self._write({"jsonrpc": "2.0", "id": received["id"], **answer})
        return {}

    async def _write(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        with suppress(ConnectionError):  # it has ended, which the next line tells
            await self._process.stdin.drain()


class HttpPeer(Peer):
    """A client of a server at a URL."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        super().__init__()
        self._http, self._url = http, url
        self._headers = {"accept": "application/json, text/event-stream"}

    async def send(self, message: Mapping[str, Any], number: int | None) -> Node:
        """Post a message, and return the response in the answer, which may be a stream of events."""
        try:
            answer = await self._http.post(self._url, json=message, headers=self._headers, timeout=2 * SECONDS)
        except httpx2.HTTPError as error:
            raise Refusal(f"the server does not answer: {error!r}") from None
        if "mcp-session-id" in answer.headers:
            self._headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        self._headers["mcp-protocol-version"] = self.revision or REVISION
        if number is None:
            return {}
        texts = [answer.text]
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            lines = answer.text.split("\n")
            texts = [line.removeprefix("data:") for line in lines if line.startswith("data:")]
        for text in texts:
            with suppress(ValueError):
                received = members(json.loads(text))
                if received.get("id") == number and "method" not in received:
                    return received
        raise Refusal(f"the server answered {answer.status_code}: {answer.text[:500]}")


@asynccontextmanager
async def started(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> AsyncGenerator[StreamPeer]:
    """Start a server and begin a session; end all that it started. Raises ``Refusal`` if it does not begin."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(env),
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=_LINE_BYTES,
        start_new_session=True,
    )
    try:
        peer = StreamPeer(process)
        await peer.initialize()
        yield peer
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdin is not None:
            process.stdin.close()
        with suppress(TimeoutError):  # what has left its group may hold the streams
            await asyncio.wait_for(process.communicate(), SECONDS)


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[HttpPeer]:
    """Begin a session with a server at a URL, which asks for no key."""
    async with httpx2.AsyncClient(trust_env=False) as http:
        peer = HttpPeer(http, url)
        await peer.initialize()
        yield peer
