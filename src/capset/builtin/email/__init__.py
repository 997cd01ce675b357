"""``email``: one email to one allowed address, in text or HTML, over SMTP with TLS (spec 4, G32; spec 5, P17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from capset import Capability, Context, ToolError, tool
from capset.builtin.email.config import MAX_ADDRESS, EmailConfig, checked_address, is_allowed
from capset.builtin.email.delivery import Delivery
from capset.builtin.email.messages import MAX_SUBJECT, checked_body, checked_subject, letter

_USERNAME: Final = "SMTP_USERNAME"
_PASSWORD: Final = "SMTP_PASSWORD"  # noqa: S105  # a secret's name


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


@tool(effect="external", permissions={"email:send"}, limits="10/1h")
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
            "This recipient is not one of those whom email may be sent to from here; nothing was sent.",
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
        username, password = await ctx.secret(_USERNAME), await ctx.secret(_PASSWORD)
        login = username.get_secret_value().encode(), password.get_secret_value().encode()
    written = letter(config.sender, to, subject, body, html=html)
    await Delivery(config, login, ctx.correlation).deliver(config.host, config.sender, to, written.raw)
    return Sent(message_id=written.message_id, accepted=to)


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

__all__ = ["EmailConfig", "Sent", "email", "email_send"]
