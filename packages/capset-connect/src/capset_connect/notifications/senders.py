"""Senders: each sends the notices of one channel; and the fields that declarations of channels share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from capset.definitions.fields import Check, requiring, within
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.channels import EventName, NotificationChannel
from capset.definitions.secrets import Secrets
from capset.errors import DefinitionError, ToolError
from capset.net.addresses import Allowed
from capset.net.urls import read_url
from capset.stores.base import DeliveryRow, DeliveryStore
from capset_connect.declarations import SECRET

AT_ONCE: Final = 4
"""How many deliveries of a channel a process sends at once."""
SECONDS: Final = requiring("{} must be a number of seconds from 1 to 30", within((int, float), 1, 30))


@dataclass(frozen=True, slots=True)
class Notice:
    """A delivery, the event and the request that it tells of, and the address of the request's page, if it is known."""

    delivery: DeliveryRow
    event: EventName
    request: ApprovalRow
    url: str | None


class DeliveryError(Exception):
    """Raised for an attempt that failed; its text says why, without anything that the receiver sent.

    ``is_final``: another attempt would not help. ``retry_after``: seconds that the receiver asked to wait. ``receipt``
    is what was done of it, for the next attempt.
    """

    def __init__(
        self, message: str, *, is_final: bool = False, retry_after: float | None = None, receipt: str | None = None
    ) -> None:
        super().__init__(message)
        self.is_final = is_final
        self.retry_after = retry_after
        self.receipt = receipt


class Sender(Protocol):
    """Sends the notices of one channel."""

    async def send(self, notice: Notice) -> str | None:
        """Send a notice, perhaps for the second time, and return the receipt of it, if there is one.

        Raises ``DeliveryError``, and ``ToolError`` for a host that cannot be reached.
        """
        ...


class SendingChannel(Protocol):
    """A channel of a kind that can be sent."""

    def sender(self, secrets: Secrets, deliveries: DeliveryStore) -> Sender:
        """Return the sender of this channel."""
        ...


def sender_of(channel: NotificationChannel, secrets: Secrets, deliveries: DeliveryStore) -> Sender:
    """Return the sender of a channel. Raises ``DefinitionError`` for a channel of no kind."""
    make = getattr(channel, "sender", None)
    if make is None:
        raise DefinitionError(
            f"the channel {channel.name!r} is of no kind that can be sent", hint="make it a Webhook, Slack or Email"
        )
    sender: Sender = make(secrets, deliveries)
    return sender


async def secret_in(place: str, secrets: Secrets) -> str:
    """Return the secret that a ``${NAME}`` stands for. Raises ``DeliveryError`` if it is not set."""
    match = SECRET.fullmatch(place)
    value = None if match is None else await secrets.get(match[1])
    if match is None or not value:
        raise DeliveryError(f"the secret {match and match[1]!r} is not set")
    return value


def secret_place(*, optional: bool = False) -> Check:
    """Return the check of the place of a secret. Its error does not quote what came: that may be the secret itself."""

    def check(field: str, place: object) -> object:
        if place is None and optional:
            return None
        if not isinstance(place, str) or not SECRET.fullmatch(place):
            raise DefinitionError(f"{field} must be ${{NAME}}, the place of a secret, never the secret itself")
        return place

    return check


def url_field(field: str, url: object) -> str:
    """Return a URL that can be requested. Raises ``DefinitionError``, without quoting it: it may hold a token."""
    if not isinstance(url, str):
        raise DefinitionError(f"{field} must be a URL")
    try:
        read_url(url)
    except ToolError as error:
        raise DefinitionError(f"{field}: {error.message}") from None
    return url


def hosts_field(field: str, entries: Iterable[str]) -> tuple[str, ...]:
    """Return the internal hosts that may be requested. Raises ``DefinitionError``."""
    if isinstance(entries, str | Mapping):
        raise DefinitionError(f"{field} must be a list of hosts")
    hosts = tuple(entries)
    Allowed.read(hosts)
    return hosts
