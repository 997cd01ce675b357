"""Webhooks, signed as Standard Webhooks requires: an event is a POST, delivered by a 2xx response (spec 9, N25)."""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from capset.definitions.fields import checked_field
from capset.definitions.governance.channels import NotificationChannel
from capset.definitions.secrets import Secrets
from capset.extras import install_command
from capset.net.client import HttpClient
from capset.net.response import HttpResponse
from capset.stores.base import DeliveryStore
from capset.wire.deliveries import notification_shape
from capset_connect.notifications.senders import (
    SECONDS,
    DeliveryError,
    Notice,
    Sender,
    hosts_field,
    secret_in,
    secret_place,
    url_field,
)

_ANSWER_BYTES: Final = 16 * 1024
"""The maximum bytes read of a response, so that its connection closes cleanly. The body is not used."""
_LEAST_KEY: Final = 24
_GONE: Final = 410
_MAX_WAIT: Final = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook(NotificationChannel):
    """A webhook: events are sent to a URL as JSON, signed with a shared secret.

    Redirects are not followed, and internal addresses are refused unless their hosts are in ``internal``.
    """

    url: str = checked_field(url_field)
    """The URL that events are sent to, http or https."""
    secret: str = checked_field(secret_place())
    """The signing secret: ``${NAME}``, which stands for ``whsec_`` and the base64 of 24 bytes or more."""
    internal: Iterable[str] = checked_field(hosts_field, ())
    """The internal hosts that may be contacted, as ``host`` or ``host:port``; others are refused."""
    timeout: float = checked_field(SECONDS, 10.0)
    """Seconds that an attempt may take, at most 30."""

    def sender(self, secrets: Secrets, deliveries: DeliveryStore) -> Sender:
        """Return the sender of this webhook."""
        return _WebhookSender(self, secrets)


class _WebhookSender:
    def __init__(self, channel: Webhook, secrets: Secrets) -> None:
        self._channel = channel
        self._secrets = secrets
        self._http = HttpClient(allow=channel.internal)

    async def send(self, notice: Notice) -> None:
        body = notification_shape(notice.delivery, notice.event, notice.request, notice.url).model_dump_json()
        headers = await self._signed(notice.delivery.id, body)
        opened = self._http.open(
            "POST",
            self._channel.url,
            timeout=self._channel.timeout,
            headers={**headers, "content-type": "application/json", "user-agent": "capset-webhooks"},
            content=body.encode(),
            redirects=None,
        )
        async with opened as response:
            check_status(response)
            await response.read(_ANSWER_BYTES, seconds=1.0)

    async def _signed(self, id: str, body: str) -> dict[str, str]:
        """Return the headers of a body, signed now: receivers refuse signatures that are minutes old."""
        try:
            from standardwebhooks.webhooks import Webhook as Signer
        except ModuleNotFoundError:
            raise DeliveryError(f"webhooks need a package that is not installed: {install_command('server')}") from None
        now = datetime.now(UTC)
        secret = await secret_in(self._channel.secret, self._secrets)
        try:
            if not secret.startswith("whsec_") or len(binascii.a2b_base64(secret[6:])) < _LEAST_KEY:
                raise ValueError
            signature = Signer(secret).sign(id, now, body)
        except ValueError:  # binascii.Error is one
            raise DeliveryError(
                f"the secret {self._channel.secret} must be whsec_ and the base64 of {_LEAST_KEY} bytes or more"
            ) from None
        return {"webhook-id": id, "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature}


def check_status(response: HttpResponse) -> None:
    """Raise ``DeliveryError`` for a status other than 2xx. A 410 is final: the receiver accepts nothing more."""
    status = response.status
    if 200 <= status < 300:
        return
    after = response.header("retry-after") or ""
    wait = min(int(after), _MAX_WAIT) if after.isascii() and after.isdigit() and len(after) < 9 else None
    if 300 <= status < 400:
        raise DeliveryError(f"the receiver answered {status}: redirects are not followed; declare the new URL")
    raise DeliveryError(f"the receiver answered {status}", is_final=status == _GONE, retry_after=wait)
