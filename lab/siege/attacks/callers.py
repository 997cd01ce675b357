"""Callers who ask for what is dear, in numbers: slow threads, streams, pages, approvals, replies, keys, the log."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlencode

from lab.siege.attack import Attack, Bounds, call, flood, instant_call
from lab.siege.connection import Connection, in_time, request, status
from lab.siege.host import SLACK_SECRET
from lab.siege.site import CONVERSATION, TEAM, USER, Site


async def _numbered(
    site: Site, until: float, make: Callable[[int], bytes], *, connections: int = 8, timeout: float = 15.0
) -> Counter[str]:
    """Send requests that differ by their number, on some connections at once, and count the answers."""
    numbers, answers = itertools.count(), Counter[str]()

    async def send_requests() -> None:
        async with Connection(site.port) as connection:
            while time.monotonic() < until:
                answers[await in_time(connection, make(next(numbers)), timeout)] += 1

    await asyncio.gather(*(send_requests() for _ in range(connections)))
    return answers


async def _slow_calls(site: Site, until: float) -> Counter[str]:
    """Have 64 threads sleep at once, again and again."""
    return await flood(site.port, until, call(site.attacker, "sleep", '{"seconds":2}'), connections=64)


async def _cancelled_calls(site: Site, until: float) -> Counter[str]:
    """Begin 64 slow calls at once, leave, and begin again: an abandoned thread sleeps on."""
    http_request = call(site.attacker, "sleep", '{"seconds":2}')
    return await flood(site.port, until, http_request, connections=64, timeout=0.2)


async def _followers(site: Site, until: float) -> Counter[str]:
    """Follow the events of a session on 1,000 connections."""
    http_request, answers = (
        request("GET", f"/v1/sessions/{site.attacker.session}/events", site.attacker.key),
        Counter[str](),
    )

    async def follow() -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=2**12)
            try:
                writer.write(http_request)
                answers[(await reader.readuntil(b"\r\n\r\n"))[9:12].decode()] += 1
                await asyncio.sleep(max(0.0, until - time.monotonic()))
            finally:
                writer.transport.abort()
            return
        answers["closed"] += 1

    await asyncio.gather(*(follow() for _ in range(1_000)))
    return answers


async def _approvals(site: Site, until: float) -> Counter[str]:
    """Ask for approvals of calls that all differ, with 60 kB of arguments each."""
    filler = "x" * 60_000
    return await _numbered(site, until, lambda n: call(site.attacker, "pay", json.dumps({"to": f"{n} {filler}"})))


async def _forged_clicks(site: Site, until: float) -> Counter[str]:
    """Approve the bystander's request by clicks in Slack that the attacker's own app signs, as the bystander's boss."""
    async with Connection(site.port) as connection:
        payment = await connection.ask(call(site.bystander, "pay", json.dumps({"to": f"somebody at {until}"})))
        approval = payment.json["approval"]
        answers = await _numbered(site, until, lambda number: _click(approval, number))
        pending = await connection.ask(request("GET", f"/v1/approvals/{approval}", site.bystander.key))
    return answers + Counter([pending.json["status"]])


