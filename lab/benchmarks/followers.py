"""The time of a server with many idle followers: `python -m lab.benchmarks.followers [--db URL] [--count 1000]`.

It starts `capset serve`, gives each of 20 principals its share of sessions, opens a stream of events for each session,
and reads from /proc how much of one core the server takes while nothing happens. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

CAPSET = Path(sys.executable).with_name("capset")
PRINCIPALS = 20
SETTLE_SECONDS = 5.0
_ADDRESS = re.compile(r"capset serves (http://\S+)")


def make_keys(db: str) -> list[str]:
    """Create a key for each principal."""
    keys: list[str] = []
    for number in range(PRINCIPALS):
        command = [CAPSET, "key", "create", f"k{number}", "--principal", f"p{number}", "--db", db, "--json"]
        command += [word for scope in ("read", "call", "write") for word in ("--scope", scope)]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        keys.append(json.loads(done.stdout)["key"])
    return keys


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def make_sessions(url: str, key: str, count: int) -> list[str]:
    """Create an agent and sessions of it."""
    async with httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False) as client:
        agent = (await client.post("/v1/agents", json={"name": "idler", "capabilities": ["noop"]})).raise_for_status()
        body = {"agent_id": agent.json()["id"]}
        responses = [(await client.post("/v1/sessions", json=body)).raise_for_status() for _ in range(count)]
        return [response.json()["id"] for response in responses]


async def follow(url: str, key: str, session: str) -> asyncio.StreamWriter:
    """Open a stream of events, and return its connection once it has begun; the rest is never read."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    head = f"GET /v1/sessions/{session}/events HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {key}\r\n\r\n"
    writer.write(head.encode())
    status = await reader.readline()
    assert b" 200 " in status, status
    return writer


async def measure(url: str, pid: int, keys: list[str], count: int, seconds: float) -> float:
    """Return the share of one core that the server takes with this many idle followers."""
    share = count // len(keys)
    sessions = [(key, session) for key in keys for session in await make_sessions(url, key, share)]
    connections = [await follow(url, key, session) for key, session in sessions]
    await asyncio.sleep(SETTLE_SECONDS)
    began, before = time.monotonic(), cpu_seconds(pid)
    await asyncio.sleep(seconds)
    taken = (cpu_seconds(pid) - before) / (time.monotonic() - began)
    for connection in connections:
        connection.close()
    return taken


def main() -> None:
    """Start a server, measure it, and end it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--db", help="the store's URL; by default a new SQLite file")
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with tempfile.TemporaryDirectory() as folder:
        db = options.db or f"sqlite:///{folder}/capset.db"
        keys, log = make_keys(db), Path(folder, "log")
        with log.open("wb") as errors:
            server = subprocess.Popen([CAPSET, "serve", "--port", "0", "--db", db], stderr=errors)
        try:
            while (match := _ADDRESS.search(log.read_text())) is None:
                assert server.poll() is None, log.read_text()
                time.sleep(0.05)
            taken = asyncio.run(measure(match[1], server.pid, keys, options.count, options.seconds))
            print(f"{options.count} idle followers of {PRINCIPALS} principals: {100 * taken:.1f} % of one core")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
