"""The kinds of mixed load. Each piece of work returns the seconds of what it measures, or raises."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from lab.siege.connection import request
from lab.siege.load.followers import Follower
from lab.siege.mixed.town import FILES, KEPT, Town
from lab.siege.tenants import UnexpectedAnswer, call, expect, post

SCRIPT = "steps:\n  - calls: [{tool: keep, arguments: {text: by an agent}}]\n  - text: It is kept.\n"
"""What the model of the agents' turns says: a call, and then a text."""
STAY_SECONDS = 8.0
"""How long a follower stays after the turn that it has seen."""
EVENT_SECONDS = 30.0
_PAGES = "/sessions", "/agents", "/audit", "/approvals", "/capabilities", "/audit/charts", "/fingerprints", "/account"
_UNFINISHED = "queued", "running"
_VERSION = "2026-07-28"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of load, and how often a second there is a piece of it."""

    name: str
    rate: float
    work: Callable[[Town], Awaitable[float]]


async def _timed(town: Town, http_request: bytes, *statuses: int) -> float:
    started = time.perf_counter()
    expect(await town.connections.ask(http_request), *statuses)
    return time.perf_counter() - started


async def _read(town: Town) -> float:
    """Make a call that only reads."""
    household, session, number = town.next()
    return await _timed(town, call(session, household.tenant.key, "repeat", text=f"number {number}"), 200)


async def _write(town: Town) -> float:
    """Make a call that has an effect: its intent is durable before, its outcome after."""
    household, session, number = town.next()
    return await _timed(town, call(session, household.tenant.key, "keep", text=f"number {number}"), 200)


async def _file(town: Town) -> float:
    """Write a file by a tool, put another, read it and delete it."""
    household, session, number = town.next()
    path, key = f"/v1/sessions/{session}/files/put{number}.txt", household.tenant.key
    text = f"line {number}\n" * (200 * (1 + number % 20))
    name = f"/note{number % FILES}.txt"
    seconds = await _timed(town, call(session, key, "write_file", path=name, content=text), 200)
    body = text.encode()
    await _timed(town, request("PUT", path, key, body, {"content-type": "text/plain"}), 200, 201)
    answer = await town.connections.ask(request("GET", path, key))
    if answer.body != body:
        raise UnexpectedAnswer(answer)
    await _timed(town, request("DELETE", path, key), 204)
    return seconds


async def _approval(town: Town) -> float:
    """Ask for a call, have somebody else decide, and make it again: two of three are approved."""
    household, session, number = town.next()
    http_request = call(session, household.tenant.key, "pay", to=f"number {number}")
    started = time.perf_counter()
    approval = expect(await town.connections.ask(http_request), 202)["approval"]
    verdict = "reject" if number % 3 == 0 else "approve"
    path = f"/v1/approvals/{approval}/{verdict}"
    body = {"note": "not this one"} if verdict == "reject" else {}
    expect(await town.connections.ask(post(path, household.approver, body)), 200)
    expect(await town.connections.ask(http_request), 403 if verdict == "reject" else 200)
    return time.perf_counter() - started


async def _turn(town: Town) -> float:
    """Have an agent take a turn, with a call, in a session of its own, and read its events to their end."""
    household, _, _ = town.next()
    session = await town.open_session(household)
    path = f"/v1/sessions/{session}/messages"
    http_request = post(path, household.tenant.key, {"content": "keep it"}, accept="text/event-stream")
    started = time.perf_counter()
    answer = await town.connections.ask(http_request)
    seconds = time.perf_counter() - started
    if answer.status != 200 or b"event: turn.ended" not in answer.body or b'"tool":"keep"' not in answer.body:
        raise UnexpectedAnswer(answer)
    await town.delete_session(household, session)
    return seconds


async def _run(town: Town) -> float:
    """Queue a call, and wait until a worker has made it."""
    household, session, number = town.next()
    key = household.tenant.key
    body = {"session_id": session, "tool": "keep", "arguments": {"text": f"number {number}"}}
    started = time.perf_counter()
    path = f"/v1/runs/{expect(await town.connections.ask(post('/v1/runs', key, body)), 202)['id']}"
    while (state := expect(await town.connections.ask(request("GET", path, key)), 200)["state"]) in _UNFINISHED:  # noqa: ASYNC110 - as a client would
        await asyncio.sleep(0.1)
    if state != "succeeded":
        raise RuntimeError(f"a run is {state}")
    return time.perf_counter() - started


async def _follow(town: Town) -> float:
    """Follow a session's events, have its agent take a turn, stay a while, and leave without a word."""
    household, _, _ = town.next()
    session = await town.open_session(household)
    follower = await Follower.open(town.connections.port, session, household.tenant.key)
    try:
        started = time.perf_counter()
        http_request = post(f"/v1/sessions/{session}/messages", household.tenant.key, {"content": "keep it"})
        expect(await town.connections.ask(http_request), 202)
        while not follower.turns and time.perf_counter() - started < EVENT_SECONDS:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        seconds = time.perf_counter() - started
        if not follower.turns or follower.gaps:
            raise RuntimeError(f"a follower saw {follower.events} events of a turn, {follower.gaps} gaps, and no end")
        await asyncio.sleep(STAY_SECONDS)
        if not follower.is_open:
            raise RuntimeError("a stream of events was closed by the server")
    finally:
        follower.close()
    await town.delete_session(household, session)
    return seconds


