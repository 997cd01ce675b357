"""The calls that await approval, and decisions on them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, Literal

from capset.definitions.governance.approvals import ApprovalScope, ApprovalStatus
from capset.wire.approvals import (
    ApprovalArgumentsShape,
    ApprovalConversationShape,
    ApprovalPageShape,
    ApprovalShape,
    DecisionsShape,
    PendingSummaryShape,
)
from capset_server.client.connection import LARGEST_PAGE, Connection, every, json_bytes, path_of


class ApprovalResource:
    """``client.approvals``; needs a key with the scope ``capset:approve``, for the requests of its organisation.

    With ``capset:call`` alone, the key can read the requests of the caller's own sessions, and decide none.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, id: str) -> ApprovalShape:
        """Return a request, with its outcome. Raises ``NotFound``."""
        return await self._connection.get(ApprovalShape, path_of("approvals", id))

    async def list(
        self,
        *,
        status: ApprovalStatus | None = None,
        session: str | None = None,
        tool: str | None = None,
        agent: str | None = None,
        principal: str | None = None,
        order: Literal["newest", "oldest"] = "newest",
        limit: int = 50,
        cursor: str | None = None,
    ) -> ApprovalPageShape:
        """List the requests that match all filters, the newest or the oldest first.

        ``principal`` includes its kind, as in ``user:ada``. ``limit`` is 1–200, ``cursor`` the ``next`` of the
        previous page. Raises ``PermissionDenied`` without ``session``, unless the key has the scope ``capset:approve``.
        """
        query = {
            "status": status,
            "session": session,
            "tool": tool,
            "agent": agent,
            "principal": principal,
            "order": order,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._connection.get(ApprovalPageShape, path_of("approvals"), query)

    async def summary(self) -> PendingSummaryShape:
        """Count the pending requests of the organisation, by their age."""
        return await self._connection.get(PendingSummaryShape, path_of("approvals", "summary"))

    def all(
        self,
        *,
        status: ApprovalStatus | None = None,
        session: str | None = None,
        tool: str | None = None,
        agent: str | None = None,
        principal: str | None = None,
    ) -> AsyncGenerator[ApprovalShape]:
        """Iterate over all matching requests, newest first, page by page."""
        return every(
            lambda cursor: self.list(
                status=status,
                session=session,
                tool=tool,
                agent=agent,
                principal=principal,
                limit=LARGEST_PAGE,
                cursor=cursor,
            )
        )

    async def conversation(self, id: str) -> ApprovalConversationShape:
        """Return the last messages before a request, and record that they were read. Raises ``NotFound``."""
        return await self._connection.get(ApprovalConversationShape, path_of("approvals", id, "conversation"))

    async def arguments(self, id: str) -> ApprovalArgumentsShape:
        """Return the arguments, with only the schema's declared secrets masked, and record that they were read.

        Raises ``NotFound``.
        """
        return await self._connection.get(ApprovalArgumentsShape, path_of("approvals", id, "arguments"))

    async def file(self, id: str, number: int) -> bytes:
        """Return a file that the arguments name, by its index in the request's ``files``, and record that it was read.

        Raises ``NotFound``, and ``Conflict`` if the file has changed since the approval was requested.
        """
        return (await self._connection.request("GET", path_of("approvals", id, "files", str(number)))).content

    async def approve(
        self,
        id: str,
        *,
        scope: ApprovalScope = "once",
        arguments: Mapping[str, Any] | None = None,  # of the tool's own schema
        round: int | None = None,
        note: str | None = None,
    ) -> ApprovalShape:
        """Approve a call; ``arguments``, if given, replace all of the request's arguments.

        If an earlier approver has replaced the arguments, pass the request's ``round`` to approve the new ones. The
        request stays ``pending`` until it has all approvals that it ``needs``. Raises ``NotFound``; ``Conflict`` if the
        request is no longer open, was changed, or was approved by the caller before; ``PermissionDenied`` for the
        caller's own requests, and for those that only others may approve by the rules for approvers.
        """
        decision = {"scope": scope, "arguments": arguments, "round": round, "note": note}
        return await self._decide(id, "approve", decision)

    async def reject(self, id: str, *, note: str | None = None) -> ApprovalShape:
        """Reject a call; its caller can read the note. Raises ``NotFound``, and ``Conflict`` as ``approve`` does."""
        return await self._decide(id, "reject", {"note": note})

    async def decide(
        self, answer: Literal["approve", "reject"], requests: Iterable[ApprovalShape], *, note: str | None = None
    ) -> DecisionsShape:
        """Approve each of several requests once, as it was read, or reject each; ``note`` is the reason of all.

        Each decision is recorded by itself. One that fails has an ``error`` among the outcomes, and affects no other.
        """
        selected = [
            {"id": request.id, "round": request.round} if answer == "approve" else {"id": request.id}
            for request in requests
        ]
        body = {"answer": answer, "requests": selected, **({} if note is None else {"note": note})}
        return await self._connection.send(DecisionsShape, "POST", path_of("approvals", "decisions"), json_bytes(body))

    async def _decide(self, id: str, answer: str, decision: Mapping[str, Any]) -> ApprovalShape:
        body = json_bytes({name: value for name, value in decision.items() if value is not None})
        return await self._connection.send(ApprovalShape, "POST", path_of("approvals", id, answer), body)
