"""Events as sent to channels, and their deliveries (spec 9, N25, N27)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, Final, Literal

from pydantic import Field
from pydantic_core import to_json

from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.channels import EventName
from capset.kernel.governance.redaction import redacted
from capset.stores.base import DeliveryQuery, DeliveryRow, DeliveryState, Page
from capset.wire.approvals import ApprovalShape, approval_shape
from capset.wire.pages import read_page
from capset.wire.shapes import PageShape, Shape

MAX_TEXT_CHARACTERS: Final = 1_000
"""The maximum length of texts in arguments sent to a channel, in characters. Longer ones are truncated, with a mark."""


class NotifiedRequestShape(Shape):
    """A request as it is when the event is sent, and the URL of its page, if the server knows its own address.

    Long texts in its arguments are truncated and end with `… [N more characters]`. Arguments that are still too large
    are replaced by `{"omitted": "N bytes"}`. `shortened` says whether anything was shortened; the page and
    `GET /v1/approvals/{id}` have everything.
    """

    request: ApprovalShape
    shortened: bool
    url: str | None = None


class NotificationShape(Shape):
    """The body of a webhook: the event, its time, and its subject."""

    type: EventName
    version: Literal[1] = 1
    timestamp: str = Field(description="When the event happened, ISO 8601 UTC.")
    data: NotifiedRequestShape


class DeliveryShape(Shape):
    """The delivery of an event to a channel. `id` is the header `webhook-id` of a webhook; times are ISO 8601 UTC.

    A `queued` delivery is sent at `due_at`, or is being sent until then. `error` is why the last attempt failed. A
    `failed` delivery is not retried automatically.
    """

    id: str
    channel: str
    event: str
    approval: str
    state: DeliveryState
    attempts: int
    created_at: str
    due_at: str
    ended_at: str | None = None
    error: str | None = None


class DeliveryPageShape(PageShape[DeliveryShape]):
    """A page of deliveries, and the cursor of the next page, if any."""


def notified_request(row: ApprovalRow, url: str | None) -> NotifiedRequestShape:
    """Return a request within the size limits for channels. Raises ``StoreError`` as ``approval_shape`` does."""
    request = approval_shape(row)
    short: dict[str, Any] = {name: _shortened(getattr(request, name)) for name in ("arguments", "modified")}
    short |= {name: redacted(getattr(request, name), longest=MAX_TEXT_CHARACTERS) for name in ("reason", "note")}
    is_short = any(value != getattr(request, name) for name, value in short.items())
    return NotifiedRequestShape(request=request.model_copy(update=short), shortened=is_short, url=url)


def notification_shape(delivery: DeliveryRow, event: EventName, row: ApprovalRow, url: str | None) -> NotificationShape:
    """Return the body of a webhook."""
    return NotificationShape(type=event, timestamp=delivery.created_at, data=notified_request(row, url))


def delivery_shape(row: DeliveryRow) -> DeliveryShape:
    """Return the wire shape of a delivery."""
    return DeliveryShape.model_validate(row, from_attributes=True)


async def delivery_page_shape(
    read: Callable[[DeliveryQuery], Awaitable[Page[DeliveryRow]]], query: DeliveryQuery
) -> DeliveryPageShape:
    """Return the wire shape of a page of deliveries."""
    items, next_cursor = await read_page(read, query, delivery_shape, attrgetter("id"))
    return DeliveryPageShape(items=items, next=next_cursor)


def _shortened(value: Any) -> Any:  # JSON data
    if value is None:
        return None
    short = redacted(value, longest=MAX_TEXT_CHARACTERS)
    if len(to_json(short)) <= 16 * 1024:  # bytes
        return short
    return {"omitted": f"{len(to_json(value))} bytes"}
