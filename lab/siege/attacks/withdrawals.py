"""Callers who go on with what was taken from them: the calls of an agent's session, on both servers."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter

from lab.siege.attack import Attack, call
from lab.siege.connection import Connection, in_time, request, status
from lab.siege.site import Member, Site

_SECONDS = 1.0
"""How much longer a withdrawn agent may be used, from the answer to its withdrawal on."""
_PATIENCE = 20.0
_LATE = "used too late"


async def _withdrawn(site: Site, until: float) -> Counter[str]:
    """Call on both servers with an agent's session, archive the agent, and call on."""
    answers = Counter[str]()
    while not answers or time.monotonic() < until:
        member = await _open(site)
        archived = asyncio.Event()
        calling = [
            asyncio.ensure_future(_call(member, port, archived, answers)) for port in site.ports for _ in range(4)
        ]
        try:
            await asyncio.sleep(0.3)
            await _ask(site, request("DELETE", f"/v1/agents/{member.agent}", member.key), "204")
        finally:
            archived.set()
            await asyncio.gather(*calling)
    return answers


async def _open(site: Site) -> Member:
    """Make an agent of the attackers', and open a session of it."""
    key, body = site.attacker.key, json.dumps({"name": "archived soon", "capabilities": ["test_math"]})
    agent = json.loads(await _ask(site, request("POST", "/v1/agents", key, body.encode()), "201"))["id"]
    body = json.dumps({"agent_id": agent})
    session = json.loads(await _ask(site, request("POST", "/v1/sessions", key, body.encode()), "201"))["id"]
    return Member(key, agent, session)


async def _ask(site: Site, http_request: bytes, expected: str) -> bytes:
    """Ask until the answer is the ``expected`` one, and return its body. Raises ``TimeoutError``."""
    async with asyncio.timeout(_PATIENCE), Connection(site.port) as connection:
        while True:
            answer = await connection.ask(http_request)
            if status(answer) == expected:
                return answer.body
            await asyncio.sleep(0.1)  # it is busy with the attack before


async def _call(member: Member, port: int, archived: asyncio.Event, answers: Counter[str]) -> None:
    """Call until 2 seconds after the withdrawal; count the answers, and calls that began too late and were made."""
    http_request = call(member, "add", '{"a":1,"b":2}')
    since: float | None = None
    async with Connection(port) as connection:
        while since is None or time.monotonic() < since + 2 * _SECONDS:
            if since is None and archived.is_set():
                since = time.monotonic()
            is_late = since is not None and time.monotonic() > since + _SECONDS
            answer = await in_time(connection, http_request, _PATIENCE)
            answers[_LATE if is_late and answer == "200" else answer] += 1


_ANSWERS = frozenset({"200", "403", "429", "503"})
ATTACKS = (Attack("calls of an agent that was archived", _withdrawn, _ANSWERS),)
