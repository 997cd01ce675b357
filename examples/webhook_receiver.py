"""A receiver of capset's webhooks: it verifies each signature, takes each event once, and answers for itself."""

import asyncio
import base64
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import ClassVar

from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from capset import Agent, Kernel, Principal, tool
from capset.errors import ApprovalRequired
from capset.ext import Answer
from capset_connect.notifications import DeliveryWorker, Webhook

SECRET = "whsec_" + base64.b64encode(b"a secret that only both sides know").decode()
MOST_BYTES = 64 * 1024


class Receiver(BaseHTTPRequestHandler):
    """The part that is yours: in production, an endpoint of a web framework over HTTPS."""

    seen: ClassVar[set[str]] = set()
    events: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        """Take an event, if it is signed, recent and new."""
        size = int(self.headers.get("content-length", 0))
        body = self.rfile.read(size) if size <= MOST_BYTES else b""
        try:
            event = Verifier(SECRET).verify(body, dict(self.headers.items()))
        except (WebhookVerificationError, ValueError):
            return self.answer(401)
        if self.headers["webhook-id"] not in self.seen:  # keep these ids for a day, in a database
            self.seen.add(self.headers["webhook-id"])
            request = event["data"]["request"]
            self.events.append(f"{event['type']}: {request['tool']} {json.dumps(request['arguments'])}")
        return self.answer(204)

    def answer(self, status: int) -> None:
        """Answer without a body: capset reads none."""
        self.send_response(status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class Secrets:
    """Where capset has its secrets from: by default, the environment."""

    async def get(self, name: str) -> str | None:
        """Return a secret by its name."""
        return {"WEBHOOK_SECRET": SECRET}.get(name)


@tool(effect="external", approval="ask")
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"{to} has {amount}"


async def forge(port: int) -> str:
    """Send what nobody has signed, and return the first line of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = b'{"type": "approval.approved"}'
    head = f"POST / HTTP/1.1\r\nHost: here\r\nwebhook-id: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    line = await reader.readline()
    writer.close()
    return line.decode().strip()


async def main() -> None:
    """Ask for a payment, decide it, and print what the receiver was told."""
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_port
    hook = Webhook(
        name="ops",
        url=f"http://127.0.0.1:{port}/",
        secret="${WEBHOOK_SECRET}",
        internal=[f"127.0.0.1:{port}"],  # this machine is not a public address
    )
    ada, boss = Principal("ada", org="acme"), Principal("boss", org="acme")
    async with Kernel("memory://", channels=[hook], secrets=Secrets()) as kernel:
        sending = asyncio.create_task(DeliveryWorker(kernel).run())
        async with kernel.open(Agent("clerk", tools=[pay]), principal=ada) as session:
            try:
                await session.options(approvals="defer").call(pay, "bob", 5)
            except ApprovalRequired as error:
                await kernel.approvals.decide(error.approval or "", Answer(approved=True), by=boss)
        async with asyncio.timeout(10):
            while len(Receiver.events) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        sending.cancel()
    print("\n".join(sorted(Receiver.events)))
    print(await forge(port))
    server.shutdown()


asyncio.run(main())
