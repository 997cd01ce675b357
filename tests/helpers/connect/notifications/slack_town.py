"""Slack as a real HTTP server: its Web API as far as messages need it, and clicks that it signs and sends."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx2

from capset_connect.notifications import Slack
from tests.helpers.net.support import Listener, answer, listening
from tests.helpers.server.support import Site
from tests.waiting import until

SIGNING = "8f742231b10e8888abcd99yyyzzz85a5"
SECRETS = {"SLACK_TOKEN": "xoxb-the-token", "SLACK_SIGNING": SIGNING}


@dataclass
class SlackTown(Listener):
    """A workspace: the messages by their stamp, what was told to single users, and every method that was called."""

    port: int = 0
    serving: set[asyncio.Task[object]] = field(default_factory=set)
    called: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    told: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[bytes] = field(default_factory=list)
    """The answers to the next calls."""

    def channel(self, name: str = "chat", **more: Any) -> Slack:
        """Return the channel of a conversation here."""
        host = f"127.0.0.1:{self.port}"
        settings: dict[str, Any] = {"team": "T1", "conversation": "C0CHAT", "api_url": f"http://{host}/api/"}
        settings |= {"token": "${SLACK_TOKEN}", "signing_secret": "${SLACK_SIGNING}", "internal": [host]}
        return Slack(name=name, **settings | more)

    async def message(self, count: int = 1) -> dict[str, Any]:
        """Return the newest message, once there are so many."""
        await until(lambda: len(self.messages) >= count, f"{count} messages")
        return list(self.messages.values())[-1]

    async def answered(self, count: int = 1) -> str:
        """Return what was told to one user last, once it was told so often."""
        await until(lambda: len(self.told) >= count, f"a user to be told something {count} times")
        return self.told[-1]["text"]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.partition(": ") for line in head[1:] if line)
        headers = {name.lower(): value for name, _, value in pairs}
        payload = json.loads(await reader.readexactly(int(headers["content-length"])))
        method = head[0].split(" ")[1].removeprefix("/api/")
        self.called.append((method, payload))
        assert headers["authorization"] == "Bearer xoxb-the-token"
        reply = self.refusals.pop(0) if self.refusals else self._answer(method, payload)
        writer.write(reply)
        await writer.drain()

    def _answer(self, method: str, payload: dict[str, Any]) -> bytes:
        if method == "chat.postEphemeral":
            self.told.append(payload)
            return said({"ok": True, "message_ts": "1.1"})
        if method == "chat.update":
            if payload["ts"] not in self.messages:
                return said({"ok": False, "error": "message_not_found"})
            self.messages[payload["ts"]] = payload
            return said({"ok": True, "channel": payload["channel"], "ts": payload["ts"]})
        assert method == "chat.postMessage"
        stamp = f"1700000000.{len(self.messages):06}"
        self.messages[stamp] = payload
        return said({"ok": True, "channel": payload["channel"], "ts": stamp})


def said(value: Any) -> bytes:
    """Return an answer of the Web API."""
    return answer(200, json.dumps(value).encode(), content_type="application/json")


@asynccontextmanager
async def slack_town() -> AsyncGenerator[SlackTown]:
    """Start Slack on a free port of 127.0.0.1."""
    town = SlackTown()
    async with listening(town):
        yield town


def buttons(message: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the buttons of a message by the ids of their actions."""
    elements = [element for block in message["blocks"] if block["type"] == "actions" for element in block["elements"]]
    return {element["action_id"]: element for element in elements}


def words(message: dict[str, Any]) -> str:
    """Return all text of a message, as JSON."""
    return json.dumps(message["blocks"], ensure_ascii=False)


def interaction(action: dict[str, Any], user: str = "U1", team: str = "T1", **more: Any) -> bytes:
    """Return the body that Slack sends when a user clicks a button."""
    payload = {
        "type": "block_actions",
        "user": {"id": user, "username": "ada", "name": "ada", "team_id": team},
        "team": {"id": "T1", "domain": "acme"},
        "channel": {"id": "C0CHAT", "name": "approvals"},
        "response_url": "http://127.0.0.1:1/never",
        "actions": [action],
        **more,
    }
    return urlencode({"payload": json.dumps(payload)}).encode()


def signed(body: bytes, *, secret: str = SIGNING, stamp: int | None = None) -> dict[str, str]:
    """Return the headers by which Slack signs a body."""
    at = str(int(time.time()) if stamp is None else stamp)
    signature = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    return {
        "x-slack-request-timestamp": at,
        "x-slack-signature": f"v0={signature}",
        "content-type": "application/x-www-form-urlencoded",
    }


async def sent(server: Site, body: bytes, headers: dict[str, str]) -> httpx2.Response:
    """Send an interaction, as Slack does: without a key."""
    async with server.client(None) as slack:
        return await slack.post("/slack/interactions", content=body, headers=headers)


async def click(server: Site, action: dict[str, Any], user: str = "U1", **more: Any) -> httpx2.Response:
    """Click a button."""
    body = interaction(action, user, **more)
    return await sent(server, body, signed(body))
