"""The server process: a socket that is bound first, uvicorn on it, and a shutdown that lets requests finish."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Generator, Sequence
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from capset.errors import Unreachable
from capset_server.http.request_rules import RequestLimits
from capset_server.shield.connections import protocol_with

DRAIN_SECONDS: Final = 10
"""How long requests may continue after shutdown began, before they are cancelled."""
BACKLOG: Final = 2048
_log = logging.getLogger("capset.server")


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0 takes a free one. Raises ``Unreachable`` if that fails."""
    with contextlib.ExitStack() as on_failure:
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            # asyncio disables Nagle's algorithm, which delays answers by 40 ms, only if the protocol is named.
            bound = on_failure.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, port))
            bound.listen(BACKLOG)  # here, because two sockets can be bound to one port while neither listens
        except OSError as error:
            raise Unreachable(
                f"cannot listen on {host}:{port}: {error.strerror}",
                hint="choose another with --host and --port; --port 0 takes any that is free",
            ) from None
        on_failure.pop_all()
    return bound


def make_server(
    app: ASGIApp,
    limits: RequestLimits,
    started: Callable[[], None],
    ending: Callable[[], None] | None = None,
    proxies: Sequence[str] = (),
) -> uvicorn.Server:
    """Return a uvicorn server that leaves signals alone; ``should_exit`` stops it once requests have finished.

    ``ending`` is called when shutdown begins, to end responses that would otherwise never end. ``proxies`` are the
    addresses and networks whose ``X-Forwarded-For`` names the client of a request.
    """
    config = uvicorn.Config(
        app,
        http=protocol_with(limits) if limits.shield else "httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=[*proxies],
        backlog=BACKLOG,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    return _Server(config, started, ending)


async def serve(
    app: ASGIApp,
    bound: socket.socket,
    limits: RequestLimits,
    *,
    started: Callable[[], None],
    draining: Callable[[], None] | None = None,
    delay: float = 0,
    ending: Callable[[], None] | None = None,
    proxies: Sequence[str] = (),
) -> None:
    """Serve until SIGINT or SIGTERM, then let requests finish. ``started`` is called once requests are accepted.

    ``draining`` is called at the signal. After SIGTERM the server accepts requests for ``delay`` more seconds, so that
    load balancers can notice; a second signal ends the delay at once. ``ending`` is called before the server waits for
    the requests under way.
    """
    server = make_server(app, limits, started, ending, proxies)
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.TimerHandle] = []

    def handle_signal(number: int) -> None:
        until = f"in {delay:g} s" if number == signal.SIGTERM and delay > 0 and not waiting else "now"
        _log.info(
            "the server stops %s (%s): requests under way have %d s", until, signal.Signals(number).name, DRAIN_SECONDS
        )
        if draining is not None:
            draining()
        if number == signal.SIGTERM and delay > 0 and not waiting:
            waiting.append(loop.call_later(delay, server.handle_exit, number, None))
        else:
            server.handle_exit(number, None)

    with contextlib.ExitStack() as handlers:
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # on Windows, where Ctrl-C ends it with 130
                loop.add_signal_handler(number, handle_signal, number)
                handlers.callback(loop.remove_signal_handler, number)
        await server.serve(sockets=[bound])


class _Server(uvicorn.Server):
    """A uvicorn server without signal handling: uvicorn would raise signals again, before the store is closed."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None], ending: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._tell = started
        self._ending = ending

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signal handlers alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report that requests are accepted."""
        await super().startup(sockets)
        self._tell()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Report the shutdown, and let requests finish."""
        if self._ending is not None:
            self._ending()
        await super().shutdown(sockets)
