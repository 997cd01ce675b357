"""``python -m lab.siege.soak``: make 72,000 calls of one server, and print how much memory is left taken."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter

from rich.console import Console
from rich.table import Table

from lab.siege.attack import call
from lab.siege.battle import database
from lab.siege.connection import Connection, in_time
from lab.siege.processes import usage
from lab.siege.site import Member, Site, besieged

CONNECTIONS = 16
WARM_CALLS = 4_000
"""Calls before the first measurement: what is made once, such as threads and connections, is there after them."""
STEPS = 6
"""The calls are made in so many parts, and memory is measured after each."""
SETTLE_SECONDS = 5.0
GROWTH_BYTES = 15_000_000
"""How much more memory may be taken after the calls than before."""

_CALLS = (
    ("repeat", '{"text":"said again"}', "200"),
    ("write_todos", '{"todos":[{"content":"Read","activeForm":"Reading","status":"pending"}]}', "200"),
    ("write_file", '{"path":"/note.txt","content":"noted"}', "200"),
    ("read_file", '{"path":"/note.txt"}', "200"),
)
"""What is called in turn: a tool, its arguments, and the status of the answer."""
_REFUSED = (("repeat", '{"words":"not an argument"}', "422"), ("no_such_tool", "{}", "404"))
_REFUSED_EACH = 100
"""One call in so many is refused: more than 600 a minute are refused before any other check."""


def _call(number: int) -> tuple[str, str, str]:
    if number % _REFUSED_EACH == 0:
        return _REFUSED[number // _REFUSED_EACH % len(_REFUSED)]
    return _CALLS[number % len(_CALLS)]


async def _make(port: int, members: tuple[Member, ...], count: int) -> Counter[str]:
    """Make calls of several sessions at once, and return how often which was answered how, if not as expected."""
    numbers = iter(range(count))
    odd: Counter[str] = Counter()

    async def work() -> None:
        async with Connection(port) as connection:
            for number in numbers:
                tool, arguments, expected = _call(number)
                member = members[number // len(_CALLS) % len(members)]
                answered = await in_time(connection, call(member, tool, arguments), 60)
                if answered != expected:
                    odd[f"{tool}: {answered}"] += 1

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    return odd


async def _soak(site: Site, calls: int) -> tuple[list[int], Counter[str]]:
    """Return the bytes that the server takes before the calls and after each part of them, and odd answers."""
    members = (site.attacker, site.bystander)
    odd = await _make(site.port, members, min(WARM_CALLS, calls))
    taken = [await _settled(site)]
    for _ in range(STEPS):
        odd += await _make(site.port, members, calls // STEPS)
        taken.append(await _settled(site))
    return taken, odd


async def _settled(site: Site) -> int:
    await asyncio.sleep(SETTLE_SECONDS)
    return usage(site.pids[0]).rss


def main() -> int:
    """Soak a server on each engine; end with 1 if memory grew by more than allowed, or a call was answered oddly."""
    parser = argparse.ArgumentParser(prog="lab.siege.soak", description=__doc__)
    parser.add_argument("--engine", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--calls", type=int, default=72_000)
    options = parser.parse_args()
    table = Table(
        title=f"{options.calls:,} calls of one server, in {STEPS} parts: MB of memory before, after each part"
    )
    for column in ("engine", "before", *map(str, range(1, STEPS + 1)), "growth", f"at most {GROWTH_BYTES // 10**6}"):
        table.add_column(column, justify="right", overflow="fold")
    failed = False
    for engine in ("sqlite", "postgres") if options.engine == "both" else (options.engine,):
        with database(engine) as (folder, url), besieged(folder, url, servers=1) as site:
            taken, odd = asyncio.run(_soak(site, options.calls))
        growth = taken[-1] - taken[0]
        is_held = growth <= GROWTH_BYTES and not odd
        failed |= not is_held
        cells = [f"{size / 1e6:.1f}" for size in (*taken, growth)]
        table.add_row(engine, *cells, "held" if is_held else f"missed {dict(odd) or ''}")
    Console(width=140).print(table)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
