"""The headers of a request: those that may be sent, and those that follow a redirect elsewhere (spec 4, G29)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from capset.errors import ToolError

MAX_HEADERS: Final = 64
MAX_LENGTH: Final = 8_192
"""The maximum length of a value, in characters."""
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE: Final = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?")
_FRAMING: Final = (
    *("host", "content-length", "content-encoding", "transfer-encoding", "te", "trailer", "connection", "keep-alive"),
    *("upgrade", "expect", "http2-settings", "accept-encoding"),
)
# A server behind a proxy trusts them.
_WHO_ASKS: Final = ("forwarded", "via", "x-real-ip", "true-client-ip", "cf-connecting-ip", "x-client-ip", "client-ip")
_OTHER_METHODS: Final = ("x-http-method", "x-http-method-override", "x-method-override")
_CLOUD_SECRETS: Final = ("metadata", "metadata-flavor", "x-google-metadata-request")
"""Headers that unlock the services where clouds give machines their secrets."""
_DENIED: Final = frozenset((*_FRAMING, *_WHO_ASKS, *_OTHER_METHODS, *_CLOUD_SECRETS))
_DENIED_PREFIXES: Final = ("proxy-", "x-forwarded-", "x-aws-ec2-metadata-", "x-original-", "x-rewrite-")
_HARMLESS: Final = frozenset(
    (
        *("accept", "accept-charset", "accept-language", "cache-control", "pragma", "range", "user-agent"),
        *("if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"),
    )
)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with their names in lower case.

    ``Authorization`` and ``Cookie`` may be sent: the caller provides them, and nothing is stored. Raises ``ToolError``
    (``header_refused``), naming the header and never its value, if one is denied, duplicate or malformed.
    """
    if len(headers) > MAX_HEADERS:
        raise _refused(f"There are {len(headers)} headers; at most {MAX_HEADERS} can be sent.")
    checked: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        if not _NAME.fullmatch(name):
            raise _refused(f"{name[:128]!r} is no header's name; expected letters, digits and hyphens.")
        if key in _DENIED or key.startswith(_DENIED_PREFIXES):
            raise _refused(f"The header {name!r} cannot be set; leave it out.")
        if key in checked:
            raise _refused(f"The header {name!r} is given twice; names are the same in any case.")
        if len(value) > MAX_LENGTH or not _VALUE.fullmatch(value):
            raise _refused(
                f"The value of the header {name!r} cannot be sent; expected at most {MAX_LENGTH} printable ASCII "
                "characters, in one line and with no spaces around them."
            )
        checked[key] = value
    return checked


def for_another_origin(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to send to another origin: only those known to carry no credentials."""
    return {name: value for name, value in headers.items() if name in _HARMLESS}


def _refused(message: str) -> ToolError:
    return ToolError(message, code="header_refused")
