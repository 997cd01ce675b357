"""What it costs to say which tools are in play, and which exact set that is."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, count, cycle, islice

from capset import Agent, Composition, Policy, Principal, Request, Tool, compose, evaluate
from capset.fingerprint.canonical import canonical
from capset.fingerprint.payloads import runtime_payload
from lab.benchmarks.compose import template
from lab.benchmarks.row import Row

HUNDRED = 6
"""How many times as long as SHA-256 of the runtime payload 100 tools with 10 policies may take; 2 of these suspend."""
CHANGED = 2
"""The same for 1,000 tools of which one has changed."""
CHOICES = 80
"""How many choices of tools are evaluated in turn: more than a plan remembers, so that each hash is worked out anew."""
_permissions = {f"notes:read-{number}" for number in range(CHOICES)}
_names = count()


async def _at_once(request: Request) -> bool:
    return True


async def _later(request: Request) -> bool:
    await asyncio.sleep(0)
    return True


def measure(*, quick: bool) -> list[Row]:
    """Return the row of one evaluation, and that of one after a change."""
    return asyncio.run(_measure(rounds=200 if quick else 3000))


async def _measure(rounds: int) -> list[Row]:
    policies = [Policy(f"p{number}", _at_once if number < 8 else _later) for number in range(10)]
    kinds = sorted(_permissions)[:7]
    hundred = _agent(
        [replace(template, permissions=frozenset({kinds[n % 7]}), policies=(policies[n % 10],)) for n in range(100)]
    )
    changing = [replace(template, permissions=frozenset({permission})) for permission in _permissions]
    thousand = _agent([*changing, *[replace(template, permissions=frozenset()) for _ in range(1000 - CHOICES)]])
    some = [Principal("reader", permissions=set(subset)) for subset in islice(_choices(kinds), 1, CHOICES)]
    full_reader = Principal("reader", permissions=set(kinds))
    all_but_one = [Principal("reader", permissions=_permissions - {permission}) for permission in _permissions]
    remembered = await _beside_sha(hundred, rounds, [full_reader])
    took = await _beside_sha(hundred, rounds // 4, [full_reader], between=some)
    changed = await _beside_sha(thousand, rounds // 3, all_but_one)
    return [
        _row("evaluate 100 tools, 10 policies, 2 of which suspend, runtime hash", *took, HUNDRED, remembered[0]),
        _row("evaluate 1,000 tools, one of them changed, runtime hash", *changed, CHANGED),
    ]


def _choices(kinds: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield every choice of some kinds, all of them first."""
    return chain.from_iterable(combinations(kinds, size) for size in range(len(kinds), -1, -1))


def _row(name: str, took: float, sha: float, size: int, target: float, remembered: float | None = None) -> Row:
    peers = {"evaluate": f"{took * 1e6:.1f} µs", "SHA-256": f"{sha * 1e6:.1f} µs"}
    if remembered is not None:
        peers["evaluate, hash remembered"] = f"{remembered * 1e6:.1f} µs"
    return Row(name, round(took / sha, 2), f"times SHA-256 of {size} bytes", target, "at most", peers)


def _agent(tools: list[Tool[[str, int], list[str]]]) -> Composition:
    return compose(Agent("bench", tools=[replace(tool, name=f"t{next(_names)}") for tool in tools]))


async def _beside_sha(
    composition: Composition, rounds: int, principals: Sequence[Principal], between: Sequence[Principal] = ()
) -> tuple[float, float, int]:
    """Return the best seconds of an evaluation and of SHA-256 of its runtime payload, in turns, and the bytes.

    ``between`` are evaluated before each that is measured, so that the plan remembers them instead.
    """
    first = await evaluate(composition, principal=principals[0])
    payload = canonical(runtime_payload(ref.payload for ref in first.tool_refs))
    assert hashlib.sha256(payload).hexdigest() == first.runtime_hash
    best = best_sha = float("inf")
    for principal in islice(cycle(principals), 1, rounds + 1):
        for other in between:
            await evaluate(composition, principal=other)
        began = time.perf_counter()
        await evaluate(composition, principal=principal)
        best = min(best, time.perf_counter() - began)
        began = time.perf_counter()
        hashlib.sha256(payload).hexdigest()
        best_sha = min(best_sha, time.perf_counter() - began)
    return best, best_sha, len(payload)
