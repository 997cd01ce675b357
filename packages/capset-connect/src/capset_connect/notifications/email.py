"""E-mail: a message per event and recipient, with a link to the request's page behind sign-in (spec 9, N33)."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape
from importlib.util import find_spec
from time import monotonic
from typing import Any, Final

from capset.definitions.fields import checked_field, requiring, within
from capset.definitions.governance.channels import NotificationChannel
from capset.definitions.names import checked_list
from capset.definitions.secrets import Secrets
from capset.errors import DefinitionError
from capset.extras import install_command
from capset.stores.base import DeliveryStore
from capset_connect.notifications.senders import SECONDS, DeliveryError, Notice, Sender, secret_in, secret_place
from capset_connect.notifications.texts import Words, words_of

RECIPIENTS: Final = 50
_LOCAL: Final = r"[A-Za-z0-9_+\-'=~&#$*^{}?]+(?:\.[A-Za-z0-9_+\-'=~&#$*^{}?]+)*"
_DOMAIN: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
_ADDRESS: Final = re.compile(rf"(?=.{{3,254}}\Z){_LOCAL}@{_DOMAIN}")
_HOST: Final = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_STARTS: Final = 10.0
"""Seconds after which an attempt starts no further recipients; the next attempt continues there."""
_QUIT_SECONDS: Final = 2.0
_PORTS: Final = {"starttls": 587, "implicit": 465, "none": 25}
_POLICY: Final = SMTP.clone(cte_type="7bit", raise_on_defect=True)


def _address(field: str, address: object) -> str:
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise DefinitionError(f"{field} must be one bare address, such as ada@example.org; got {address!r:.80}")
    return address


def _recipients(field: str, addresses: Iterable[str]) -> tuple[str, ...]:
    recipients = tuple(
        dict.fromkeys(_address(f"{field}: a recipient", address) for address in checked_list(field, addresses))
    )
    if not 0 < len(recipients) <= RECIPIENTS:
        raise DefinitionError(f"{field} must be 1–{RECIPIENTS} addresses; got {len(recipients)}")
    return recipients


def _certificates(field: str, certificates: str | None) -> str | None:
    try:
        if certificates is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificates)
    except (OSError, ValueError, TypeError):  # an SSLError is an OSError
        raise DefinitionError(f"{field} must be certificates of authorities, as PEM text") from None
    return certificates


@dataclass(frozen=True, slots=True, kw_only=True)
class Email(NotificationChannel):
    """E-mail to a list of recipients. Requests cannot be decided by e-mail: a link leads to the request's page.

    It needs the extra ``email``. A password is sent over TLS only.
    """

    host: str = checked_field(
        requiring(
            "{} must be the name of a mail server", lambda host: isinstance(host, str) and bool(_HOST.fullmatch(host))
        )
    )
    """The mail server's host name or address."""
    from_address: str = checked_field(_address)
    """The sender's address."""
    recipients: Iterable[str] = checked_field(_recipients)
    """The recipients' addresses. Each gets a separate message."""
    port: int | None = checked_field(requiring("{} must be 1–65,535", within(int, 1, 65_535), optional=True), None)
    """The server's port: 587, or 465 with implicit TLS, or 25 without TLS, if left out."""
    tls: str = checked_field(
        requiring("{} must be starttls, implicit or none", lambda mode: mode in _PORTS), "starttls"
    )
    """``starttls``, ``implicit`` (TLS from the first byte), or ``none``."""
    certificates: str | None = checked_field(_certificates, None)
    """The certificate authorities to trust, as PEM text; the system's if left out."""
    username: str | None = checked_field(secret_place(optional=True), None)
    """The user to log in as: ``${NAME}``, which stands for a secret; no login if left out."""
    password: str | None = checked_field(secret_place(optional=True), None)
    """That user's password: ``${NAME}``, which stands for a secret."""
    timeout: float = checked_field(SECONDS, 20.0)
    """Seconds that an attempt may take for each recipient, at most 30."""

    def __post_init__(self) -> None:
        NotificationChannel.__post_init__(self)
        if (self.username is None) != (self.password is None):
            raise DefinitionError(
                f"channel {self.name!r}: username and password belong together: give both, or neither"
            )
        if self.tls == "none" and self.password is not None:
            raise DefinitionError(
                f"channel {self.name!r}: a password is sent over TLS only: set tls to starttls or implicit"
            )

    def sender(self, secrets: Secrets, deliveries: DeliveryStore) -> Sender:
        """Return the sender of this channel. Raises ``DefinitionError`` without the extra ``email``."""
        if find_spec("aiosmtplib") is None:
            raise DefinitionError(
                f"the channel {self.name!r} needs the extra 'email' of capset, which is not installed",
                hint=install_command("email"),
            )
        return _EmailSender(self, secrets)


