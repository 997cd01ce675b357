"""Senders, each for the notices of one channel, and the fields that declarations of channels share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from capset.definitions.fields import Check, requiring, within
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.channels import EventName, NotificationChannel
from capset.definitions.secrets import Secrets
from capset.errors import DefinitionError, ToolError
from capset.net.addresses import HostAllowlist
from capset.net.urls import parse_url
from capset.stores.base import DeliveryRow, DeliveryStore
from capset_connect.declarations import SECRET

AT_ONCE: Final = 4
"""The maximum number of concurrent deliveries per channel and process."""
SECONDS: Final = requiring("{} must be a number of seconds from 1 to 30", within((int, float), 1, 30))


@dataclass(frozen=True, slots=True)
class Notice:
    """A delivery, its event and request, and the URL of the request's page, if known."""

    delivery: DeliveryRow
    event: EventName
    request: ApprovalRow
    url: str | None


class DeliveryError(Exception):
    """Raised for an attempt that failed; its text gives the reason, without anything that the receiver sent.

    ``is_final``: another attempt would not help. ``retry_after``: seconds that the receiver asked to wait. ``receipt``:
    what was already delivered, for the next attempt.
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
        """Send a notice, possibly after earlier attempts, and return its receipt, if there is one.

        Raises ``DeliveryError``, and ``ToolError`` for a host that cannot be reached.
        """
        ...


class SendingChannel(Protocol):
    """A channel that has a sender."""

    def sender(self, secrets: Secrets, deliveries: DeliveryStore) -> Sender:
        """Return the sender of this channel."""
        ...


def sender_of(channel: NotificationChannel, secrets: Secrets, deliveries: DeliveryStore) -> Sender:
    """Return the sender of a channel. Raises ``DefinitionError`` if it has none."""
    make = getattr(channel, "sender", None)
    if make is None:
        raise DefinitionError(f"the channel {channel.name!r} has no sender", hint="make it a Webhook, Slack or Email")
    sender: Sender = make(secrets, deliveries)
    return sender


async def secret_in(place: str, secrets: Secrets) -> str:
    """Return the secret that ``${NAME}`` stands for. Raises ``DeliveryError`` if it is not set."""
    match = SECRET.fullmatch(place)
    value = None if match is None else await secrets.get(match[1])
    if match is None or not value:
        raise DeliveryError(f"the secret {match and match[1]!r} is not set")
    return value


def secret_place(*, optional: bool = False) -> Check:
    """Return the check of a ``${NAME}`` field. Its error does not quote the value, which may be the secret itself."""

    def check(field: str, place: object) -> object:
        if place is None and optional:
            return None
        if not isinstance(place, str) or not SECRET.fullmatch(place):
            raise DefinitionError(f"{field} must be ${{NAME}}, which stands for a secret, never the secret itself")
        return place

    return check


def url_field(field: str, url: object) -> str:
    """Return a valid URL. Raises ``DefinitionError``, without quoting the URL: it may contain a token."""
    if not isinstance(url, str):
        raise DefinitionError(f"{field} must be a URL")
    try:
        parse_url(url)
    except ToolError as error:
        raise DefinitionError(f"{field}: {error.message}") from None
    return url


def hosts_field(field: str, entries: Iterable[str]) -> tuple[str, ...]:
    """Return the internal hosts that may be requested. Raises ``DefinitionError``."""
    if isinstance(entries, str | Mapping):
        raise DefinitionError(f"{field} must be a list of hosts")
    hosts = tuple(entries)
    HostAllowlist.parse(hosts)
    return hosts