async def _mcp(town: Town) -> float:
    """Call a tool over MCP."""
    household, session, number = town.next()
    meta = {
        "io.modelcontextprotocol/protocolVersion": _VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
    }
    params = {"name": "keep", "arguments": {"text": f"number {number}"}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": _VERSION,
        "mcp-method": "tools/call",
        "mcp-name": "keep",
    }
    http_request = request("POST", f"/mcp/sessions/{session}", household.tenant.key, body, headers)
    started = time.perf_counter()
    answer = await town.connections.ask(http_request)
    if answer.status != 200 or b'"result"' not in answer.body or b'"isError":true' in answer.body:
        raise UnexpectedAnswer(answer)
    return time.perf_counter() - started


async def _page(town: Town) -> float:
    """Look at a page of the console."""
    household, _, number = town.next()
    http_request = request("GET", _PAGES[number // 7 % len(_PAGES)], headers={"cookie": household.cookie})
    return await _timed(town, http_request, 200)


async def _audit(town: Town) -> float:
    """Read the record: a page of it, a page of one tool's, or a summary."""
    household, _, number = town.next()
    path = ("/v1/audit?limit=50", "/v1/audit?tool=keep&limit=20", "/v1/audit/summary")[number // 7 % 3]
    return await _timed(town, request("GET", path, household.tenant.key), 200)


async def _refused(town: Town) -> float:
    """Ask for what is refused: a tool that is not there, or arguments that do not fit."""
    household, session, number = town.next()
    if number // 7 % 2:
        return await _timed(town, call(session, household.tenant.key, "no_such_tool"), 404)
    return await _timed(town, call(session, household.tenant.key, "keep", words="not an argument"), 422)


async def _session(town: Town) -> float:
    """Create a session, look at it, and delete one that was used before."""
    household, _, _ = town.next()
    started = time.perf_counter()
    session = await town.open_session(household)
    seconds = time.perf_counter() - started
    await _timed(town, request("GET", f"/v1/sessions/{session}/snapshot", household.tenant.key), 200)
    household.sessions.append(session)
    household.retired.append(household.sessions.popleft())
    if len(household.retired) > KEPT:
        await town.delete_session(household, household.retired.popleft())
    return seconds


KINDS = (
    Kind("read call", 8, _read),
    Kind("call with an effect", 8, _write),
    Kind("MCP call", 4, _mcp),
    Kind("file", 2, _file),
    Kind("approval", 1, _approval),
    Kind("agent's turn", 1.5, _turn),
    Kind("queued run", 1, _run),
    Kind("followed turn", 1, _follow),
    Kind("console page", 2, _page),
    Kind("audit query", 1, _audit),
    Kind("refusal", 1, _refused),
    Kind("session", 1, _session),
)
