"""What can be configured of email: the server, the sender, and who may get any."""

from __future__ import annotations

import ssl
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from capset.builtin.email.addresses import checked_address, checked_entry

_PORTS: Final = {"starttls": 587, "implicit": 465, "none": 25}


def _checked_certificates(text: str) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (OSError, ValueError):  # an SSLError is an OSError
        raise ValueError("certificates of authorities were expected, as PEM text") from None
    return text


class EmailConfig(BaseModel):
    """What can be configured of email, by ``email.with_config(EmailConfig(…))``. As it is by default, nobody gets any.

    A password goes over TLS only: ``tls="none"`` needs ``login=False``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,253}$")] | None = Field(
        default=None, description="The mail server's name or address."
    )
    port: int | None = Field(
        default=None, ge=1, le=65_535, description="Its port: 587, or 465 with implicit TLS, or 25 without TLS."
    )
    tls: Literal["starttls", "implicit", "none"] = Field(
        default="starttls", description="TLS by STARTTLS, from the first byte on, or not at all."
    )
    certificates: Annotated[str, AfterValidator(_checked_certificates)] | None = Field(
        default=None, description="The authorities to trust, as PEM text; those of the system if left out."
    )
    login: bool = Field(
        default=True, description="Whether to log in, with the secrets SMTP_USERNAME and SMTP_PASSWORD."
    )
    sender: Annotated[str, AfterValidator(checked_address)] | None = Field(
        default=None, description="The one address that all email comes from."
    )
    recipients: tuple[Annotated[str, AfterValidator(checked_entry)], ...] = Field(
        default=(), description="Who may get email: addresses, and @domain for all of exactly that domain."
    )
    connect_timeout: float = Field(
        default=10, gt=0, le=300, description="Seconds until the server has greeted, and TLS has begun."
    )
    timeout: float = Field(default=60, gt=0, le=600, description="Seconds for everything after that.")
    max_body: int = Field(default=262_144, ge=1, le=10_485_760, description="Bytes that a body may have, in UTF-8.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.recipients and (self.host is None or self.sender is None):
            raise ValueError("where there are recipients, a host and a sender are needed")
        if self.tls == "none" and self.login:
            raise ValueError("a password goes over TLS only: choose another tls, or login=False")
        return self

    @property
    def port_used(self) -> int:
        """The port, as it was given or by the kind of TLS."""
        return self.port or _PORTS[self.tls]
