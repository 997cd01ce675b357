"""Events on the wire as channels get them, and deliveries of them (spec 9, N25, N27)."""

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
from capset.wire.shapes import Shape

TEXT: Final = 1_000
"""The longest text among the arguments that a channel gets, in characters; others are cut, with a mark."""
ARGUMENTS: Final = 16 * 1024
"""The largest arguments that a channel gets, as JSON in bytes; in the place of others is a mark alone."""


class NotifiedRequestShape(Shape):
    """A request, as it stands when the event is sent, and the address of its page, if the server knows its own.

    Long texts among its arguments end with the mark `… [N more characters]`; arguments that are large even so are
    `{"omitted": "N bytes"}`. `shortened` says whether any were: the page and `GET /v1/approvals/{id}` have all of them.
    """

    request: ApprovalShape
    shortened: bool
    url: str | None = None


class NotificationShape(Shape):
    """The body of a webhook: the event, when it happened, and what it is about."""

    type: EventName
    version: Literal[1] = 1
    timestamp: str = Field(description="When it happened, ISO 8601 UTC.")
    data: NotifiedRequestShape


class DeliveryShape(Shape):
    """An event on its way to a channel. `id` is the header `webhook-id` of a webhook; times are ISO 8601 UTC.

    A `queued` one is sent at `due_at`, or is being sent until then; `error` is why the last attempt failed. One that
    has `failed` is not sent again by itself.
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


class DeliveryPageShape(Shape):
    """Some deliveries, and the cursor of the next page, if there is one."""

    items: list[DeliveryShape]
    next: str | None = None


def notified_request(row: ApprovalRow, url: str | None) -> NotifiedRequestShape:
    """Return a request within the bounds of what channels get. Raises ``StoreError`` as ``approval_shape`` does."""
    request = approval_shape(row)
    short: dict[str, Any] = {name: _shortened(getattr(request, name)) for name in ("arguments", "modified")}
    short |= {name: redacted(getattr(request, name), longest=TEXT) for name in ("reason", "note")}
    is_short = any(value != getattr(request, name) for name, value in short.items())
    return NotifiedRequestShape(request=request.model_copy(update=short), shortened=is_short, url=url)


def notification_shape(delivery: DeliveryRow, event: EventName, row: ApprovalRow, url: str | None) -> NotificationShape:
    """Return the body of a webhook."""
    return NotificationShape(type=event, timestamp=delivery.created_at, data=notified_request(row, url))


def delivery_shape(row: DeliveryRow) -> DeliveryShape:
    """Return the wire shape of a delivery."""
    return DeliveryShape.model_validate({name: getattr(row, name) for name in DeliveryShape.model_fields})


async def delivery_page_shape(
    read: Callable[[DeliveryQuery], Awaitable[Page[DeliveryRow]]], query: DeliveryQuery
) -> DeliveryPageShape:
    """Return the wire shape of a page of deliveries."""
    items, following = await read_page(read, query, delivery_shape, attrgetter("id"))
    return DeliveryPageShape(items=items, next=following)


def _shortened(value: Any) -> Any:  # JSON data
    if value is None:
        return None
    short = redacted(value, longest=TEXT)
    if len(to_json(short)) <= ARGUMENTS:
        return short
    return {"omitted": f"{len(to_json(value))} bytes"}
