"""``WWW-Authenticate``: why a credential did not do, and where to get another (RFC 6750, RFC 9728 §5)."""

from __future__ import annotations

from typing import Final

from starlette.types import Message

from capset.errors import CapsetError, Unauthenticated
from capset_server.auth.callers import InsufficientScope
from capset_server.auth.resources import ProtectedResource, is_mcp

HEADER: Final = b"www-authenticate"
_SCHEME: Final = b"Bearer"


def challenges_of(error: CapsetError) -> list[tuple[bytes, bytes]]:
    """Return the header of an error, none if another credential would not help.

    The names of scopes are those of this server and of tools: none has a letter that would have to be quoted.
    """
    if isinstance(error, Unauthenticated):
        return [(HEADER, _SCHEME)]
    if isinstance(error, InsufficientScope):
        return [(HEADER, b'%b error="insufficient_scope", scope="%b"' % (_SCHEME, error.scopes[0].encode()))]
    return []


def lead_to_issuer(answer: Message, resource: ProtectedResource, path: str, authorization: str) -> None:
    """Complete the challenge in the start of an answer, if it has one: where the metadata of the resource is.

    Every bearer token that was refused is ``invalid_token``: why, the client does not learn. At an endpoint of MCP the
    scope is named that a client begins with.
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
    """Return what a refused credential, or a missing one, is told: without a credential, there is no error."""
    is_bearer = authorization.partition(" ")[0].lower() == "bearer"
    error = [b'error="invalid_token"'] if is_bearer else []
    return [*error, b'scope="capset:call"'] if is_mcp(path) else error
