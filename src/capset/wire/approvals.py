"""Requests for approvals on the wire (spec 4, G16, G17; spec 5, P12)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from capset.definitions.approvals import ApprovalRow, ApprovalScope, ApprovalStatus
from capset.errors import StoreError
from capset.evaluation.code import known_code
from capset.kernel.governance.audit import redacted
from capset.stores.base import ApprovalPage, ApprovalQuery
from capset.wire.agents import Text
from capset.wire.fingerprints import CodeShape, code_shape
from capset.wire.pages import read_page
from capset.wire.shapes import Shape


class ApproveInput(Shape):
    """For what a call is approved: ``once``, or for the ``session`` as long as tool and arguments stay the same.

    ``arguments`` take the place of those that were asked for, whole, and for one call only. ``note`` says why.
    """

    model_config = ConfigDict(strict=True)

    scope: ApprovalScope = "once"
    arguments: dict[str, Any] | None = None  # of the tool's own schema
    note: Annotated[Text, Field(max_length=1_000)] | None = None


class RejectInput(Shape):
    """``note`` says why; the caller reads it."""

    model_config = ConfigDict(strict=True)

    note: Annotated[Text, Field(max_length=1_000)] | None = None


class ApprovalShape(Shape):
    """A request, and what became of it; ``used`` is an approval for one call that was made.

    ``arguments`` are whole but for secrets, and ``digest`` tells the exact ones; ``modified`` are those that the
    approver put in their place. ``call`` is the id of the attempt's record. Principals are ``kind:id``; times are ISO
    8601 UTC. ``reason`` is why it has to be approved, ``note`` what the approver said. ``code_hash`` is the hash of
    the tool's code as it was, ``code`` whose that is, where this process runs it too.
    """

    id: str
    status: ApprovalStatus
    scope: ApprovalScope
    tool: str
    arguments: Any  # JSON data of the tool's own schema
    modified: Any = None
    reason: str
    policies: list[str]
    principal: str
    on_behalf_of: str | None = None
    session: str
    agent: str
    call: str
    digest: str
    tool_hash: str
    runtime_hash: str
    code_hash: str | None = None
    code: CodeShape | None = None
    created_at: str
    expires_at: str
    decided_by: str | None = None
    decided_at: str | None = None
    note: str | None = None


class ApprovalPageShape(Shape):
    """Some requests, and the cursor of the next page, if there is one."""

    items: list[ApprovalShape]
    next: str | None = None


def approval_shape(row: ApprovalRow) -> ApprovalShape:
    """Return the wire shape of a request. Raises ``StoreError`` if its stored data is not JSON."""
    try:
        parsed = {name: json.loads(getattr(row, name)) for name in ("arguments", "policies")}
        modified = None if row.modified is None else redacted(json.loads(row.modified), longest=None)
    except (ValueError, RecursionError):
        raise StoreError(f"the request {row.id} was changed: its arguments or policies are not JSON") from None
    told = {name: getattr(row, name) for name in ApprovalShape.model_fields if name != "code"}
    code = known_code(row.code_hash)
    return ApprovalShape.model_validate({**told, **parsed, "modified": modified, "code": code and code_shape(code)})


async def approval_page_shape(
    read: Callable[[ApprovalQuery], Awaitable[ApprovalPage]], query: ApprovalQuery
) -> ApprovalPageShape:
    """Return the wire shape of a page of requests."""
    items, following = await read_page(read, query, approval_shape, attrgetter("id"))
    return ApprovalPageShape(items=items, next=following)
