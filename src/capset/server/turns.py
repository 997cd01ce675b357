"""Turns of agents on a server: who may have one continued, and who follows its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from capset.agents.hosts import CallerAway, NewTurn, NotHere
from capset.agents.turns import TurnService
from capset.definitions.hooks import Hooks
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.server.auth.callers import Caller
from capset.server.followers import FollowerLimit, Notifier
from capset.server.http.request_context import HttpRefusal, RequestLimits
from capset.stores.base import Begun, SessionRow

if TYPE_CHECKING:
    from capset.server.service import Service

ANYONE: Final = "anyone"
KEY: Final = "key"
BEARER: Final = "jwt"


class ServerTurns:
    """The turns that this server runs. ``bell`` notifies followers when an event was stored."""

    def __init__(self, kernel: Kernel, service: Service, *, limits: RequestLimits) -> None:
        """``limits`` are those of requests: of them, ``followers``, ``turns`` and ``turn_seconds``."""
        self.bell = Notifier()
        self.followers = FollowerLimit(limits.followers)
        self._kernel = kernel
        self._service = service
        self.turns = TurnService(kernel, self, seconds=limits.turn_seconds, most=limits.turns, stored=self.bell.ring)

    def check_runner(self) -> None:
        """Raise ``HttpRefusal`` (501) if this server cannot run turns of agents."""
        if self._kernel.generator is None:
            raise HttpRefusal(
                501,
                "no_runner",
                "This server runs no agents: start it with a model (capset serve --model NAME), or give its kernel a "
                "generator runner",
            )

    async def begin(
        self, caller: Caller, row: SessionRow, content: Any, correlation: str
    ) -> Begun:  # content is any JSON
        """Begin a turn of the agent of a caller's session; see ``TurnService.begin``."""

        async def open_session(hooks: Hooks) -> Session:
            return await self._service.open_turn(caller, row, hooks)

        new = NewTurn(content, correlation, self.described(caller), open_session)
        return await self.turns.begin(row, new)

    async def reopen(self, row: SessionRow, caller: Mapping[str, Any], hooks: Hooks) -> Session:
        """Return the session of a turn that is continued: the caller's key must still be valid.

        Raises ``Unauthenticated`` for a key that is not, ``CallerAway`` for a caller with a token, and ``NotHere`` for
        one that this server does not know, such as a command line's.
        """
        return await self._service.open_turn(await self.find_caller(caller), row, hooks)

    async def find_caller(self, described: Mapping[str, Any]) -> Caller:
        """Return a caller from its description, as it is now. Raises as ``reopen`` does."""
        callers = self._service.callers
        if described.get("kind") == KEY:
            return await callers.by_digest(str(described.get("digest")))
        if described.get("kind") == ANYONE and callers.anyone is not None:
            return callers.anyone
        if described.get("kind") == BEARER:
            raise CallerAway
        raise NotHere

    async def resume(self, caller: Caller, row: SessionRow, turn: str) -> None:
        """Continue a turn on behalf of a caller; see ``TurnService.resume``."""

        async def open_session(hooks: Hooks) -> Session:
            return await self._service.open_turn(caller, row, hooks)

        await self.turns.resume(row, turn, self.described(caller), open_session)

    def described(self, caller: Caller) -> Mapping[str, Any]:
        """Return from what a caller is known again, as JSON data."""
        if caller.key is None:
            return {"kind": ANYONE}
        if caller.key_id is None:
            return {"kind": BEARER, "issuer": caller.key}
        return {"kind": KEY, "id": caller.key, "digest": caller.digest}
