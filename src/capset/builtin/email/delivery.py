"""Delivery to the mail server: one email, once, with errors that reveal nothing about the server (spec 4, G24)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from capset import ToolError
from capset.builtin.email.config import EmailConfig

if TYPE_CHECKING:
    from aiosmtplib import SMTP

Step = Literal["connecting", "encrypting", "logging in", "naming the sender", "naming the recipient", "sending"]
_QUIT_SECONDS: Final = 2.0
_TOLD: Final[dict[Step, tuple[str, str]]] = {
    "connecting": ("email_unreachable", "The mail server cannot be reached"),
    "encrypting": ("email_not_encrypted", "There is no trusted encryption to the mail server"),
    "logging in": ("email_login_refused", "The mail server cannot be logged in to"),
    "naming the sender": ("email_sender_refused", "The mail server does not take the sender"),
    "naming the recipient": ("email_recipient_refused", "The mail server does not take this recipient"),
    "sending": ("email_refused", "The mail server does not take this email"),
}
_UNKNOWN: Final = (
    "The mail server did not confirm the email: it may have been sent or not, so do not send it again by yourself."
)
_log = logging.getLogger("capset.builtin.email")


class Delivery:
    """The delivery of one email. ``deliver`` is called once; failures are not retried: some of it may have gone out."""

    def __init__(self, config: EmailConfig, login: tuple[bytes, bytes] | None, correlation: str) -> None:
        self._config = config
        self._login = login
        self._correlation = correlation
        self._step: Step = "connecting"

    async def deliver(self, host: str, sender: str, recipient: str, raw: bytes) -> None:
        """Deliver an email, with exactly this envelope. Raises ``ToolError``, 503 unless the server refused it."""
        try:
            from aiosmtplib import SMTP, SMTPException, SMTPResponseException
        except ImportError:
            raise ToolError(
                "Email needs the extra 'email', which is not installed: pip install 'capset[email]'",
                code="email_not_installed",
                status=503,
            ) from None
        config = self._config
        context = None if config.tls == "none" else await asyncio.to_thread(_trusting, config.certificates)
        client = SMTP(
            hostname=host,
            port=config.port_used,
            # The machine's own name is confidential, and looking it up can be slow.
            local_hostname=sender.partition("@")[2],
            use_tls=config.tls == "implicit",
            start_tls=False,
            tls_context=context,
            timeout=None,
        )
        try:
            async with asyncio.timeout(config.connect_timeout):
                await client.connect()
                if config.tls == "starttls":
                    self._step = "encrypting"
                    await client.starttls(tls_context=context)
            async with asyncio.timeout(config.timeout):
                await self._converse(client, sender, recipient, raw)
            await _leave(client)
        # Timeouts and TLS errors are OSErrors; an unreadable answer may raise a ValueError.
        except (SMTPException, OSError, ValueError) as error:
            if isinstance(error, SMTPResponseException):
                await _leave(client)
            raise self._told(error) from None
        finally:
            client.close()

    async def _converse(self, client: SMTP, sender: str, recipient: str, raw: bytes) -> None:
        if self._login is not None:
            self._step = "logging in"
            await client.login(*self._login)
        self._step = "naming the sender"
        await client.mail(sender)
        self._step = "naming the recipient"
        await client.rcpt(recipient)
        self._step = "sending"
        await client.data(raw)

    def _told(self, error: Exception) -> ToolError:
        """Return the error of a failure: the step and the server's status code, but none of its text."""
        from aiosmtplib import SMTPResponseException

        step: Step = "encrypting" if isinstance(error.__cause__, ssl.SSLError) else self._step
        number = error.code if isinstance(error, SMTPResponseException) and 400 <= error.code <= 599 else None
        kind = type(error).__name__
        _log.warning("email: %s failed: %s %s, correlation %s", step, kind, number or "", self._correlation)
        if step == "sending" and number is None:
            return ToolError(_UNKNOWN, code="email_unconfirmed", status=504)
        code, words = _TOLD[step]
        why = f" (it says {number})" if number else " (it took too long)" if isinstance(error, TimeoutError) else ""
        is_final = step in ("naming the recipient", "sending") and number is not None and number >= 500
        return ToolError(f"{words}{why}; nothing was sent.", code=code, status=400 if is_final else 503)


def _trusting(certificates: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=certificates)


async def _leave(client: SMTP) -> None:
    """Say goodbye; failures are ignored, since the email is already sent or not."""
    from aiosmtplib import SMTPException

    with suppress(SMTPException, OSError):
        async with asyncio.timeout(_QUIT_SECONDS):
            await client.quit()
