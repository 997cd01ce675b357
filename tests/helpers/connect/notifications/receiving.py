"""A receiver of webhooks that is a real HTTP server: it answers, fails, stalls or misbehaves, as it is told."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from standardwebhooks.webhooks import Webhook as Verifier

from capset.definitions.governance.channels import NotificationChannel
from capset.stores.base import DeliveryRow
from capset_connect.notifications import Webhook
from tests.helpers.net.support import Listener, answer, listening
from tests.helpers.server.approving import till
from tests.helpers.server.support import Site, make_session, site
from tests.waiting import until

SECRET = "whsec_" + base64.b64encode(b"the secret of the tests' own hook").decode()
Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Got:
    """A request as it came: names of headers are lower-case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def verified(self, secret: str = SECRET) -> Any:
        """Return what a signed body says. Raises ``WebhookVerificationError``."""
        return Verifier(secret).verify(self.body, self.headers)


@dataclass
class Receiver(Listener):
    """Answers each request with the next of ``replies``, and the last of them for ever."""

    replies: list[Reply]
    port: int = 0
    got: list[Got] = field(default_factory=list)
    serving: set[asyncio.Task[object]] = field(default_factory=set)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def wait(self, count: int) -> list[Got]:
        """Return what came, once that are so many."""
        async with asyncio.timeout(60):
            while len(self.got) < count:
                self.came.clear()
                await self.came.wait()
        return self.got

    def ids(self) -> list[str]:
        return [request.headers["webhook-id"] for request in self.got]

    def hook(self, name: str = "ops", **more: Any) -> Webhook:
        """Return the channel that sends here."""
        settings: dict[str, Any] = {"internal": [self.host], **more}
        return Webhook(name=name, url=self.url, secret="${HOOK_SECRET}", **settings)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.partition(": ") for line in head[1:] if line)
        headers = {name.lower(): value for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        self.got.append(Got(head[0].split(" ")[1], headers, body))
        self.came.set()
        if isinstance(reply, bytes):
            writer.write(reply)
            await writer.drain()
        else:
            await reply(writer)


@asynccontextmanager
async def receiver(*replies: Reply) -> AsyncGenerator[Receiver]:
    """Start a receiver on a free port of 127.0.0.1; it takes everything, if nothing else is said."""
    hook_receiver = Receiver(list(replies) or [answer(204)])
    async with listening(hook_receiver):
        yield hook_receiver


async def stall(writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


async def flood(writer: asyncio.StreamWriter) -> None:
    """Answer with ten megabytes of a body that claims to be what capset should do."""
    piece = b'{"approve": true, "url": "http://127.0.0.1/"}' * 1_000
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
    for _ in range(10_000_000 // len(piece)):
        writer.write(piece)
        await writer.drain()


class Secrets:
    """The secrets of a test, by name."""

    def __init__(self, **secrets: str) -> None:
        self.known = {"HOOK_SECRET": SECRET, **secrets}

    async def get(self, name: str) -> str | None:
        return self.known.get(name)


@asynccontextmanager
async def paying(
    *channels: NotificationChannel, **options: Any
) -> AsyncGenerator[tuple[Site, httpx2.AsyncClient, str]]:
    """Serve the till with channels, and yield a client with a session."""
    options = {"secrets": Secrets(), **options}
    async with site(till, channels=channels, **options) as server, server.client() as client:
        yield server, client, await make_session(client, "till")


async def delivery_when(
    server: Site, channel: str, request: str, event: str, fits: Callable[[DeliveryRow], bool]
) -> DeliveryRow:
    """Return the delivery of an event of a request, once it fits."""

    async def fitting() -> list[DeliveryRow]:
        row = await server.kernel.store.deliveries.find(channel, f"{event} {request}")
        return [row] if row is not None and fits(row) else []

    (row,) = await until(fitting, f"the delivery of {event} {request} to {channel}")
    return row


async def settled(
    server: Site, channel: str, request: str, state: str = "delivered", event: str = "approval.requested"
) -> DeliveryRow:
    """Return a delivery, once it is in a state."""
    return await delivery_when(server, channel, request, event, lambda row: row.state == state)


async def failed_once(server: Site, channel: str, request: str, event: str = "approval.requested") -> DeliveryRow:
    """Return a delivery, once an attempt has failed."""
    return await delivery_when(server, channel, request, event, lambda row: row.error is not None)
