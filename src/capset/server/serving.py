"""Running the server: a socket that is bound first, uvicorn on it, and an end that lets calls finish."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Generator
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from capset.errors import Unreachable
from capset.server.limits import Limits
from capset.server.protocol import protocol_with

DRAIN_SECONDS: Final = 10
"""How long requests may go on after the server was told to end; then they are cancelled."""
BACKLOG: Final = 2048


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address; port 0 takes a free one. Raises ``Unreachable`` if it cannot be."""
    with contextlib.ExitStack() as on_failure:
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            # Only where the protocol is named does asyncio switch off Nagle's delay, of 40 ms an answer.
            bound = on_failure.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, port))
            bound.listen(BACKLOG)  # here, since two may be bound to one port where neither listens yet
        except OSError as error:
            raise Unreachable(
                f"cannot listen on {host}:{port}: {error.strerror}",
                hint="choose another with --host and --port; --port 0 takes any that is free",
            ) from None
        on_failure.pop_all()
    return bound


def make_server(
    app: ASGIApp, limits: Limits, started: Callable[[], None], ending: Callable[[], None] | None = None
) -> uvicorn.Server:
    """Return uvicorn's server, which leaves signals alone; its ``should_exit`` ends it, once requests have finished.

    ``ending`` is called when it begins to end, for answers that would go on for ever.
    """
    config = uvicorn.Config(
        app,
        http=protocol_with(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    return _Server(config, started, ending)


async def serve(
    app: ASGIApp,
    bound: socket.socket,
    limits: Limits,
    *,
    started: Callable[[], None],
    draining: Callable[[], None],
    delay: float = 0,
    ending: Callable[[], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, then let requests finish. ``started`` is called once requests are taken.

    ``draining`` is called when it is told to end. After SIGTERM it goes on taking requests for ``delay`` seconds more,
    so that whoever sends them has time to look away; a second signal ends it at once. ``ending`` is called before it
    waits for those that are under way.
    """
    server = make_server(app, limits, started, ending)
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.TimerHandle] = []

    def told(number: int) -> None:
        draining()
        if number == signal.SIGTERM and delay > 0 and not waiting:
            waiting.append(loop.call_later(delay, server.handle_exit, number, None))
        else:
            server.handle_exit(number, None)

    with contextlib.ExitStack() as handlers:
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # on Windows, where Ctrl-C ends it with 130
                loop.add_signal_handler(number, told, number)
                handlers.callback(loop.remove_signal_handler, number)
        await server.serve(sockets=[bound])


class _Server(uvicorn.Server):
    """Leaves signals to ``serve``: uvicorn would raise them again, and end the process before its store is closed."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None], ending: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._tell = started
        self._ending = ending

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self._tell()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that it ends, and let requests finish."""
        if self._ending is not None:
            self._ending()
        await super().shutdown(sockets)
