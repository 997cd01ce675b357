"""Agents that use their model at once: 60 in one step of another, of sessions that may take ten steps each."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from typing import Any, Final

from lab.siege.attack import Attack, Bounds
from lab.siege.connection import Connection, request, status
from lab.siege.site import STEPS, Site

_EVENTS: Final = {"accept": "text/event-stream"}


async def _crowds(site: Site, until: float) -> Counter[str]:
    """Have one turn after the other begin them, on both servers, and look at what each session has used."""
    answers = Counter[str]()

    async def turns(port: int) -> None:
        async with Connection(port) as connection:
            while time.monotonic() < until:
                await _crowd(connection, site, answers)
                await asyncio.sleep(0.2)  # what is attacked is the limit

    await asyncio.gather(*map(turns, site.ports))
    return answers


async def _crowd(connection: Connection, site: Site, answers: Counter[str]) -> None:
    key = site.spender.key
    begun = await connection.ask(_posted("/v1/sessions", key, {"agent_id": site.spender.agent}))
    answers[status(begun)] += 1
    if begun.status != 201:
        return
    session = begun.json["id"]
    http_request = _posted(f"/v1/sessions/{session}/messages", key, {"content": "go"}, _EVENTS)
    answers[status(await connection.ask(http_request, whole=True))] += 1
    answer = await connection.ask(request("GET", f"/v1/usage?session={session}", key))
    answers[status(answer)] += 1
    if answer.status == 200:
        used = sum(usage["used"] for usage in answer.json["items"] if usage["resource"] == "model_steps")
        answers["all steps" if used == STEPS else f"{used:g} steps"] += 1


def _posted(path: str, key: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> bytes:
    return request("POST", path, key, json.dumps(body).encode(), headers)


_ANSWERS: Final = frozenset({"200", "201", "429", "all steps"})
ATTACKS = (Attack("60 agents at once", _crowds, _ANSWERS, Bounds(health=0.5)),)
