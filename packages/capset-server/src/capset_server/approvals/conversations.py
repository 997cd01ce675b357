"""The conversation that led to an approval request, for its approvers (spec 5, P60)."""

from __future__ import annotations

from typing import Final

from capset.definitions.governance.approvals import ApprovalRow
from capset.errors import StateError
from capset.kernel.kernel import Kernel
from capset.stores.base import AuditQuery, EventStore, MessageRow
from capset.wire.approvals import ApprovalConversationShape, ConversationEntryShape, conversation_entries
from capset.wire.pages import PAGE_BYTES
from capset_server.auth.callers import Caller
from capset_server.service import Service

MESSAGES: Final = 20
"""The number of messages before the request that an approver may read."""
_ENTRIES: Final = 100


async def read_conversation(service: Service, caller: Caller, row: ApprovalRow) -> ApprovalConversationShape:
    """Return the last messages before a request, and record in an act who read them.

    A call outside a turn in a session without messages has none; then nothing is recorded.
    """
    kernel = service.kernel
    events = kernel.store.events
    try:
        last = await _last_message(kernel, events, row)
    except StateError as error:
        if error.status != 404:
            raise
        last = 0  # the session exists only in this process and has no messages
    first = max(0, last - MESSAGES)
    items: list[ConversationEntryShape] = []
    after = first
    while after < last:
        page = await events.messages(row.session, after=after, limit=last - after, max_bytes=PAGE_BYTES)
        if not page.items:
            break
        for message in page.items:
            items += conversation_entries(message, kernel.redactor)
        after = page.items[-1].seq
    items = items[-_ENTRIES:]
    if items:
        about = {"id": row.id, "messages": [items[0].seq, items[-1].seq]}
        act = kernel.act(
            "conversation.read",
            about,
            by=caller.principal,
            org=row.org,
            session=row.session,
            agent=row.agent,
            tool=row.tool,
            approval=row.id,
        )
        await kernel.audit.commit(act)  # first: what cannot be recorded is not shown
    return ApprovalConversationShape(items=items, earlier=items[0].seq - 1 if items else 0)


async def _last_message(kernel: Kernel, events: EventStore, row: ApprovalRow) -> int:
    """Return the number of the last message that led to a request, 0 if there is none.

    The messages of the turn that made the call may be stored after the request, when the turn is suspended.
    """
    turn = await _turn(kernel, row)
    span = None if turn is None else await events.span(row.session, turn)
    if span is not None:
        return await _before(events, row, row.decided_at or row.expires_at, *span)
    count = (await events.messages(row.session, limit=1)).count
    return await _before(events, row, row.created_at, 1, count)


async def _turn(kernel: Kernel, row: ApprovalRow) -> str | None:
    """Return the correlation of the call: the id of its turn, if it was made in one."""
    await kernel.audit.flush()
    records = (await kernel.audit.query(AuditQuery(id=row.call, org=row.org or "", limit=1))).items
    return records[0].correlation if records else None


async def _before(events: EventStore, row: ApprovalRow, time: str, low: int, high: int) -> int:
    """Return the number of the last message in ``low``–``high`` by ``time``; ``low - 1`` if all are later."""
    low -= 1
    while low < high:
        middle = (low + high + 1) // 2
        message = await _message(events, row.session, middle)
        if message is not None and message.created_at <= time:
            low = middle
        else:
            high = middle - 1
    return low


async def _message(events: EventStore, session: str, seq: int) -> MessageRow | None:
    items = (await events.messages(session, after=seq - 1, limit=1)).items
    return items[0] if items else None
