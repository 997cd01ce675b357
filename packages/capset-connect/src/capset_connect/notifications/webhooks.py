"""Webhooks, signed as Standard Webhooks has it: an event is a POST, and a 2xx answer is its delivery (spec 9, N25)."""

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
"""How much of an answer is read, so that its connection ends in order; none of it is used."""
_LEAST_KEY: Final = 24
_GONE: Final = 410
_MAX_WAIT: Final = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook(NotificationChannel):
    """A webhook: events are sent to a URL as JSON, signed with a secret that both sides know.

    Redirects are not followed, and internal addresses are refused unless their hosts are in ``internal``.
    """

    url: str = checked_field(url_field)
    """Where events are sent, http or https."""
    secret: str = checked_field(secret_place())
    """The place of the secret that signs: ``${NAME}``. It is ``whsec_`` and base64 of 24 bytes or more."""
    internal: Iterable[str] = checked_field(hosts_field, ())
    """The internal hosts that may be requested, ``host`` or ``host:port``; others are refused."""
    timeout: float = checked_field(SECONDS, 10.0)
    """Seconds that an attempt may take, 30 at most."""

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
            await response.read(_ANSWER_BYTES, within=1.0)

    async def _signed(self, id: str, body: str) -> dict[str, str]:
        """Return the headers of a body at this moment: receivers refuse signatures that are minutes old."""
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
                f"the secret {self._channel.secret} is none: it is whsec_ and base64 of {_LEAST_KEY} bytes or more"
            ) from None
        return {"webhook-id": id, "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature}


def check_status(response: HttpResponse) -> None:
    """Raise ``DeliveryError`` for a status other than 2xx; 410 says that nothing is taken there any more."""
    status = response.status
    if 200 <= status < 300:
        return
    after = response.header("retry-after") or ""
    wait = min(int(after), _MAX_WAIT) if after.isascii() and after.isdigit() and len(after) < 9 else None
    if 300 <= status < 400:
        raise DeliveryError(f"the receiver answered {status}: redirects are not followed, name the new address")
    raise DeliveryError(f"the receiver answered {status}", is_final=status == _GONE, retry_after=wait)
