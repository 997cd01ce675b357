"""Configuration of email: the server, the sender, and the allowed recipients (spec 4, G32)."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

MAX_ADDRESS: Final = 254
"""Maximum characters of an address: RFC 5321's 256 for a path, without its angle brackets."""
_MAX_LOCAL: Final = 64
_PART: Final = r"[A-Za-z0-9_+\-'=~&#$*^{}?]+"
_LOCAL: Final = re.compile(rf"{_PART}(?:\.{_PART})*")
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_REFUSED: Final = (
    (
        re.compile(r"[^\x20-\x7e]"),
        "Input should be of visible ASCII characters; a domain of others is written as xn--…",
    ),
    (re.compile(r"[,;]"), "Input should be one address; each recipient needs a call of their own"),
    (re.compile(r'[<>()\[\]\\":]'), "Input should be a bare address, without name, quotes, comment, group or route"),
    (re.compile(r"[%!/|`]"), "Input should be an address without %, !, /, | and `, which some servers take for orders"),
)


def checked_address(text: str) -> str:
    """Validate an address, and return it with its domain in lower case.

    Raises ``ValueError``, whose message does not quote the address. The syntax is RFC 5321's ``Mailbox`` without quoted
    local parts and address literals, and without characters that mail servers have ever treated as routes, files or
    programs. Domains are ASCII: an internationalised one must be in its ``xn--`` form, so that no letter can pass for
    another.
    """
    if len(text) > MAX_ADDRESS:
        raise ValueError(f"Input should be an address of at most {MAX_ADDRESS} characters")
    for pattern, words in _REFUSED:
        if pattern.search(text):
            raise ValueError(words)
    local, at, domain = text.partition("@")
    if len(local) > _MAX_LOCAL:
        raise ValueError(f"Input should have at most {_MAX_LOCAL} characters before its @")
    if not at or not _LOCAL.fullmatch(local):
        raise ValueError("Input should be one address, such as ada@example.org")
    return f"{local}@{_checked_domain(domain)}"


def checked_entry(text: str) -> str:
    """Validate an entry in a list of recipients: an address, or ``@`` and a domain. Raises ``ValueError``."""
    return f"@{_checked_domain(text[1:])}" if text.startswith("@") else checked_address(text)


def is_allowed(address: str, entries: Iterable[str]) -> bool:
    """Whether a validated address equals a validated entry, or has exactly the domain of one.

    Domains are case-insensitive; local parts are not, since only the recipient's server knows how it treats them.
    """
    return not {address, address[address.index("@") :]}.isdisjoint(entries)


def _checked_domain(text: str) -> str:
    if len(text) > MAX_ADDRESS or not _DOMAIN.fullmatch(text) or text.rpartition(".")[2].isdigit():
        raise ValueError("Input should have a domain after its @, such as example.org")
    return text.lower()


_PORTS: Final = {"starttls": 587, "implicit": 465, "none": 25}


def _checked_certificates(text: str) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (OSError, ValueError):  # an SSLError is an OSError
        raise ValueError("certificates of authorities were expected, as PEM text") from None
    return text


class EmailConfig(BaseModel):
    """Configuration of ``email``, set by ``email.with_config(EmailConfig(…))``. By default, no recipient is allowed.

    A password is sent over TLS only: ``tls="none"`` requires ``login=False``.
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
            raise ValueError("recipients need a host and a sender; set both")
        if self.tls == "none" and self.login:
            raise ValueError("a password goes over TLS only: choose another tls, or login=False")
        return self

    @property
    def port_used(self) -> int:
        """The configured port, or the default for the kind of TLS."""
        return self.port or _PORTS[self.tls]
