"""Threads of ``capset serve`` shared between organisations and principals: a real process, real HTTP (spec 3, K21)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.helpers.cli.support import install
from tests.helpers.server.running import EVERYTHING, Running, running
from tests.helpers.server.support import call, make_session
from tests.waiting import until

pytestmark = [pytest.mark.spec("K21", "T33"), pytest.mark.realtime]

YARD = '''
import asyncio
import time

from capset import Capability, tool


@tool(effect="read")
def dawdle(seconds: float) -> str:
    """Keep a thread."""
    time.sleep(seconds)
    return "done"


@tool(effect="read", timeout=0.2)
def outstay(seconds: float) -> str:
    """Keep a thread for longer than the call lasts."""
    time.sleep(seconds)
    return "done"


@tool(effect="read")
def glance() -> str:
    """Return at once."""
    return "here"


yard = Capability("yard", tools=[dawdle, outstay, glance])
'''
MANY = 64


@contextmanager
def served(folder: Path) -> Generator[Running]:
    """Serve the yard."""
    packages = folder / "packages"
    packages.mkdir()
    install(packages, "yard", YARD, capabilities={"yard": "yard:yard"})
    with running(folder, PYTHONPATH=str(packages)) as server:
        yield server


@asynccontextmanager
async def client(server: Running, principal: str, org: str | None) -> AsyncGenerator[tuple[httpx2.AsyncClient, str]]:
    """Give a principal's client and a session of its own."""
    headers = {"Authorization": f"Bearer {server.key(principal, org=org, scopes=EVERYTHING)}"}
    limits = httpx2.Limits(max_connections=2 * MANY)
    async with httpx2.AsyncClient(
        base_url=server.url, headers=headers, timeout=60, trust_env=False, limits=limits
    ) as http_client:
        yield http_client, await make_session(http_client, "yard")


async def gauge(of: httpx2.AsyncClient, name: str) -> float:
    """Return a metric without labels."""
    text = (await of.get("/v1/metrics")).text
    samples = {
        sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples
    }
    return samples[name]


@pytest.mark.nightly
async def test_an_instant_call_does_not_wait_for_the_slow_ones_of_another_org(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        async with (
            client(server, "sloth", "acme") as (slow, resting),
            client(server, "hare", "globex") as (quick, session),
        ):
            many = [asyncio.ensure_future(call(slow, resting, "dawdle", seconds=5)) for _ in range(MANY)]
            await asyncio.sleep(2)
            assert not any(task.done() for task in many)
            began = time.monotonic()
            answer = await call(quick, session, "glance")
            took = time.monotonic() - began
            assert answer.json()["data"] == "here"
            assert took < 1
            assert {(await task).json()["success"] for task in many} == {True}


@pytest.mark.nightly
async def test_a_thread_that_outlives_its_call_is_counted_and_keeps_its_slot(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        async with (
            client(server, "sloth", "acme") as (slow, resting),
            client(server, "hare", None) as (quick, session),
        ):
            late = await asyncio.gather(*(call(slow, resting, "outstay", seconds=6) for _ in range(MANY)))
            assert {response.json()["error"]["code"] for response in late} <= {"deadline_exceeded", "no_free_slot"}
            running, abandoned = (
                await gauge(quick, "capset_threads_running"),
                await gauge(quick, "capset_threads_abandoned"),
            )
            assert 0 < abandoned == running < MANY
            assert await gauge(quick, "capset_abandoned_total") == abandoned
            began = time.monotonic()
            assert (await call(quick, session, "glance")).json()["data"] == "here"
            assert time.monotonic() - began < 1

            async def is_idle() -> bool:
                return not await gauge(quick, "capset_threads_running")

            await until(is_idle, "all threads to have ended")
            assert await gauge(quick, "capset_threads_abandoned") == 0
            assert await gauge(quick, "capset_abandoned_total") == abandoned