class _EmailSender:
    def __init__(self, channel: Email, secrets: Secrets) -> None:
        self._channel = channel
        self._secrets = secrets

    async def send(self, notice: Notice) -> str | None:
        """Send to the recipients that earlier attempts did not reach. The receipt lists all that were reached."""
        channel, words = self._channel, words_of(notice)
        reached: list[str] = json.loads(notice.delivery.receipt or "[]")
        failure, end = "", monotonic() + _STARTS
        for number, recipient in enumerate(channel.recipients):
            if recipient in reached:
                continue
            if monotonic() > end:
                failure = failure or "not all recipients were reached in time"
                break
            message = letter(channel.from_address, recipient, f"{notice.delivery.id}.{number}", words, notice.url)
            try:
                await self._deliver(message, recipient)
                reached.append(recipient)
            except DeliveryError as error:
                failure = str(error)
        if failure:
            raise DeliveryError(failure, receipt=json.dumps(reached))
        return json.dumps(reached)

    async def _deliver(self, message: EmailMessage, recipient: str) -> None:
        from aiosmtplib import SMTP, SMTPException, SMTPRecipientsRefused, SMTPResponseException

        channel = self._channel
        login: dict[str, Any] = {}
        if channel.username is not None and channel.password is not None:
            login["username"] = await secret_in(channel.username, self._secrets)
            login["password"] = await secret_in(channel.password, self._secrets)
        client = SMTP(
            hostname=channel.host,
            port=channel.port or _PORTS[channel.tls],
            # The machine's host name is confidential, and looking it up can be slow.
            local_hostname=channel.from_address.partition("@")[2],
            use_tls=channel.tls == "implicit",
            start_tls=channel.tls == "starttls",
            tls_context=await self._trusted(),
            timeout=channel.timeout,
            **login,
        )
        try:
            async with asyncio.timeout(channel.timeout):
                await client.connect()
                await client.send_message(message, sender=channel.from_address, recipients=[recipient])
            with suppress(SMTPException, OSError, ValueError):
                async with asyncio.timeout(_QUIT_SECONDS):
                    await client.quit()
        except SMTPRecipientsRefused as error:
            code = error.recipients[0].code
            raise DeliveryError(f"the mail server rejected a recipient (code {code})") from None
        except SMTPResponseException as error:
            raise DeliveryError(f"the mail server rejected the message (code {error.code})") from None
        except (SMTPException, OSError, ValueError) as error:  # timeouts and TLS errors are OSErrors
            raise DeliveryError(f"sending through the mail server failed ({type(error).__name__})") from None
        finally:
            client.close()  # the library would wait for a stalled server to answer QUIT

    async def _trusted(self) -> ssl.SSLContext | None:
        if self._channel.tls == "none":
            return None
        return await asyncio.to_thread(ssl.create_default_context, cadata=self._channel.certificates)


def letter(sender: str, recipient: str, id: str, words: Words, url: str | None) -> EmailMessage:
    """Return a message in plain text and HTML. Untrusted text occurs only in its subject and its parts."""
    message = EmailMessage(_POLICY)
    message["From"] = sender
    message["To"] = recipient
    message["Subject"] = f"[capset] {words.title}"
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = f"<{id}@{sender.partition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(_text(words, url))
    message.add_alternative(_html(words, url), subtype="html")
    return message


def _text(words: Words, url: str | None) -> str:
    lines = [words.title, "", *(f"{name}: {value}" for name, value in words.facts), "", "Arguments:", words.arguments]
    if not words.is_whole:
        lines.append("(Not all of the arguments are shown here.)")
    if url is not None:
        lines += ["", f"{'Decide it' if words.is_open else 'See it'} after you have signed in: {url}"]
    return "\n".join(lines) + "\n"


def _html(words: Words, url: str | None) -> str:
    rows = "".join(
        f"<tr><th align=left>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in words.facts
    )
    cut = "" if words.is_whole else "<p>Not all of the arguments are shown here.</p>"
    link = ""
    if url is not None:
        link = (
            f'<p><a href="{escape(url)}">{"Decide it" if words.is_open else "See it"}</a> after you have signed in.</p>'
        )
    return (
        f"<!doctype html><html><body><h1>{escape(words.title)}</h1><table>{rows}</table>"
        f"<h2>Arguments</h2><pre>{escape(words.arguments)}</pre>{cut}{link}</body></html>\n"
    )
