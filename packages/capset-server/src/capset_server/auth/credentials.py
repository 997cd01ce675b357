"""Credentials of open sessions: by what their callers act in them, and until when (spec 4, G54)."""

from __future__ import annotations

from time import monotonic
from typing import Final

from capset.errors import PermissionDenied, Unauthenticated
from capset.kernel.call.session import Session
from capset.kernel.revocation import FRESH_SECONDS, CurrentRows
from capset_server.auth.callers import REFUSED, Caller, Callers


async def check_tool(caller: Caller, session: Session, tool: str) -> None:
    """Raise ``InsufficientScope`` for a tool of a session that no scope of the caller names.

    It is for answers whose head is sent before the call is made: the pipeline refuses such calls, too.
    """
    if caller.tools is not None:
        installed = (await session.current()).tools.get(tool)
        caller.check_tool(None if installed is None else installed.own_name)


class SessionCredential:
    """The key or the token of a session's caller, and the session's agent: a ``Credential`` of the kernel's.

    Args:
        callers: who look the key up.
        current: where the agent is looked up.
        caller: the caller.
        agent: the id of the session's agent; only a stored one can be archived.
        authorization: the header with the caller's token, where a request waits for long. A turn has none: it goes on
            when its caller's token has expired.
    """

    def __init__(
        self, callers: Callers, current: CurrentRows, caller: Caller, agent: str | None, authorization: str = ""
    ) -> None:
        self._callers = callers
        self._current = current
        self._caller = caller
        self._agent = agent
        self._authorization = authorization
        self._is_for_all: Final = caller.tools is None
        self._until = 0.0

    @property
    def admits_all(self) -> bool:
        """Whether it was found valid a moment ago, and is for every tool."""
        return self._is_for_all and monotonic() < self._until

    def check_tool(self, own_name: str | None) -> None:
        """Raise ``InsufficientScope`` for a tool that no scope of the caller names."""
        self._caller.check_tool(own_name)

    async def check(self, *, afresh: bool = False) -> None:
        """Raise ``Unauthenticated`` for a key or a token that is not valid, ``PermissionDenied`` for an archived agent.

        Raises ``StoreError`` if the store does not answer.
        """
        checked_at = monotonic()
        if checked_at < self._until and not afresh:
            return
        if self._caller.digest is not None and self._callers.anyone is None:
            checked_at = await self._callers.check_key(self._caller.digest, afresh=afresh)
        elif self._authorization and not await self._callers.knows(self._caller, self._authorization):
            raise Unauthenticated(REFUSED)
        if self._agent is not None:
            checked_at = min(checked_at, await self._check_agent(self._agent, afresh=afresh))
        self._until = checked_at + FRESH_SECONDS

    async def _check_agent(self, id: str, *, afresh: bool) -> float:
        checked_at, agent = await self._current.agent(self._caller.principal.org, id, afresh=afresh)
        if agent is not None and agent.status != "active":
            raise PermissionDenied(
                f"Permission denied: the agent {id!r} is archived, and its sessions call nothing",
                hint=f'restore it: PATCH /v1/agents/{id} with {{"status": "active"}}',
            )
        return checked_at
