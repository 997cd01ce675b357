"""The address that a server listens on, and the parts of uvicorn that it is made of."""

from __future__ import annotations

import asyncio
import inspect
import socket
import struct
import sys
import tomllib
from importlib.metadata import version

import pytest
import uvicorn
from packaging.requirements import Requirement
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from capset.errors import Unreachable
from capset_server.http.uvicorn_server import bind
from scripts.packages import ROOT
from tests.helpers.server.support import Site

PROJECT = ROOT / "packages/capset-server/pyproject.toml"


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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts a connection's segments")
async def test_an_answer_and_its_head_are_one_segment(shared: Site) -> None:
    loop = asyncio.get_running_loop()
    with socket.create_connection(("127.0.0.1", shared.port)) as client:
        client.setblocking(False)
        for number in range(3):
            await loop.sock_sendall(client, b"GET /v1/healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            assert (await loop.sock_recv(client, 65_536)).startswith(b"HTTP/1.1 200")
            tcp_info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
            (segments,) = struct.unpack_from("=I", tcp_info, 152)  # tcpi_data_segs_in of linux/tcp.h
            assert segments == number + 1


@pytest.mark.spec("P42")
def test_the_parts_of_uvicorn_that_are_extended_are_those_that_were_tested() -> None:
    advice = "read what has changed in uvicorn/protocols/http/httptools_impl.py, run make test P=http, then move this"
    extra: list[str] = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]["server"]
    (pinned,) = [requirement for requirement in map(Requirement, extra) if requirement.name == "uvicorn"]
    assert {bound.operator for bound in pinned.specifier} == {">=", "<"}, "no version is installed that was not tested"
    assert version("uvicorn") in pinned.specifier, advice
    # What the protocol overrides or reads, beside the callbacks of httptools, which are public.
    protocol, cycle, server = map(vars, (HttpToolsProtocol, RequestResponseCycle, uvicorn.Server))
    assert {"on_response_complete", "send_400_response", "_start_asgi_task"} <= {*protocol}
    assert {"connection_lost", "pause_writing", "resume_writing"} <= {*protocol}
    for name in ("self.scope", "self.headers", "self.pipeline", "self.flow", "self.cycle", "self.transport"):
        assert f"{name}:" in inspect.getsource(protocol["__init__"]), advice
    for name in ("disconnected", "message_event", "keep_alive", "response_started", "response_complete"):
        assert f"self.{name} =" in inspect.getsource(cycle["__init__"]), advice
    assert {"capture_signals", "startup", "shutdown", "handle_exit"} <= {*server}, advice