def _click(approval: str, number: int) -> bytes:
    """Return a click on the button that approves a request, as Slack signs it; each number is another one."""
    payload = {
        "type": "block_actions",
        "user": {"id": USER, "team_id": TEAM},
        "team": {"id": TEAM},
        "channel": {"id": CONVERSATION},
        "actions": [{"action_id": "capset_approve", "value": approval}],
        "trigger_id": str(number),
    }
    body, stamp = urlencode({"payload": json.dumps(payload)}).encode(), str(int(time.time()))
    signature = hmac.new(SLACK_SECRET.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {"x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={signature}"}
    form = {"content-type": "application/x-www-form-urlencoded"}
    return request("POST", "/slack/interactions", None, body, headers | form)


async def _replies(site: Site, until: float) -> Counter[str]:
    """Have answers of 500 kB kept, each under a key of its own."""
    body = b'{"tool":"repeat","arguments":{"text":"' + b"x" * 500_000 + b'"}}'
    path = f"/v1/sessions/{site.attacker.session}/calls"

    def make_request(number: int) -> bytes:
        return request("POST", path, site.attacker.key, body, {"idempotency-key": f"{until}-{number}"})

    return await _numbered(site, until, make_request)


async def _links(site: Site, until: float) -> Counter[str]:
    """Keep links with as much metadata as they may have, and then ask for the longest pages of them."""
    body = json.dumps({"session_id": site.attacker.session, "metadata": {"x": "y" * 16_000}}).encode()
    half = time.monotonic() + (until - time.monotonic()) / 2
    post_answers = await flood(site.port, half, request("POST", "/v1/links", site.attacker.key, body))
    return post_answers + await flood(site.port, until, request("GET", "/v1/links?limit=200", site.attacker.key))


async def _log(site: Site, until: float) -> Counter[str]:
    """Read the longest pages of the log; each reading becomes a record."""
    return await flood(site.port, until, request("GET", "/v1/audit?limit=200", site.attacker.key), connections=32)


async def _wrong_keys(site: Site, until: float) -> Counter[str]:
    """Come with another wrong key each time."""
    return await _numbered(
        site, until, lambda n: request("GET", "/v1/agents", f"{site.attacker.key[:-6]}{n:06}"), connections=64
    )


async def _long_ids(site: Site, until: float) -> Counter[str]:
    """Ask for sessions by ids of 20 kB."""
    http_request = request("GET", f"/v1/sessions/{'x' * 20_000}", site.attacker.key)
    return await flood(site.port, until, http_request, connections=32)


async def _trailers(site: Site, until: float) -> Counter[str]:
    """Name a key in a trailer, where none may stand."""
    path, answers = f"/v1/sessions/{site.attacker.session}/calls", Counter[str]()
    lines = "host: 127.0.0.1", "content-type: application/json", "transfer-encoding: chunked"
    head = "\r\n".join((f"POST {path} HTTP/1.1", *lines))
    body = '{"tool":"add","arguments":{"a":1,"b":2}}'
    chunks = f"{len(body):x}\r\n{body}\r\n0\r\nauthorization: Bearer {site.attacker.key}"
    http_request = f"{head}\r\n\r\n{chunks}\r\n\r\n".encode()

    async def send_requests() -> None:
        async with Connection(site.port) as connection:
            while time.monotonic() < until:
                answers[status(await connection.ask(http_request))] += 1

    await asyncio.gather(*(send_requests() for _ in range(32)))
    return answers


async def _greetings(site: Site, until: float) -> Counter[str]:
    """Begin one MCP session after the other."""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}).encode()
    headers = {"accept": "application/json, text/event-stream"}
    path = f"/mcp/agents/{site.attacker.agent}"
    return await flood(site.port, until, request("POST", path, site.attacker.key, message, headers), connections=32)


async def _previews(site: Site, until: float) -> Counter[str]:
    """Have large agents composed that are not kept."""
    uses = ["test_math", "session_file_system", "stateless_todo_list"]
    body = json.dumps({"name": "big", "capabilities": uses, "instructions": ["x" * 2_000] * 100}).encode()
    return await flood(site.port, until, request("POST", "/v1/agents/preview", site.attacker.key, body))


async def _patterns(site: Site, until: float) -> Counter[str]:
    """Search a file by a pattern that would take for ever in an engine that goes back."""
    path = json.dumps({"path": "/as.txt", "content": "a" * 1_000_000})
    pattern = json.dumps({"pattern": "(a*)*b|(a|a)*c|(.*)x(.*)y(.*)z", "path_pattern": "/as.txt"})
    write_answers = await flood(
        site.port, time.monotonic() + 0.1, call(site.attacker, "write_file", path), connections=1
    )
    return write_answers + await flood(site.port, until, call(site.attacker, "grep_files", pattern))


async def _searches(site: Site, until: float) -> Counter[str]:
    """Search all that a session holds, 30 MB and what other attacks have left there, for what is nowhere in it."""
    answers, seconds = Counter[str](), until - time.monotonic()
    for number in range(2):
        path = json.dumps({"path": f"/{number}.txt", "content": "some words\n" * 1_360_000})
        answers += await flood(
            site.port, time.monotonic() + 0.1, call(site.attacker, "write_file", path), connections=1
        )
    pattern = json.dumps({"pattern": "(.*)x(.*)y(.*)z"})
    until = time.monotonic() + seconds
    return answers + await flood(site.port, until, call(site.attacker, "grep_files", pattern), timeout=120.0)


_REFUSED = frozenset({"429", "503"})
_DONE = _REFUSED | {"200", "201"}
_SLOW = Bounds(wait=1.0)

ATTACKS = (
    Attack("64 slow calls", _slow_calls, _DONE, _SLOW, instant_call),
    Attack("64 slow calls, left", _cancelled_calls, _DONE | {"silent"}, _SLOW, instant_call),
    Attack("1,000 followers", _followers, _DONE | {"closed"}),
    Attack("approvals of 60 kB", _approvals, _DONE | {"202"}),
    Attack("clicks that another's app signs", _forged_clicks, _DONE | {"pending"}),
    Attack("answers kept under keys", _replies, _DONE),
    Attack("pages of links", _links, _DONE),
    Attack("reads of the log", _log, _DONE),
    Attack("wrong keys", _wrong_keys, _REFUSED | {"401"}),
    Attack("ids of 20 kB", _long_ids, _REFUSED | {"414", "431"}),
    Attack("keys in trailers", _trailers, _REFUSED | {"401", "closed"}),
    Attack("MCP handshakes", _greetings, _DONE),
    Attack("previews of agents of 200 kB", _previews, _DONE | {"422"}),
    Attack("patterns that go back", _patterns, _DONE | {"422"}),
    Attack("searches of all files", _searches, _DONE),
)
