"""The soak itself: a server under mixed load, sampled; the record verified afterwards; and what of it fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from lab.siege.battle import database
from lab.siege.host import Host, Server
from lab.siege.mixed.kinds import KINDS, SCRIPT, Kind
from lab.siege.mixed.samples import GROWTH, Sampler, growth
from lab.siege.mixed.town import ORGS, Town
from lab.siege.pace import keep_pace, percentiles
from lab.siege.processes import Usage, peak_rss, usage

SETTLE_SECONDS = 10.0
"""How long what clients have left may take to be let go of."""
LEFT_DESCRIPTORS = 40
"""How many more descriptors the server may have after the soak than before its first client: kept connections."""


def soak(engine: str, seconds: float, *, every: float = 5.0, pace: float = 1.0) -> dict[str, Any]:
    """Return the report of a soak, with every kind of load at ``pace`` times its rate."""
    with database(engine) as (folder, url):
        host = Host.of(folder, url)
        script = folder / "script.yaml"
        script.write_text(SCRIPT)
        admin = host.make_key("admin", org=None, scopes=("capset:admin",))
        approvers = [host.make_key("approver", org=f"org{number}") for number in range(ORGS)]
        with host.serving("server", "--model", f"script:{script}") as server, host.working("worker"):
            report = asyncio.run(_soak(server, admin, approvers, seconds, every, pace))
        host.run("audit", "verify")
        return {"engine": engine, **report, "verified": True}


def problems(report: dict[str, Any]) -> list[str]:
    """Return why a soak has failed."""
    failures = [f"{count} times {error}" for error, count in report["errors"].items()]
    for name, maximum in GROWTH.items():
        if report["growth"][name] > maximum:
            failures.append(f"{name} grew by {report['growth'][name]:,.0f}, more than {maximum:,}")
    if report["left"]["descriptors"] > report["before"]["descriptors"] + LEFT_DESCRIPTORS:
        failures.append(
            f"{report['left']['descriptors']} descriptors were left, {report['before']['descriptors']} before"
        )
    missing = [name for name in report["rates"] if not report["kinds"].get(name, {"count": 0})["count"]]
    return failures + [f"no {name} was made" for name in missing]


async def _soak(
    server: Server, admin: str, approvers: Sequence[str], seconds: float, every: float, pace: float
) -> dict[str, Any]:
    before = usage(server.pid)
    town = await Town.of(server.port, admin, approvers)
    sampler = Sampler(server.pid)
    sampling = asyncio.create_task(sampler.run(every))
    started = time.monotonic()
    await asyncio.gather(*(_load(town, sampler, kind, seconds, pace) for kind in KINDS))
    took = time.monotonic() - started
    sampling.cancel()
    with suppress(asyncio.CancelledError):
        await sampling
    town.connections.close()
    await asyncio.sleep(min(SETTLE_SECONDS, seconds))
    after = usage(server.pid)
    timings = sampler.timings
    return {
        "seconds": round(took, 1),
        "pace": pace,
        "rates": {kind.name: kind.rate * pace for kind in KINDS},
        "kinds": {kind.name: percentiles(timings.seconds[kind.name]) for kind in KINDS},
        "errors": dict(timings.odd),
        "growth": {name: round(growth(sampler.samples, name)) for name in GROWTH},
        "peak_rss": peak_rss(server.pid),
        "before": _held(before),
        "left": _held(after),
        "samples": sampler.samples,
    }


def _held(process_usage: Usage) -> dict[str, int]:
    return {"rss": process_usage.rss, "descriptors": process_usage.descriptors, "threads": process_usage.threads}


async def _load(town: Town, sampler: Sampler, kind: Kind, seconds: float, pace: float) -> None:
    async def work(number: int, due: float) -> None:
        taken, problem = 0.0, None
        try:
            taken = await kind.work(town)
        except Exception as error:  # whatever it is, it is counted and told
            problem = str(error) or type(error).__name__
            taken = time.perf_counter() - due
        sampler.timings.note(kind.name, taken, problem)

    await keep_pace(kind.rate * pace, seconds, work)
