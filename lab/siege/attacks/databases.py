"""The queries of ``db_query`` that reach a PostgreSQL server, and a role that may only connect to the store."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter

import psycopg

from capset.stores.sql.postgres.engines import lock_key
from lab.siege.attack import Attack, Bounds, call, read, write
from lab.siege.connection import Connection, in_time, request
from lab.siege.site import Member, Site

_ROLE = "DO $$ BEGIN CREATE ROLE {} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
_QUERIES = (
    "SELECT repeat('x', 900000000)",
    "SELECT repeat('x', 1000000) FROM generate_series(1, 5000)",
    "SELECT i, repeat('x', CASE WHEN i > 300 THEN 1000000 ELSE 1 END) FROM generate_series(1, 5000) AS i",
    "SELECT count(*) FROM generate_series(1, 100000000000)",
    "SELECT pg_logical_emit_message(false, 'x', repeat('x', 100000000))",
    "SELECT pg_advisory_lock(1), pg_sleep(60)",
    "SELECT array_agg(i) FROM generate_series(1, 3000000) AS i",
)


def _as(site: Site, role: str, database: str | None = None) -> str:
    """Return the URL of the site's database server for another role, and another database."""
    url = site.url.replace("postgres:@", f"{role}@", 1)
    return url if database is None else url.replace("/postgres?", f"/{database}?", 1)


async def _asker(site: Site, url: str) -> Member | str:
    """Return a member of the attackers whose agent has ``db_query`` of a database, or why there is none."""
    connections = {"main": {"url": url}}
    entry = {"id": "database", "config": {"connections": connections, "seconds": 2}}
    async with Connection(site.port) as connection:
        created = await connection.ask(
            request(
                "POST",
                "/v1/agents",
                site.administrator,
                json.dumps({"name": "asker", "capabilities": [entry]}).encode(),
            )
        )
        if created.status != 201:
            return f"{created.status} for the agent"
        agent = created.json["id"]
        opened = await connection.ask(
            request("POST", "/v1/sessions", site.administrator, json.dumps({"agent_id": agent}).encode())
        )
        return Member(site.administrator, agent, opened.json["id"])


async def _queries(site: Site, until: float) -> Counter[str]:
    """Ask a database for more than fits anywhere, for ever, and for what no role may call, on eight connections."""
    with psycopg.connect(site.url, autocommit=True) as owner:
        owner.execute(_ROLE.format("asker").encode())
        if owner.execute("SELECT FROM pg_database WHERE datname = 'shop'").fetchone() is None:
            owner.execute("CREATE DATABASE shop")
    asker = await _asker(site, _as(site, "asker", "shop"))
    if isinstance(asker, str):
        return Counter({asker: 1})
    until = time.monotonic() + max(1.0, until - time.monotonic())
    answers, queries = Counter[str](), itertools.cycle(_QUERIES)

    async def work() -> None:
        async with Connection(site.port) as connection:
            while time.monotonic() < until:
                http_request = call(asker, "db_query", json.dumps({"query": next(queries)}))
                answers[await in_time(connection, http_request, 60.0)] += 1

    await asyncio.gather(*(work() for _ in range(8)))
    return answers


async def _locks(site: Site, until: float) -> Counter[str]:
    """Hold every advisory lock of the store's database that can be had, as a role without a right, and ask it."""
    with psycopg.connect(site.url, autocommit=True) as owner:
        owner.execute(_ROLE.format("passer").encode())
    asker = await _asker(site, _as(site, "passer"))
    if isinstance(asker, str):
        return Counter({asker: 1})
    until = time.monotonic() + max(1.0, until - time.monotonic())
    answers = Counter[str]()
    with psycopg.connect(_as(site, "passer"), autocommit=True) as passer:
        passer.execute("SELECT pg_advisory_lock(%s)", (lock_key("writes"),))
        answers["held"] += 1
        async with Connection(site.port) as connection:
            while time.monotonic() < until:
                lock_query = "SELECT classid::bigint << 32 | objid::bigint FROM pg_locks WHERE locktype = 'advisory'"
                for (key,) in passer.execute(lock_query).fetchall():
                    passer.execute("SELECT pg_try_advisory_lock(%s)", (key,))
                query = f"SELECT pg_advisory_lock({lock_key('writes')})"
                answers[await in_time(connection, call(asker, "db_query", json.dumps({"query": query})), 20.0)] += 1
                await asyncio.sleep(0.05)
    return answers


_POSTGRES = ("postgres",)
_ANSWERS = frozenset({"200", "429", "503"})
ATTACKS = (
    Attack("db_query on PostgreSQL", _queries, _ANSWERS, Bounds(p99=0.5), read, engines=_POSTGRES),
    Attack("advisory lock", _locks, _ANSWERS | {"held"}, Bounds(p99=0.5, wait=1.0), write, engines=_POSTGRES),
)
