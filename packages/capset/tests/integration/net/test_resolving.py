"""The machine's own resolver, and names whose servers do not answer."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from capset import ToolError
from capset.errors import TransientError
from capset.net.addresses import MAX_LOOKUPS, system_resolver
from capset.net.client import HttpClient


async def test_a_name_has_its_addresses_once_and_an_unknown_one_has_none() -> None:
    addresses = await system_resolver("localhost")
    assert {"127.0.0.1", "::1"} >= set(addresses) > set()
    assert len(addresses) == len(set(addresses))
    for name in ("nothing.invalid", "a" * 64 + ".invalid", "ü" * 64):
        with pytest.raises(socket.gaierror):
            await system_resolver(name)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the name servers of ``*.slow.example`` answer nothing until the test is over."""
    real, over = socket.getaddrinfo, threading.Event()

    def getaddrinfo(host: Any, *arguments: Any, **named: Any) -> Any:
        if str(host).endswith(".slow.example"):
            over.wait(3_600)
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return real(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield
    over.set()
    for thread in threading.enumerate():
        if thread.name == "capset-resolver":
            thread.join(10)


async def given_up(number: int) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(system_resolver(f"{number}.slow.example"), 0.05)


@pytest.mark.spec("P26", "T27")
@pytest.mark.usefixtures("stuck")
async def test_names_that_are_not_answered_keep_no_others_waiting() -> None:
    await asyncio.gather(*map(given_up, range(MAX_LOOKUPS - 1)))
    assert await asyncio.wait_for(system_resolver("localhost"), 60)
    await given_up(MAX_LOOKUPS)
    with pytest.raises(TransientError, match="cannot be looked up at the moment"):
        async with HttpClient().open("GET", "http://example.com/", timeout=5):
            pass


@pytest.mark.usefixtures("stuck")
def test_an_event_loop_ends_though_a_name_is_not_answered() -> None:
    asyncio.run(given_up(1))  # with the threads of a pool it would wait


HANGING = """
import asyncio, socket, threading
from capset.errors import TransientError
from capset.net.client import HttpClient

socket.getaddrinfo = lambda *arguments, **named: threading.Event().wait()

async def main():
    try:
        async with HttpClient().open("GET", "http://slow.example/", timeout=0.2):
            print("answered")
    except TransientError as error:
        print(error.code)

asyncio.run(main())
print("alive:", [thread.name for thread in threading.enumerate() if thread.name == "capset-resolver"])
"""


@pytest.mark.realtime
@pytest.mark.spec("T27")
def test_a_process_ends_though_a_name_is_never_answered() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.splitlines() == ["timeout", "alive: ['capset-resolver']"], ended.stderr
    assert ended.returncode == 0


async def test_the_places_of_those_that_ended_are_free_again() -> None:
    for _ in range(2 * MAX_LOOKUPS):
        assert await system_resolver("127.0.0.1") == ["127.0.0.1"]
    with pytest.raises(ToolError, match="unknown"):
        async with HttpClient().open("GET", "http://nothing.invalid/", timeout=20):
            pass
