"""``WWW-Authenticate``: why a credential was refused, and where to get another (RFC 6750, RFC 9728 §5)."""

from __future__ import annotations

from typing import Final

from starlette.types import Message

from capset.errors import CapsetError, Unauthenticated
from capset_server.auth.callers import InsufficientScope
from capset_server.auth.resources import ProtectedResource, is_mcp

HEADER: Final = b"www-authenticate"
_SCHEME: Final = b"Bearer"


def challenges_of(error: CapsetError) -> list[tuple[bytes, bytes]]:
    """Return the challenge header for an error, none if another credential would not help.

    The names of scopes come from this server and its tools; no character in them needs escaping.
    """
    if isinstance(error, Unauthenticated):
        return [(HEADER, _SCHEME)]
    if isinstance(error, InsufficientScope):
        return [(HEADER, b'%b error="insufficient_scope", scope="%b"' % (_SCHEME, error.scopes[0].encode()))]
    return []


def lead_to_issuer(answer: Message, resource: ProtectedResource, path: str, authorization: str) -> None:
    """Add the URL of the resource's metadata to the challenge of a response, if it has one.

    Every refused bearer token is an ``invalid_token``; the client does not learn why. At an MCP endpoint, the challenge
    names the scope that a client should request first.
    """
    url = resource.metadata_url(path)
    if url is None:
        return
    headers: list[tuple[bytes, bytes]] = answer["headers"]
    for at, (name, value) in enumerate(headers):
        if name.lower() == HEADER and value.startswith(_SCHEME):
            parameters = [value.removeprefix(_SCHEME).strip()] if value != _SCHEME else _refusal(path, authorization)
            challenge = b", ".join([*parameters, b'resource_metadata="%b"' % url.encode()])
            headers[at] = name, b"%b %b" % (_SCHEME, challenge)


def _refusal(path: str, authorization: str) -> list[bytes]:
    """Return the challenge's parameters for a refused or missing credential; for a missing one there is no error."""
    is_bearer = authorization.partition(" ")[0].lower() == "bearer"
    error = [b'error="invalid_token"'] if is_bearer else []
    return [*error, b'scope="capset:call"'] if is_mcp(path) else error
