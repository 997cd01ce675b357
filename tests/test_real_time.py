"""The plugin that reports tests which depend on real time."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time

import pytest

from tests import real_time
from tests.waiting import moment, until

LISTENS = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as here:
    print(here.getsockname()[1], flush=True)
    here.accept()
"""


def seen() -> list[str]:
    """Return the first two words of what was seen."""
    return sorted(" ".join(line.split()[:2]) for line in real_time.take())


async def test_a_sleep_is_seen_once_it_has_ended() -> None:
    await asyncio.sleep(0)
    await moment(0.001)
    await until(lambda: True)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.sleep(60), 0.001)
    assert seen() == []
    await asyncio.sleep(0.001)
    assert seen() == ["sleeps 0.001"]
    time.sleep(0.001)
    assert seen() == ["sleeps 0.001"]


def test_a_process_and_a_connection_to_it_are_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        assert seen() == [], "it is of this process"
        port = listener.getsockname()[1]
    with subprocess.Popen([sys.executable, "-c", LISTENS, str(port)], stdout=subprocess.PIPE, text=True) as other:
        assert seen() == ["starts a"]
        assert other.stdout is not None
        socket.create_connection(("127.0.0.1", int(other.stdout.readline()))).close()
    assert seen() == ["connects to"], "the port is the other process's now"
