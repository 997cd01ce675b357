"""uvicorn's HTTP/1.1 with a bound on heads: how large they get, and how long they take (spec 5, P15)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from capset.errors import CapsetError
from capset.ids import Ids
from capset.server.limits import Limits
from capset.server.visit import Refused
from capset.wire.problems import MEDIA_TYPE, problem_of


def protocol_with(limits: Limits) -> type[HttpToolsProtocol]:
    """Return the protocol with these limits, for uvicorn's ``http``.

    A head that is too large is refused with 431 and one that is too slow with 408, before anything looks at it.
    """

    class Bounded(HttpToolsProtocol):
        def __init__(
            self,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, Any],  # uvicorn's
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            super().__init__(config, server_state, app_state, _loop)
            self._head = 0
            self._in_head = True
            self._patience: asyncio.TimerHandle | None = None
            self._refused = False

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end_head()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._expect_head()

        def on_headers_complete(self) -> None:
            self._end_head()
            super().on_headers_complete()

        def data_received(self, data: bytes) -> None:
            if self._refused:
                return
            super().data_received(data)
            if self._in_head and not self._refused:
                # The parser keeps what it has of an unfinished header to itself.
                self._head += len(data)
                if self._head > limits.head:
                    told = f"A request's line and headers have at most {limits.head} bytes"
                    self._refuse(Refused(431, "headers_too_large", told))

        def send_400_response(self, msg: str) -> None:
            self._refuse(Refused(400, "invalid_http", msg))

        def _expect_head(self) -> None:
            self._head, self._in_head = 0, True
            if self._patience is None:
                self._patience = self.loop.call_later(limits.head_seconds, self._lose_patience)

        def _end_head(self) -> None:
            self._in_head = False
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

        def _lose_patience(self) -> None:
            self._patience = None
            if not self._in_head or self.transport.is_closing():
                return
            if self._head:
                told = f"The request's headers did not come within {limits.head_seconds:g} seconds"
                self._refuse(Refused(408, "request_timeout", told))
            else:
                self.transport.close()

        def _refuse(self, error: CapsetError) -> None:
            self._refused = True
            self._end_head()
            correlation = Ids().new()
            problem = problem_of(error, correlation)
            body = json.dumps(problem.plain()).encode()
            head = (
                f"HTTP/1.1 {problem.status} {problem.title}\r\n"
                f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
                f"x-correlation-id: {correlation}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

    return Bounded
