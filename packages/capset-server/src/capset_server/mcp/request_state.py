"""The state of a call between its rounds: sealed for the client that carries it (spec 7, M12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    InvalidRequestState,
    RequestStateBoundary,
    RequestStateSecurity,
)
from mcp_types.methods import INPUT_REQUIRED_METHODS, is_input_required

from capset_server.auth.signing_keys import KeySource
from capset_server.mcp.exchanges import Exchange

STATE_SECONDS: Final = 600.0
"""How long a person may take to answer."""
_AUDIENCE: Final = "capset"

Asked = ServerRequestContext[dict[str, Any], Any]


def seal_states(exchange: Callable[[], Exchange], keys: KeySource) -> ServerMiddleware[dict[str, Any]]:
    """Return middleware that seals outgoing states, and accepts only its own states.

    A state is encrypted with the newest key, and is valid for ten minutes, for the same identity, method, tool and
    arguments. Any other state is refused with ``INVALID_PARAMS``, before a handler sees it.
    """

    async def boundary(state: object = None) -> RequestStateBoundary:
        ring = await keys.get()
        if isinstance(state, str) and not _is_known(ring, state):
            ring = await keys.get(afresh=True)  # another server may have replaced the key
        security = RequestStateSecurity(
            keys=list(ring), ttl=STATE_SECONDS, bind_principal=lambda _: exchange().identity
        )
        return RequestStateBoundary(security, default_audience=_AUDIENCE)

    async def middleware(ctx: Asked, call_next: CallNext) -> HandlerResult:
        if ctx.method not in INPUT_REQUIRED_METHODS:
            return await call_next(ctx)
        if (state := (ctx.params or {}).get("requestState")) is not None:
            return await (await boundary(state))(ctx, call_next)
        result = await call_next(ctx)
        if not is_input_required(result):
            return result  # most calls need no key

        async def handler(_: Asked) -> HandlerResult:
            return result

        return await (await boundary())(ctx, handler)

    return middleware


def _is_known(keys: Sequence[bytes], state: str) -> bool:
    try:
        AESGCMRequestStateCodec(keys).unseal(state)
    except InvalidRequestState:
        return False
    return True
