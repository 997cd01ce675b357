"""Addresses of email: one bare ``local@domain`` each, and who may get any (spec 4, G32)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_ADDRESS: Final = 254
"""Characters of an address: RFC 5321's 256 of a path, less its angle brackets."""
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
    """Return an address with its domain in lower case. Raises ``ValueError``, whose words tell nothing of the text.

    It is RFC 5321's ``Mailbox`` without quoted local parts and address literals, and without the characters that have
    ever been routes, files or programs to a mail server. A domain is ASCII: an international one has its ``xn--`` form,
    so that no letter looks like another.
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
    """Return an entry of a list of recipients: an address, or ``@`` and a whole domain. Raises ``ValueError``."""
    return f"@{_checked_domain(text[1:])}" if text.startswith("@") else checked_address(text)


def is_allowed(address: str, entries: Iterable[str]) -> bool:
    """Whether a checked address is among checked entries, as itself or by its exact domain.

    Domains have no case; a local part has one, since it is the recipient's server who tells mailboxes apart.
    """
    return not {address, address[address.index("@") :]}.isdisjoint(entries)


def _checked_domain(text: str) -> str:
    if len(text) > MAX_ADDRESS or not _DOMAIN.fullmatch(text) or text.rpartition(".")[2].isdigit():
        raise ValueError("Input should have a domain after its @, such as example.org")
    return text.lower()
