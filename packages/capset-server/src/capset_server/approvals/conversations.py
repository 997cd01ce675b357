"""The conversation that led to a request for an approval, for those who decide it (spec 5, P60)."""

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
"""The number of messages that an approver may read, the last ones before the request."""
_ENTRIES: Final = 100


async def read_conversation(service: Service, caller: Caller, row: ApprovalRow) -> ApprovalConversationShape:
    """Return the end of the conversation before a request. If there is any, an act says that it was read, and by whom.

    It is empty for a call outside a turn in a session without messages.
    """
    kernel = service.kernel
    events = kernel.store.events
    try:
        last = await _last_message(kernel, events, row)
    except StateError as error:
        if error.status != 404:
            raise
        last = 0  # the session is one of this process only, and has no messages
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
    """Return the correlation of the call, which is the id of its turn if it was made in one."""
    await kernel.audit.flush()
    records = (await kernel.audit.query(AuditQuery(id=row.call, org=row.org or "", limit=1))).items
    return records[0].correlation if records else None


async def _before(events: EventStore, row: ApprovalRow, time: str, low: int, high: int) -> int:
    """Return the number of the last message in a range that is not later than a time, ``low - 1`` if all are."""
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
