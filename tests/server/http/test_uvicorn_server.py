"""The address that a server listens on."""

from __future__ import annotations

import socket

import pytest

from capset.errors import Unreachable
from capset.server.http.uvicorn_server import bind
from tests.server.support import Site


def test_a_free_port_is_taken_and_listened_on() -> None:
    with bind("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        assert bound.getsockname()[1] > 0


def test_two_servers_never_share_a_port_not_even_before_they_serve() -> None:
    with bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port}") as error:
            bind("127.0.0.1", port)
        assert "--port" in (error.value.hint or "")
    with bind("127.0.0.1", port):
        pass  # it is free again


async def test_answers_are_sent_without_delay(shared: Site) -> None:
    async with shared.client() as client:
        await client.get("/v1/healthz")
        (connection,) = shared.server.server_state.connections
        sent = connection.transport.get_extra_info("socket")
        assert sent.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
