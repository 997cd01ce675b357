"""HTTP URLs, parsed once and strictly: the checked URL is the one connected to (spec 4, G29).

Two parsers of one URL can differ, and attackers exploit the difference. So there is one, which accepts only URLs that
all parse alike: hosts in ASCII, addresses in their one usual form, no user names, no trailing dot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, Literal
from urllib.parse import quote, urljoin

from capset.errors import ToolError

MAX_URL_LENGTH: Final = 8_192
"""The maximum length of a URL, in characters."""
_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_QUAD: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f\\]")
_UNQUOTED: Final = "".join(map(chr, range(0x21, 0x7F)))
# Ports of other protocols, some of which take a request for their own commands (fetch.spec.whatwg.org, bad port).
_BAD_PORTS: Final = frozenset(
    (
        *(1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109),
        *(110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530),
        *(531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045),
        *(4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
    )
)


@dataclass(frozen=True, slots=True)
class Url:
    """A valid URL. ``host`` is lower-case, and an IPv6 address has no brackets; ``target`` is the path and query.

    The host is not resolved until the connection is made.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port: the scope of credentials."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The value of the ``Host`` header: with the port, unless it is the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def join(self, location: str) -> Url:
        """Return the target of a redirect from here. Raises ``ToolError`` as ``parse_url`` does."""
        try:
            _check_characters(location)
            return parse_url(urljoin(str(self), location))
        except ValueError:  # from urljoin, for unclosed brackets
            raise _url_error("that a redirect leads to is not well formed") from None
        except ToolError as error:
            raise ToolError(f"The redirect is not valid. {error.message}", code=error.code) from None


def parse_url(text: str) -> Url:
    """Parse an absolute URL. Raises ``ToolError`` (``url_refused``) with the reason."""
    if len(text) > MAX_URL_LENGTH:
        raise _url_error(f"has {len(text)} characters, more than {MAX_URL_LENGTH}")
    _check_characters(text)
    match = _URL.fullmatch(text)
    if match is None:
        raise _url_error("is not an absolute URL; expected one such as https://example.com/")
    scheme, authority, path, query = match[1].lower(), match[2], match[3], match[4]
    if scheme != "http" and scheme != "https":  # noqa: PLR1714  # narrows the type
        raise _url_error("has a scheme other than http and https")
    if not authority:
        raise _url_error("has no host; expected one such as https://example.com/")
    if "@" in authority:
        raise _url_error("has a user name or password in it; send credentials in a header")
    host, port = parse_authority(authority)
    target = (path or "/") if query is None else f"{path or '/'}?{query}"
    try:
        return Url(scheme, host, port or _PORTS[scheme], quote(target, safe=_UNQUOTED))
    except UnicodeEncodeError:
        raise _url_error("has a character that UTF-8 cannot encode") from None


def parse_authority(text: str) -> tuple[str, int | None]:
    """Parse ``host`` or ``host:port``, an IPv6 address in brackets. Raises ``ToolError`` as ``parse_url`` does."""
    if text.startswith("["):
        address, bracket, remainder = text[1:].partition("]")
        if not bracket or (remainder and not remainder.startswith(":")):
            raise _url_error("has an IPv6 address that is not well formed")
        return _ipv6(address), _port(remainder[1:]) if remainder else None
    host, colon, port = text.partition(":")
    return _name_or_ipv4(host), _port(port) if colon else None


def _ipv6(text: str) -> str:
    if "%" in text:
        raise _url_error("has an address with a zone, which is meaningful on one machine only")
    try:
        return str(IPv6Address(text))
    except AddressValueError:
        raise _url_error("has an IPv6 address that is not well formed") from None


def _name_or_ipv4(host: str) -> str:
    if not host.isascii():
        raise _url_error("has a host that is not ASCII; write it in its xn-- form")
    host = host.lower()  # not earlier: lowering turns some letters into ASCII
    if host.endswith("."):
        raise _url_error("has a host that ends with a dot")
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):  # DNS has no longer names
        raise _url_error("has a host that is neither a name nor an address")
    if not _NUMBER.fullmatch(labels[-1]):
        return host
    # No name ends with a number: this is an address, and only the usual form is parsed alike everywhere.
    try:
        if _QUAD.fullmatch(host):
            return str(IPv4Address(host))
    except AddressValueError:
        pass
    raise _url_error("has an IPv4 address in an unusual form; expected four decimal numbers")


def _port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > 65_535:
        raise _url_error("has a port that is not a number from 1 to 65535")
    if int(text) in _BAD_PORTS:
        raise _url_error(f"has the port {text}, which belongs to another protocol")
    return int(text)


def _check_characters(text: str) -> None:
    if _FORBIDDEN.search(text):
        raise _url_error("has a space, a control character or a backslash; write it percent-encoded")


def _url_error(reason: str) -> ToolError:
    return ToolError(f"The URL {reason}.", code="url_refused")
