"""``capset kernel``: messages in and out, one JSON object per line, for programs in any language."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from typing import Annotated

import typer

from capset.definitions.calls.messages import Message
from capset.kernel.kernel import DRAIN_SECONDS, MAX_CONCURRENT
from capset.kernel.registry import Registry
from capset.kernel.streams.dispatcher import Dispatcher
from capset.wire.ndjson import MAX_LINE_BYTES, Reader, line_of
from capset_cli.common.allowances import RateLimitOption, RunBudget, SessionBudget, load_allowance
from capset_cli.common.configuration import AgentOption
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import Attribute, Db, Env, Grant, Who, check_seconds
from capset_cli.common.process import on_termination_signal
from capset_cli.common.settings import Settings, load_settings
from capset_cli.common.targets import Target, find_target, open_kernel, print_session
from capset_server.standard_streams import Streams


@guarded
def kernel_command(
    agent: AgentOption = None,
    session: Annotated[str | None, typer.Option(help="The id of a session to continue.")] = None,
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    timeout: Annotated[float | None, typer.Option(help="The timeout of each call, in seconds.")] = None,
    consumer_timeout: Annotated[
        float | None, typer.Option(help="Seconds that a blocked stdout may hold up a call before the call is ended.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of concurrent calls.")] = MAX_CONCURRENT,
    max_line: Annotated[
        int, typer.Option(min=1, metavar="BYTES", help="The maximum length of a line.")
    ] = MAX_LINE_BYTES,
    rate_limit: RateLimitOption = None,
    session_budget: SessionBudget = None,
    run_budget: RunBudget = None,
    principal: Who = None,
    db: Db = None,
) -> Exit:
    """Read messages from stdin and answer them on stdout, as newline-delimited JSON, governed and recorded.

    At the end of stdin, it answers the remaining messages and exits with 0. On Ctrl-C or SIGTERM, it stops reading,
    gives running calls a few seconds, cancels the rest, and exits with 0; a second signal cancels them at once.
    """
    check_seconds("--timeout", timeout)
    check_seconds("--consumer-timeout", consumer_timeout)
    allowance = load_allowance(rate_limit, session_budget, run_budget, option="--rate-limit")
    settings = load_settings(db=db, principal=principal, grant=grant, attribute=attribute, env=env)
    with contextlib.redirect_stdout(sys.stderr):  # stdout is for messages
        # Resolved first, so that a misspelt name creates no database.
        target = find_target(Registry.installed(), agent, session, settings, allowance)
        serving = _serve(
            settings,
            target,
            session,
            timeout=timeout,
            consumer_timeout=consumer_timeout,
            limit=limit,
            max_line=max_line,
        )
        asyncio.run(serving)
    return Exit.DONE


class _Incoming:
    """The messages on stdin, as they come. After ``stop()`` it yields none, not even those already received."""

    def __init__(self, streams: Streams, max_line: int) -> None:
        self._streams = streams
        self._reader = Reader(max_line)
        self._ready: deque[Message] = deque()
        self._at_end = False
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def stop(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)

    def __aiter__(self) -> _Incoming:
        return self

    async def __anext__(self) -> Message:
        while not self._stopped.done() and not self._ready:
            if self._at_end:
                break
            chunk = await self._read()
            self._at_end = not chunk
            self._ready.extend(self._reader.feed(chunk) if chunk else self._reader.end())
        if self._stopped.done() or not self._ready:
            raise StopAsyncIteration
        return self._ready.popleft()

    async def _read(self) -> bytes:
        reading = asyncio.ensure_future(self._streams.read())
        try:
            await asyncio.wait({reading, self._stopped}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else b""
        finally:
            reading.cancel()


async def _serve(
    settings: Settings,
    target: Target,
    session_id: str | None,
    *,
    timeout: float | None,
    consumer_timeout: float | None,
    limit: int,
    max_line: int,
) -> None:
    async with open_kernel(settings, target, session_id) as (kernel, session):
        streams = Streams()
        incoming = _Incoming(streams, max_line)
        limited_session = session.options(timeout=timeout, consumer_timeout=consumer_timeout)
        answers = kernel.run(limited_session, incoming, limit=limit)
        serving = asyncio.ensure_future(_answer(answers, streams))
        disconnecting = asyncio.ensure_future(streams.gone())
        disconnecting.add_done_callback(lambda _: serving.cancel())
        _end_by_signals(serving, answers, incoming)
        print_session(session)
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        if disconnecting.done():
            raise BrokenPipeError
        disconnecting.cancel()


async def _answer(answers: Dispatcher, streams: Streams) -> None:
    """Write every answer before taking the next, so that a slow reader pauses the tools that produce them."""
    async with answers:
        async for message in answers:
            await streams.write(line_of(message))


def _end_by_signals(serving: asyncio.Task[None], answers: Dispatcher, incoming: _Incoming) -> None:
    """Make a signal end the input, and cancel running calls after some seconds; a second one cancels them at once."""
    loop = asyncio.get_running_loop()
    signals = 0

    def cancel() -> None:
        answers.cancel()
        loop.call_later(1, serving.cancel)  # after a second for reporting the cancellation of calls

    def end() -> None:
        nonlocal signals
        signals += 1
        incoming.stop()
        if signals == 1:
            loop.call_later(DRAIN_SECONDS, cancel)
        else:
            cancel()

    on_termination_signal(end)
