"""The server as an OAuth resource: its parts, their metadata (RFC 9728), and which tokens are for them (RFC 8707)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from capset.errors import DefinitionError, ToolError
from capset.net.addresses import is_loopback
from capset.net.urls import Url, parse_url
from capset_server.auth.keys import DEFAULT_SCOPES

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
"""Prefix of the path of the metadata; the path of a part of the server follows it."""
WHOLE: Final = ("",)
"""The parts for a credential without an audience: the whole server."""
_REST: Final = "/v1"
_MCP: Final = "/mcp"
_SAFE: Final = "/!$&'()*+,;=:@"
_MAX_ID: Final = 200
"""The maximum length of an id. Paths with longer ones are refused (414), and are not resources."""


def resource_of(path: str) -> str:
    """Return the part of the server that a path belongs to, as a path: an MCP endpoint, ``/v1``, or ``""``."""
    if path.startswith(f"{_REST}/") or path in (_REST, "/openapi.json"):
        return _REST
    return path if is_mcp(path) else ""


def is_mcp(path: str) -> bool:
    """Return whether a path is an MCP endpoint."""
    if not path.startswith(_MCP):
        return False
    match path.split("/"):
        case ["", "mcp"]:
            return True
        case ["", "mcp", "agents" | "sessions", id]:
            return 0 < len(id) <= _MAX_ID
        case _:
            return False


def contains(part: str, resource: str) -> bool:
    """Return whether one part of the server contains another: ``/mcp`` contains the agents, ``""`` everything."""
    return resource == part or resource.startswith(f"{part}/")


@dataclass(frozen=True, slots=True)
class PublicAddress:
    """Where clients and people reach the server: a URL without a trailing slash, and its parts."""

    url: str
    host: str
    """The host name; an IPv6 address is in brackets."""
    origin: str

    @classmethod
    def of(cls, text: str) -> PublicAddress:
        """Parse an address. Raises ``DefinitionError`` unless it is https, or http on loopback."""
        url = _checked("public URL", text)
        host = f"[{url.host}]" if ":" in url.host else url.host
        return cls(str(url).removesuffix("/"), host, f"{url.scheme}://{url.authority}")


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """The server as its clients and the authorization server know it.

    Args:
        public_url: the URL at which clients reach the server, such as ``https://capset.example.com``: https, or http
            on loopback. It has a path if the server is mounted at one.
        issuer: the URL of the authorization server.
        audience: the audience of all tokens, if the operator declares one. If it is a URL of this server, it is the
            server's only resource; otherwise each part is a separate resource.

    Raises ``DefinitionError`` for an invalid URL, and for an audience at the public URL that is no part of the server.
    """

    public_url: str
    issuer: str
    audience: str | None = None

    def __post_init__(self) -> None:
        """Validate the fields, and normalise the public URL."""
        object.__setattr__(self, "public_url", PublicAddress.of(self.public_url).url)
        _checked("issuer", self.issuer)
        declared = self._declared
        if declared is not None and resource_of(declared) != declared:
            raise DefinitionError(
                f"the audience {self.audience!r} is at the public URL, but is not a part of the server",
                hint=f"leave it out, or name {self.public_url}, {self.public_url}/mcp or {self.public_url}/v1",
            )

    @property
    def host(self) -> str:
        """The host name in the public URL; an IPv6 address is in brackets."""
        return PublicAddress.of(self.public_url).host

    def parts(self, audiences: Iterable[str]) -> tuple[str, ...]:
        """Return the parts of this server among ``audiences``, as paths. Skips audiences that are other servers."""
        paths = (self._path_of(audience) for audience in audiences)
        return tuple(path for path in paths if path is not None)

    def identifier(self, path: str) -> str | None:
        """Return the URL of the resource that a path belongs to; ``None`` if no token can be requested for it."""
        declared, resource = self._declared, resource_of(path)
        if declared is None:
            return self.public_url + _written(resource)
        return self.audience if contains(declared, resource) else None

    def metadata_url(self, path: str) -> str | None:
        """Return the URL of the metadata of a path's resource; ``None`` if there is none."""
        if self.identifier(path) is None:
            return None
        declared = self._declared
        return self.public_url + WELL_KNOWN + _written(resource_of(path) if declared is None else declared)

    def metadata(self, resource: str) -> dict[str, Any] | None:  # JSON data
        """Return the metadata of a part of the server; ``None`` if it is not a resource.

        The scopes are those that a client requests first. It requests others when they are needed.
        """
        resource = resource.removesuffix("/")
        identifier = self.identifier(resource)
        if identifier is None or resource_of(resource) != resource:
            return None
        return {
            "resource": identifier,
            "authorization_servers": [self.issuer],
            "scopes_supported": ["capset:call"] if is_mcp(resource) else list(DEFAULT_SCOPES),
            "bearer_methods_supported": ["header"],
            "resource_name": "capset",
        }

    @property
    def _declared(self) -> str | None:
        """The part of the server that the declared audience names, if it names one."""
        return None if self.audience is None else self._path_of(self.audience)

    def _path_of(self, audience: str) -> str | None:
        """Return the path of a URL of this server, without a trailing slash; ``None`` for any other text."""
        if not audience.startswith(("https:", "http:")):
            return None
        try:
            url, base = parse_url(audience), parse_url(self.public_url)
        except ToolError:
            return None
        if url.origin != base.origin or "?" in url.target:
            return None
        path, mounted = (unquote(address.target).removesuffix("/") for address in (url, base))
        return path.removeprefix(mounted) if contains(mounted, path) else None


def _written(path: str) -> str:
    """Quote a path for a URL."""
    return quote(path, safe=_SAFE, errors="replace")


def _checked(label: str, text: str) -> Url:
    """Parse a URL that is safe for tokens and codes: https, or http on loopback."""
    try:
        url = parse_url(text)
    except ToolError as error:
        raise DefinitionError(f"the {label} must be a URL where clients find the metadata: {error.message}") from None
    if "?" in text or "#" in text:
        raise DefinitionError(f"the {label} must have no query and no fragment; got {text!r:.200}")
    if url.scheme != "https" and not is_loopback(url.host):
        raise DefinitionError(f"the {label} must be https, or http on loopback; got {url}")
    return url
