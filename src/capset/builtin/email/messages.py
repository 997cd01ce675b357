"""Composition of an email: headers with exactly the given values (spec 4, G32)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from email.policy import SMTP, compat32
from email.utils import format_datetime
from typing import Final
from unicodedata import category
from uuid import uuid4

from capset.builtin.email.plain_text import plain_text

MAX_SUBJECT: Final = 255
_POLICY: Final = SMTP.clone(cte_type="7bit", raise_on_defect=True)
_ENCODING: Final = "Content-Transfer-Encoding"
"""In an email of several parts, each part has this header."""
_HEADERS: Final = ("Content-Type", _ENCODING, "Date", "From", "MIME-Version", "Message-ID", "Subject", "To")
_ENCODED_WORD: Final = re.compile(r"=\?[^?]*\?[^?]*\?")
_NO_TEXT: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Letter:
    """An email in its transfer form, and its id."""

    message_id: str
    raw: bytes


def checked_subject(text: str) -> str:
    """Return a subject of one line. Raises ``ValueError`` for line ends and other control characters of any script.

    Encoded words are refused too: the library or a mail reader would decode them to unchecked text.
    """
    if any(category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in text):
        raise ValueError("Input should be one line, without line ends and control characters")
    if _ENCODED_WORD.search(text):
        raise ValueError("Input should be plain text; what is not ASCII is encoded for it")
    return text


def checked_body(text: str) -> str:
    """Return a body. Raises ``ValueError`` for control characters other than tabs and line ends."""
    if _NO_TEXT.search(text):
        raise ValueError("Input should be text, without NUL and other control characters")
    return text


def letter(sender: str, recipient: str, subject: str, body: str, *, html: bool) -> Letter:
    """Return the email of checked parts, in ASCII; HTML gets its text as an alternative before it.

    Raises ``RuntimeError`` if the library wrote headers other than the intended ones.
    """
    message = EmailMessage(_POLICY)
    message_id = f"<{uuid4()}@{sender.partition('@')[2]}>"
    message["From"] = sender
    message["To"] = recipient
    message["Subject"] = subject
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = message_id
    message.set_content(plain_text(body) if html else body)
    if html:
        message.add_alternative(body, subtype="html")
    raw = message.as_bytes()
    _check(raw, recipient, [name for name in _HEADERS if not html or name != _ENCODING])
    return Letter(message_id, raw)


def _check(raw: bytes, recipient: str, expected: list[str]) -> None:
    """Check the headers as a server will read them: how the library folds them differs between versions."""
    headers = BytesHeaderParser(policy=compat32).parsebytes(raw)
    if sorted(headers.keys()) != sorted(expected) or headers["To"] != recipient:
        raise RuntimeError("an email was written with other headers than were meant")
