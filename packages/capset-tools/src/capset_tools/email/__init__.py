"""``email``: sends one email to one allowed address, in text or HTML, over SMTP with TLS (spec 4, G32; spec 5, P17)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from email.errors import MessageError
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from capset import Capability, Context, ToolError, tool
from capset.ext import install_command
from capset_tools.email.config import MAX_ADDRESS, EmailConfig, checked_address, is_allowed
from capset_tools.email.messages import MAX_SUBJECT, checked_body, checked_subject, dotted, letter

if TYPE_CHECKING:
    from aiosmtplib import SMTP

__all__ = ["EmailConfig", "Sent", "email", "email_send"]

Step = Literal[
    "connecting", "encrypting", "logging in", "naming the sender", "naming the recipient", "offering", "sending"
]
"""A step of a delivery. Only in the last one can the server have received the email."""
_QUIT_SECONDS: Final = 2.0
_GO_ON: Final = 354
_TAKEN: Final = 250
_TOLD: Final[dict[Step, tuple[str, str]]] = {
    "connecting": ("email_unreachable", "The mail server cannot be reached"),
    "encrypting": ("email_not_encrypted", "There is no trusted encryption to the mail server"),
    "logging in": ("email_login_refused", "The mail server cannot be logged in to"),
    "naming the sender": ("email_sender_refused", "The mail server does not take the sender"),
    "naming the recipient": ("email_recipient_refused", "The mail server does not take this recipient"),
    "offering": ("email_refused", "The mail server does not take this email"),
    "sending": ("email_refused", "The mail server does not take this email"),
}
_UNKNOWN: Final = (
    "The mail server did not confirm the email: it may have been sent or not, so do not send it again by yourself."
)
_log = logging.getLogger("capset.builtin.email")

_USERNAME: Final = "SMTP_USERNAME"
_PASSWORD: Final = "SMTP_PASSWORD"  # noqa: S105  # a secret's name


class Delivery:
    """One email's delivery. Call ``deliver`` once; failures are not retried, since the email may have been sent."""

    def __init__(self, config: EmailConfig, login: tuple[bytes, bytes] | None, correlation: str) -> None:
        self._config = config
        self._login = login
        self._correlation = correlation
        self._step: Step = "connecting"

    async def deliver(self, host: str, sender: str, recipient: str, raw: bytes) -> None:
        """Deliver an email with exactly this envelope.

        Raises ``ToolError``: 400 if the server refused the recipient or the email for good, 504 if it is unknown
        whether the email was sent, else 503.
        """
        try:
            from aiosmtplib import SMTP, SMTPException, SMTPResponseException
        except ImportError:
            raise ToolError(
                "Email needs the extra 'email' of capset, which is not installed; nothing was sent.",
                code="email_not_installed",
                status=503,
                hint=install_command("email"),
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
        # Timeouts and TLS errors are OSErrors; an unreadable response may raise a ValueError.
        except (SMTPException, OSError, ValueError) as error:
            if isinstance(error, SMTPResponseException):
                await _leave(client)
            raise self._log_as_tool_error(error) from None
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
        await self._hand_over(client, raw)

    async def _hand_over(self, client: SMTP, raw: bytes) -> None:
        """Send the message body. aiosmtplib's own method does not report whether the server was ready to accept it."""
        from aiosmtplib import SMTPDataError, SMTPServerDisconnected

        self._step = "offering"
        answer = await client.execute_command(b"DATA")
        if answer.code != _GO_ON:
            raise SMTPDataError(answer.code, answer.message)
        if client.protocol is None:
            raise SMTPServerDisconnected("Connection lost")
        client.protocol.write(dotted(raw))
        self._step = "sending"
        answer = await client.protocol.read_response()
        if answer.code != _TAKEN:
            raise SMTPDataError(answer.code, answer.message)

    def _log_as_tool_error(self, error: Exception) -> ToolError:
        """Log a failure and return its error, with the step and the server's status code, but none of its text."""
        from aiosmtplib import SMTPResponseException

        step = self._step
        if step != "sending" and isinstance(error.__cause__, ssl.SSLError):
            step = "encrypting"
        number = error.code if isinstance(error, SMTPResponseException) and 400 <= error.code <= 599 else None
        kind = type(error).__name__
        _log.warning("email: %s failed: %s %s, correlation %s", step, kind, number or "", self._correlation)
        if step == "sending" and number is None:
            unconfirmed = ToolError(_UNKNOWN, code="email_unconfirmed", status=504)
            unconfirmed.answer_lost = True
            return unconfirmed
        code, words = _TOLD[step]
        why = f" (it says {number})" if number else " (it took too long)" if isinstance(error, TimeoutError) else ""
        is_final = step in ("naming the recipient", "offering", "sending") and number is not None and number >= 500
        return ToolError(f"{words}{why}; nothing was sent.", code=code, status=400 if is_final else 503)


def _trusting(certificates: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=certificates)


async def _leave(client: SMTP) -> None:
    """Send QUIT. Failures are ignored, since by then the email was either sent or not."""
    from aiosmtplib import SMTPException

    with suppress(SMTPException, OSError, ValueError):
        async with asyncio.timeout(_QUIT_SECONDS):
            await client.quit()


def _by(check: Callable[[str], str]) -> AfterValidator:
    def checked(text: str) -> str:
        try:
            return check(text)
        except ValueError as error:
            raise PydanticCustomError("email_misfit", "{words}", {"words": str(error)}) from None

    return AfterValidator(checked)


Recipient = Annotated[str, Field(max_length=MAX_ADDRESS, json_schema_extra={"format": "email"}), _by(checked_address)]
Subject = Annotated[str, Field(max_length=MAX_SUBJECT), _by(checked_subject)]
Body = Annotated[str, _by(checked_body)]


class Sent(TypedDict):
    message_id: Annotated[str, Field(description="The email's own id, as its header Message-ID has it.")]
    accepted: Annotated[str, Field(description="The address for which the mail server took it.")]


@tool(effect="external", permissions={"email:send"}, limits="10/1h", argument_bytes=16 * 1024 * 1024)
async def email_send(ctx: Context, to: Recipient, subject: Subject, body: Body, html: bool = False) -> Sent:
    """Send one email to one person. Use it when somebody outside of this conversation should read something.

    Only recipients that the host allows get any. What was sent cannot be taken back.

    Args:
        to: The recipient's address alone, such as ada@example.org; another recipient needs another call.
        subject: What it is about, in one line.
        body: All of its text, or all of its HTML.
        html: Whether the body is HTML; a text for those who read without HTML is made of it.
    """
    config = ctx.config(email)
    if config.host is None or config.sender is None or not is_allowed(to, config.recipients):
        raise ToolError(
            "Email may not be sent to this recipient from here; nothing was sent.",
            code="email_recipient_not_allowed",
            status=403,
            hint="the recipients of the capability's config name addresses and whole domains",
        )
    if (size := len(body.encode())) > config.max_body:
        raise ToolError(
            f"The body should have at most {config.max_body:,} bytes; it has {size:,}. Nothing was sent.",
            code="email_too_large",
            status=413,
        )
    login = None
    if config.login:
        login = await _secret(ctx, _USERNAME), await _secret(ctx, _PASSWORD)
    try:
        message = letter(config.sender, to, subject, body, html=html)
    except (RuntimeError, MessageError) as error:
        _log.warning("email: the message cannot be composed: %r, correlation %s", error, ctx.correlation)
        raise ToolError(
            "The email cannot be composed; nothing was sent.", code="email_not_written", status=500
        ) from None
    await Delivery(config, login, ctx.correlation).deliver(config.host, config.sender, to, message.raw)
    return Sent(message_id=message.message_id, accepted=to)


async def _secret(ctx: Context, name: str) -> bytes:
    try:
        return (await ctx.secret(name)).get_secret_value().encode(errors="surrogatepass")
    except ToolError as error:
        raise ToolError(
            f"{error.message}; nothing was sent.", code=error.code, status=error.status, hint=error.hint
        ) from None


email: Capability[None, EmailConfig] = Capability(
    "email",
    title="Email",
    description="Sends email to recipients that the host allows, over SMTP with TLS.",
    icon="mail",
    category="Communication",
    risk="high",
    instructions=(
        "Send email with `email_send` only when you were asked to, or when your task plainly needs it. Each goes to "
        "one address and cannot be taken back: check the address and the text before. Where it is not known whether an "
        "email was sent, say so, and do not send it again by yourself."
    ),
    tools=[email_send],
    config=EmailConfig,
    secrets=[_USERNAME, _PASSWORD],
)
