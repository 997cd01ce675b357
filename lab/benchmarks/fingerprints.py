"""What it costs to tell which exact version it was."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from datetime import date
from typing import Annotated, Literal

import rfc8785
from pydantic import Field

from capset import tool
from capset.fingerprint.canonical import canonical, digest
from capset.fingerprint.payloads import tool_payload
from lab.benchmarks.row import Row

FIRST_HASH = 0.15
"""How much of the time of the ``rfc8785`` package a tool's first hash may take."""


@tool(effect="read", permissions={"orders:read"})
async def find_orders(
    customer: str,
    status: list[Literal["open", "paid", "shipped", "cancelled"]] | None = None,
    placed_from: date | None = None,
    placed_to: date | None = None,
    text: str = "",
    sort: Literal["newest", "oldest", "largest"] = "newest",
    limit: Annotated[int, Field(ge=1, le=200)] = 20,
    cursor: str | None = None,
) -> list[dict[str, str]]:
    """Find a customer's orders, the newest first.

    Returns at most so many orders as the limit says, and a cursor if there are more of them.

    Args:
        customer: The customer's id, as find_customers gives it.
        status: Only orders in one of these states.
        placed_from: Only orders placed on this day or later.
        placed_to: Only orders placed on this day or before.
        text: Only orders with an item whose name holds this text.
        sort: In which order they come.
        limit: How many orders to return.
        cursor: Where to go on: the cursor of the page before.
    """
    return [{"customer": customer, "limit": f"{limit}"}]


def measure(*, quick: bool) -> list[Row]:
    """Return the row of a tool's first hash."""
    return [_first_hash(rounds=20 if quick else 200)]


def _first_hash(rounds: int) -> Row:
    """Measure payload, canonical bytes and SHA-256 against the reference's bytes of the payload, and SHA-256."""
    payload = tool_payload(find_orders)
    jobs = {
        "rfc8785": lambda: hashlib.sha256(rfc8785.dumps(payload)).hexdigest(),
        "capset": lambda: digest(tool_payload(find_orders)),
    }
    size = len(canonical(payload))
    seconds = _best(jobs, rounds)
    peers = {name: f"{elapsed * 1e6:.1f} µs" for name, elapsed in seconds.items()}
    return Row(
        "a 1.5 kB tool's first hash",
        round(seconds["capset"] / seconds["rfc8785"], 3),
        f"times that of rfc8785, for {size} bytes",
        FIRST_HASH,
        "at most",
        peers,
    )


def _best(jobs: Mapping[str, Callable[[], object]], rounds: int, calls: int = 50) -> dict[str, float]:
    """Return the seconds of a call of each job in its best round; they take turns, so all meet the same noise."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            began = time.perf_counter()
            for _ in range(calls):
                job()
            best[name] = min(best[name], (time.perf_counter() - began) / calls)
    return best
