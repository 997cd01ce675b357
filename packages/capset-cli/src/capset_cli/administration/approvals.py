"""The approval requests of a local database."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from capset.definitions.governance.approvals import Answer, ApprovalScope, ApprovalStatus
from capset.definitions.principals import Principal
from capset.evaluation.code import read_code_of
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.stores.base import ApprovalQuery
from capset.wire.approvals import (
    ApprovalArgumentsShape,
    ApprovalPageShape,
    ApprovalShape,
    approval_page_shape,
    approval_shape,
)


class LocalApprovals:
    """The methods of ``client.approvals``; the principal decides."""

    def __init__(self, kernel: Kernel, principal: Principal) -> None:
        self._service, self._principal = kernel.approvals, principal

    async def list(
        self,
        *,
        status: ApprovalStatus | None = None,
        session: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ApprovalPageShape:
        """List the requests that match all filters, newest first."""
        query = ApprovalQuery(self._principal.org, status, session, limit=limit, before=cursor)
        return await approval_page_shape(self._service.list, query)

    async def get(self, id: str) -> ApprovalShape:
        """Return a request, with its outcome. Raises ``NotFound``."""
        row = await self._service.get(id, org=self._principal.org)
        if row.code_hash is not None:  # to show the origin of the code, if it is installed here
            await read_code_of(Registry.installed().tools)
        return approval_shape(row)

    async def arguments(self, id: str) -> ApprovalArgumentsShape:
        """Return the arguments, masking only secrets that the tool's schema declares. The reading is recorded."""
        row = await self._service.get(id, org=self._principal.org)
        view = await self._service.show_arguments(row, by=self._principal)
        return ApprovalArgumentsShape(arguments=view.arguments, modified=view.modified)

    async def approve(
        self,
        id: str,
        *,
        scope: ApprovalScope = "once",
        arguments: Mapping[str, Any] | None = None,  # of the tool's own schema
        round: int | None = None,
        note: str | None = None,
    ) -> ApprovalShape:
        """Approve a call. ``arguments``, if given, replace all of the request's arguments."""
        answer = Answer(approved=True, scope=scope, arguments=arguments, note=note, round=round)
        return await self._decide(id, answer)

    async def reject(self, id: str, *, note: str | None = None) -> ApprovalShape:
        """Reject a call. Its caller can read the note."""
        return await self._decide(id, Answer(approved=False, note=note))

    async def _decide(self, id: str, answer: Answer) -> ApprovalShape:
        decided = await self._service.decide(id, answer, by=self._principal)
        return approval_shape(decided, partial(self._service.refusal, by=self._principal))
