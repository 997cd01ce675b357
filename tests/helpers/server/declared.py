"""Hold the answers of a server to the OpenAPI document: what each operation says that it may answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capset.wire.errors import MEDIA_TYPE
from capset_server.app import make_api
from capset_server.http.request_context import CLIENT_LEFT, KEY

_BY_NAME: Final = frozenset({401, 403, 404, 409, 412, 413, 415, 422, 429, 501, 503})
"""The errors that an operation declares by their status; all others are its ``default``."""


@dataclass
class Declared:
    """An application around another; ``missing`` tells of each answer that the document does not have."""

    app: ASGIApp
    missing: set[str] = field(default_factory=set[str])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._hold(scope, message)
            await send(message)

        await self.app(scope, receive, sent)

    def _hold(self, scope: Scope, answer: Message) -> None:
        method = "get" if scope["method"] == "HEAD" else scope["method"].lower()
        operation = _paths().get(scope[KEY].route, {}).get(method)
        if operation is None or answer["status"] == CLIENT_LEFT:
            return
        status, name, responses = answer["status"], operation["operationId"], operation["responses"]
        is_named = status < 400 or (status in _BY_NAME and (status != 413 or "requestBody" in operation))
        if str(status) not in responses and (is_named or "default" not in responses):
            self.missing.add(f"{name} answers {status}")
        media_type = dict(answer["headers"]).get(b"content-type", b"").decode()
        if status >= 400 and media_type != MEDIA_TYPE:
            self.missing.add(f"{name} answers {status} as {media_type}")


@cache
def _paths() -> dict[str, Any]:
    return make_api().state.document["paths"]
