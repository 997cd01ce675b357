"""What it costs to say which tools are in play, and which exact set that is."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, cycle

from benchmarks.compose import template
from benchmarks.row import Row
from capset import Agent, Composition, Policy, Principal, Request, Tool, compose, evaluate
from capset.fingerprint.canonical import canonical
from capset.fingerprint.payloads import runtime_payload

HUNDRED = 6
"""How many times as long as SHA-256 of the runtime payload 100 tools with 10 policies may take; 2 of these suspend."""
CHANGED = 2
"""The same for 1,000 tools of which one has changed."""
CHOICES = 80
"""How many different tools change in turn: more than the choices that a plan remembers, so that each is met anew."""
_permissions = {f"notes:read-{number}" for number in range(CHOICES)}
_names = count()


async def _at_once(request: Request) -> bool:
    return True


async def _later(request: Request) -> bool:
    await asyncio.sleep(0)
    return True


def measure(*, quick: bool) -> list[Row]:
    """Return the rows of one evaluation, of one after a change, and of one of a new definition."""
    return asyncio.run(_measure(rounds=200 if quick else 3000))


async def _measure(rounds: int) -> list[Row]:
    policies = [Policy(f"p{number}", _at_once if number < 8 else _later) for number in range(10)]
    hundred = _agent([replace(template, permissions=frozenset(), policies=(policies[n % 10],)) for n in range(100)])
    changing = [replace(template, permissions=frozenset({one})) for one in _permissions]
    thousand = _agent([*changing, *[replace(template, permissions=frozenset()) for _ in range(1000 - CHOICES)]])
    all_but_one = [Principal("reader", permissions=_permissions - {one}) for one in _permissions]
    anew = _agent(
        [
            replace(one, permissions=frozenset(list(_permissions)[n : n + 1]), policies=(policies[n % 10],))
            for n, one in enumerate([template] * 100)
        ]
    )
    took = await _beside_sha(hundred, rounds, cycle([Principal("reader")]))
    first = await _beside_sha(anew, rounds, cycle(all_but_one))
    again = await _beside_sha(thousand, rounds // 3, cycle(all_but_one))
    return [
        _row("evaluate 100 tools, 10 policies, 2 of which suspend, runtime hash remembered", *took, HUNDRED),
        _row("evaluate 100 tools, 10 policies, 2 of which suspend, runtime hash met anew", *first, HUNDRED),
        _row("evaluate 1,000 tools, one of them changed, runtime hash", *again, CHANGED),
    ]


def _row(name: str, took: float, sha: float, size: int, target: float) -> Row:
    peers = {"evaluate": f"{took * 1e6:.1f} µs", "SHA-256": f"{sha * 1e6:.1f} µs"}
    return Row(name, round(took / sha, 2), f"times SHA-256 of {size} bytes", target, "at most", peers)


def _agent(tools: list[Tool[[str, int], list[str]]]) -> Composition:
    return compose(Agent("bench", tools=[replace(one, name=f"t{next(_names)}") for one in tools]))


async def _beside_sha(
    composition: Composition, rounds: int, principals: Iterator[Principal]
) -> tuple[float, float, int]:
    """Return the best seconds of an evaluation and of SHA-256 of its runtime payload, in turns, and the bytes."""
    first = await evaluate(composition, principal=next(principals))
    payload = canonical(runtime_payload(ref.payload for ref in first.tool_refs))
    assert hashlib.sha256(payload).hexdigest() == first.runtime_hash
    best = best_sha = float("inf")
    for _ in range(rounds):
        principal = next(principals)
        began = time.perf_counter()
        await evaluate(composition, principal=principal)
        best = min(best, time.perf_counter() - began)
        began = time.perf_counter()
        hashlib.sha256(payload).hexdigest()
        best_sha = min(best_sha, time.perf_counter() - began)
    return best, best_sha, len(payload)
