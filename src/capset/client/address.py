"""Server addresses, and the rules for sending a key to them."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import httpx2

from capset.errors import DefinitionError
from capset.net.addresses import is_loopback

_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")


def server_url(given: str) -> httpx2.URL:
    """Return the address of a server, without a trailing slash; a path before ``/v1`` is retained.

    Raises ``DefinitionError`` for an invalid address. A user or a password in it is refused: keys go by the header
    only.
    """
    try:
        url = httpx2.URL(given.rstrip("/"))
    except httpx2.InvalidURL:
        url = httpx2.URL()
    if url.userinfo or url.query or url.fragment:
        raise DefinitionError("a server's address has no user, password, query or fragment in it")
    if url.scheme not in ("http", "https") or not url.host:
        raise DefinitionError(f"a server's address is like https://capset.example.com; got {given!r}")
    return url


def check_key(key: str, url: httpx2.URL, *, plain_http: bool) -> str:
    """Return a key that may be sent to ``url``.

    Raises ``DefinitionError`` for an invalid key, and for an address that would expose it in transit.
    """
    if not _KEY.fullmatch(key):
        raise DefinitionError("the API key is not one: it has 1 to 200 characters of ASCII, and no spaces")
    if url.scheme == "http" and not plain_http and not is_loopback(url.host):
        raise DefinitionError(
            f"{url} is not encrypted: the API key would be seen by everybody on the way",
            hint="use https://, or allow it: plain_http=True, or CAPSET_PLAIN_HTTP=1 for the command",
        )
    return key


def path_of(*parts: str) -> str:
    """Return the parts as a path of the API.

    Raises ``DefinitionError`` for a part that is empty or contains a slash, by which it could name something else, and
    for text that is not valid Unicode.
    """
    return "/v1/" + "/".join(map(segment, parts))


def segment(part: str) -> str:
    """Return one part of a path, quoted for a URL. Raises as ``path_of`` does."""
    if not part or "/" in part:
        raise DefinitionError(f"an id or a name must not be empty, nor hold a slash; got {part[:100]!r}")
    try:
        quoted = quote(part, safe="")
    except UnicodeEncodeError:
        raise DefinitionError(f"{part[:100]!r} is not valid Unicode text") from None
    return quoted.replace(".", "%2E") if part in (".", "..") else quoted  # otherwise the URL would lose them
