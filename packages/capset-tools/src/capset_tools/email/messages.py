"""Composition of an email: headers with exactly the given values (spec 4, G32)."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from email.policy import SMTP, compat32
from email.utils import format_datetime
from html import unescape
from typing import Final
from unicodedata import category
from uuid import uuid4

MAX_SUBJECT: Final = 255
_POLICY: Final = SMTP.clone(cte_type="7bit", raise_on_defect=True)
_ENCODING: Final = "Content-Transfer-Encoding"
"""In a multipart email, only the parts have this header."""
_HEADERS: Final = ("Content-Type", _ENCODING, "Date", "From", "MIME-Version", "Message-ID", "Subject", "To")
_ENCODED_WORD: Final = re.compile(r"=\?[^?]*\?[^?]*\?")
_NO_WIDTH: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
"""Invisible characters whose category does not show that they are (Default_Ignorable_Code_Point)."""
_PLAIN_SUBJECT: Final = re.compile(r"(?:[!-~](?:[ -~]{0,67}[!-~])?)?")
"""A subject that fits on one line, and that has no space at its beginning or end, where it could be lost."""
_WORD_BYTES: Final = 39
"""Maximum bytes in an encoded word: a line that contains one has at most 76 characters (RFC 2047)."""
_DOT: Final = re.compile(rb"^\.", re.MULTILINE)
_NO_TEXT: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

_PIECE: Final = re.compile(r"""<!--|-->|</?[a-zA-Z][a-zA-Z0-9]*|<[!?/]|[>"']|[^<>"'-]+|.""", re.DOTALL)
_HREF: Final = re.compile(r"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_BLOCKS: Final = frozenset(
    {
        *("address", "article", "blockquote", "br", "dd", "div", "dl", "dt", "footer", "h1", "h2", "h3", "h4", "h5"),
        *("h6", "header", "hr", "li", "ol", "p", "pre", "section", "table", "tr", "ul"),
    }
)
_HIDDEN: Final = frozenset({"script", "style", "title", "template"})
_LINKS: Final = ("https://", "http://", "mailto:")
_NOTHING: Final = "This email is in HTML and has no text."


@dataclass(frozen=True, slots=True)
class Letter:
    """An email as it is sent, and its ``Message-ID``."""

    message_id: str
    raw: bytes


def checked_subject(text: str) -> str:
    """Validate a subject: one line without hidden characters. Raises ``ValueError``.

    Line ends and other control characters are refused, and so are zero-width and bidirectional characters, with which
    a subject can read differently from its actual text. Encoded words are refused too, since the library or a mail
    client would decode them to unchecked text.
    """
    if any(category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in text):
        raise ValueError("Input should be one line, without line ends and control characters")
    if (hidden := _hidden_in(text)) is not None:
        raise ValueError(
            f"Input should be without zero-width and bidirectional characters; leave out U+{ord(hidden):04X}"
        )
    if _ENCODED_WORD.search(text):
        raise ValueError("Input should be plain text; what is not ASCII is encoded for it")
    return text


def _hidden_in(text: str) -> str | None:
    """Return the first invisible character, other than a variation selector after a symbol, digit, ``#`` or ``*``."""
    before = ""
    for letter in text:
        is_choice = (
            letter in "\ufe0e\ufe0f" and before != "" and (category(before)[0] == "S" or before in "0123456789#*")
        )
        if not is_choice and (category(letter) == "Cf" or _NO_WIDTH.match(letter)):
            return letter
        before = letter
    return None


def checked_body(text: str) -> str:
    """Validate a body. Raises ``ValueError`` for lone surrogates, and control characters except tabs and line ends."""
    if _NO_TEXT.search(text):
        raise ValueError("Input should be text, without NUL and other control characters")
    return text


def letter(sender: str, recipient: str, subject: str, body: str, *, html: bool) -> Letter:
    """Compose an email from validated parts, in ASCII. HTML is preceded by its text as an alternative.

    Raises ``RuntimeError`` if the library wrote headers other than the intended ones.
    """
    message = EmailMessage(_POLICY)
    message_id = f"<{uuid4()}@{sender.partition('@')[2]}>"
    message["From"] = sender
    message["To"] = recipient
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = message_id
    message.set_content(plain_text(body) if html else body)
    if html:
        message.add_alternative(body, subtype="html")
    raw = f"Subject: {_folded(subject)}\r\n".encode() + message.as_bytes()
    _check(raw, recipient, [name for name in _HEADERS if not html or name != _ENCODING])
    return Letter(message_id, raw)


def _folded(subject: str) -> str:
    """Return a subject for its header: unchanged, or entirely in encoded words, one per line.

    The library loses spaces where it folds, and mail clients lose those between encoded words and at line ends.
    """
    if _PLAIN_SUBJECT.fullmatch(subject):
        return subject
    words, word = list[bytes](), b""
    for letter in subject:
        if len(word + (encoded := letter.encode())) > _WORD_BYTES:
            words.append(word)
            word = b""
        word += encoded
    return "\r\n ".join(f"=?utf-8?b?{b64encode(chunk).decode()}?=" for chunk in [*words, word])


def _check(raw: bytes, recipient: str, expected: list[str]) -> None:
    """Check the headers as a server will read them, since how the library folds them differs between versions."""
    headers = BytesHeaderParser(policy=compat32).parsebytes(raw)
    if sorted(headers.keys()) != sorted(expected) or headers["To"] != recipient:
        raise RuntimeError("the email library wrote other headers than intended")


def dotted(raw: bytes) -> bytes:
    """Encode an email for DATA: double each dot at the beginning of a line, and add the end mark."""
    return _DOT.sub(b"..", raw) + b".\r\n"


def plain_text(html: str) -> str:
    """Convert HTML to text: blocks become lines, list items begin with a dash, URLs follow their links."""
    reading = _Reading()
    for piece in _PIECE.finditer(html):
        reading.take(piece[0])
    return reading.text()


class _Reading:
    """Reads HTML piece by piece. Unclosed markup extends to the end of the text, as in browsers."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._link: str | None = None
        self._hidden: str | None = None
        """The element whose content is being skipped."""
        self._tag: str | None = None
        self._attributes: list[str] = []
        self._until: str | None = None
        """The piece that ends the current comment, or the current quoted value in a tag."""

    def take(self, piece: str) -> None:
        if self._until is not None:
            if piece == self._until:
                self._until = None
            if self._tag is not None:
                self._attributes.append(piece)
        elif self._tag is not None:
            self._in_tag(piece)
        elif self._hidden is not None:
            if piece.lower() == f"</{self._hidden}":
                self._tag = piece
        elif piece == "<!--":
            self._until = "-->"
        elif len(piece) > 1 and piece[0] == "<":
            self._tag = piece
        else:
            self._said.append(_unescaped(piece))

    def text(self) -> str:
        lines = [" ".join(line.split()) for line in "".join(self._said).split("\0")]
        return "\n".join(line for line in lines if line) or _NOTHING

    def _in_tag(self, piece: str) -> None:
        if piece != ">":
            is_quote = piece in ("'", '"') and self._attributes and self._attributes[-1].rstrip().endswith("=")
            self._until = piece if is_quote else None
            self._attributes.append(piece)
            return
        tag, attributes = (self._tag or "")[1:].lower(), "".join(self._attributes)
        self._tag, self._attributes = None, []
        name = tag.lstrip("/")
        if name in _HIDDEN:
            self._hidden = None if tag.startswith("/") else name
        elif tag == "a":
            match = _HREF.search(attributes)
            link = _unescaped(next(filter(None, match.groups()), "")).strip() if match else ""
            self._link = link if link.lower().startswith(_LINKS) else None
        elif tag == "/a" and self._link is not None:
            self._said.append(f" ({self._link})")
            self._link = None
        elif name in _BLOCKS:
            self._said.append("\0- " if tag == "li" else "\0")
        elif name in ("td", "th"):
            self._said.append(" ")


def _unescaped(text: str) -> str:
    try:
        return unescape(text)
    except ValueError:  # a character reference with thousands of digits
        return text
