"""The process's standard streams for a protocol alone, tried in processes of their own."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

WAITS = """
import asyncio, sys
from capset_server.standard_streams import Streams

async def main():
    streams = Streams()
    gone = asyncio.create_task(streams.gone())
    await asyncio.sleep(0.3)  # the peer has said something meanwhile
    watched = asyncio.get_running_loop().remove_reader(streams._writing)
    print("watched" if watched else "let be", gone.done(), file=sys.stderr)
    gone.cancel()

asyncio.run(main())
"""


@pytest.mark.realtime
@pytest.mark.skipif(sys.platform == "win32", reason="a socket as a standard stream")
@pytest.mark.parametrize("payload", [b"", b"something"])
def test_a_peer_that_talks_where_it_should_read_is_no_peer_that_left(payload: bytes) -> None:
    """Nor is it heard of again and again, which would keep the event loop busy."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(payload)
        done = subprocess.run(
            [sys.executable, "-c", WAITS],
            stdin=subprocess.DEVNULL,
            stdout=theirs.fileno(),
            stderr=subprocess.PIPE,
            timeout=30,
            text=True,
            check=False,
        )
    assert done.stderr.strip() == ("let be False" if payload else "watched False")
