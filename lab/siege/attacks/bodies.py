"""Bodies that cost more than they look: large, deep, of many values, in every place that takes one."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial

from lab.siege.attack import Attack, flood
from lab.siege.connection import request
from lab.siege.site import Site

_MIB = 2**20


def _call(arguments: bytes, tool: str = "write_todos") -> bytes:
    return b'{"tool":"' + tool.encode() + b'","arguments":' + arguments + b"}"


def _numbers(size: int) -> bytes:
    return b'{"todos":[' + b"1," * (size // 2) + b"1]}"


def _objects(size: int) -> bytes:
    todo = b'{"content":"c","activeForm":"a","status":"pending"},'
    return b'{"todos":[' + (todo * (size // len(todo)))[:-1] + b"]}"


def _text(size: int) -> bytes:
    return b'{"todos":"' + b"x" * size + b'"}'


def _deep(size: int) -> bytes:
    return b'{"todos":' + b"[" * (size // 2) + b"]" * (size // 2) + b"}"


async def _calls(body: bytes, site: Site, until: float) -> Counter[str]:
    http_request = request("POST", f"/v1/sessions/{site.attacker.session}/calls", site.attacker.key, body)
    return await flood(site.port, until, http_request)


async def _mcp(arguments: bytes, site: Site, until: float) -> Counter[str]:
    message = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_todos","arguments":' + arguments + b"}}"
    )
    headers = {"accept": "application/json, text/event-stream"}
    http_request = request("POST", f"/mcp/sessions/{site.attacker.session}", site.attacker.key, message, headers)
    return await flood(site.port, until, http_request)


async def _written(site: Site, until: float) -> Counter[str]:
    body = _call(b'{"path":"/large.txt","content":"' + b"x, " * (5 * _MIB) + b'"}', "write_file")
    return await _calls(body, site, until)


async def _context(site: Site, until: float) -> Counter[str]:
    body = b'{"agent_id":"' + site.attacker.agent.encode() + b'","context":{"n":[' + b"1," * (8 * _MIB) + b"1]}}"
    return await flood(site.port, until, request("POST", "/v1/sessions", site.attacker.key, body))


async def _config(count: int, site: Site, until: float) -> Counter[str]:
    actions = ",".join(f'{{"name":"a{n}","description":"d","permissions":[],"handler":"./a.py"}}' for n in range(count))
    body = json.dumps({"content": f'{{"actions":[{actions}]}}', "format": "json"}).encode()
    http_request = request("POST", "/v1/config/check", site.attacker.key, body)
    return await flood(site.port, until, http_request, connections=2, timeout=30.0)


_REFUSED = frozenset({"413", "422", "429", "503", "closed"})
_DONE = _REFUSED | {"200"}

ATTACKS = (
    Attack("call, 16 MB of numbers", partial(_calls, _call(_numbers(16 * _MIB - 100))), _REFUSED),
    Attack("call, 1 MB of numbers", partial(_calls, _call(_numbers(_MIB - 100))), _REFUSED),
    Attack("call, 1 MB of objects", partial(_calls, _call(_objects(_MIB - 100))), _DONE),
    Attack("call, 60 kB of objects", partial(_calls, _call(_objects(60_000))), _DONE),
    Attack("call, 19,000 values", partial(_calls, _call(_numbers(2 * 19_000))), _DONE),
    Attack("call, 19,000 values of objects", partial(_calls, _call(_objects(4_700 * 52))), _DONE),
    Attack("call, a file of 15 MB", _written, _DONE),
    Attack("call, 1 MB of text", partial(_calls, _call(_text(_MIB - 100))), _DONE),
    Attack("call, 1 MB of brackets", partial(_calls, _call(_deep(_MIB - 100))), _REFUSED),
    Attack("MCP call, 16 MB of numbers", partial(_mcp, _numbers(16 * _MIB - 1000)), _REFUSED | {"400"}),
    Attack("MCP call, 1 MB of objects", partial(_mcp, _objects(_MIB - 1000)), _DONE | {"400"}),
    Attack("session context, 16 MB", _context, _REFUSED),
    Attack("configuration of 11,000 actions", partial(_config, 11_000), _REFUSED),
    Attack("configuration of 3,700 actions", partial(_config, 3_700), _DONE),
)
