"""Declarations of servers that are used with credentials of users (spec 11, V4)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from capset.definitions.fields import checked_field, requiring, store_checked
from capset.definitions.identity import FrozenValue
from capset.definitions.names import checked_optional
from capset.errors import DefinitionError, unknown
from capset.net.urls import parse_url
from capset.wire.tool_sources import ProviderShape, UserAuth
from capset_connect.declarations import words
from capset_connect.vault.providers import Provider

USER_CREDENTIAL: Final = "USER_CREDENTIAL"
"""The name of the placeholder for the credential of the calling user, in headers, variables and credentials."""
PLACEHOLDER: Final = f"${{{USER_CREDENTIAL}}}"
_TAKEN: Final = frozenset({"callback"})
"""Names with a meaning of their own below ``/connections``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCredential(FrozenValue):
    """The declaration that a server is used with a credential of each user: a key that the user enters, or tokens.

    Raises ``DefinitionError`` for scopes or an audience without a provider.
    """

    provider: Provider | None = checked_field(
        requiring("{} must be a Provider", lambda value: isinstance(value, Provider), optional=True), None
    )
    """The provider at which users connect; without one, they enter a key."""
    scopes: Iterable[str] = checked_field(words, ())
    audience: str | None = checked_field(checked_optional, None)
    """The resource that tokens are for: the URL of the server, or another name that the provider knows."""

    def __post_init__(self) -> None:
        store_checked(self)
        if self.provider is None and (self.scopes or self.audience):
            raise DefinitionError("auth: scopes and audience need a provider")

    @property
    def is_exchanged(self) -> bool:
        """Whether users connect to the provider, and tokens for the server are exchanged for theirs."""
        return self.provider is not None and self.provider.exchange

    def secrets(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names of the secrets of a server: its own, without that of the user, and those of the provider."""
        server_names = tuple(name for name in names if name != USER_CREDENTIAL)
        return server_names if self.provider is None else (*server_names, *self.provider.secrets)


@dataclass(frozen=True)
class UserServer:
    """A server that is used with credentials of users: its name, its URL or command, and the declaration."""

    name: str
    place: str
    need: UserCredential

    @property
    def connection(self) -> str:
        """The name of what users connect to: the server, or the provider if its tokens are exchanged."""
        provider = self.need.provider
        return f"provider:{provider.name}" if provider is not None and provider.exchange else self.name

    @cached_property
    def binding(self) -> str:
        """A digest of where a credential is sent. One for another place or provider is not used any more."""
        provider, place = self.need.provider, None if self.need.is_exchanged else self.place
        identity = provider and [
            *(provider.issuer, provider.authorize_url, provider.token_url, provider.revoke_url, provider.client_id)
        ]
        return _digest([place, identity, self.need.audience if place else None])

    def missing_scopes(self, granted: Sequence[str]) -> list[str]:
        """Return the scopes that it declares and that were not granted; none if the provider states none.

        The scopes of the provider do not count: some, such as ``offline_access``, are never in an answer.
        """
        if self.need.provider is None or self.need.is_exchanged or not granted:
            return []
        return [scope for scope in self.need.scopes if scope not in granted]

    @cached_property
    def purpose(self) -> str:
        """A digest of what a credential is lent for: the server, its place, and what an exchanged token allows."""
        return _digest([self.name, self.place, self.need.audience, [*self.need.scopes]])


def user_servers(sources: Iterable[Any]) -> Mapping[str, UserServer]:  # MCP servers and APIs; most have no ``auth``
    """Return the sources that are used with credentials of users, by name.

    Raises ``DefinitionError`` if two declare different providers of one name, and for a name that ``_TAKEN`` has.
    """
    servers = {
        source.pin_key: user_server(source)
        for source in sources
        if isinstance(getattr(source, "auth", None), UserCredential)
    }
    if taken := sorted(servers.keys() & _TAKEN):
        raise DefinitionError(
            f"a server with auth: user cannot be named {taken[0]!r}: /connections/{taken[0]} is taken"
        )
    for server in servers.values():
        _check_audience(server)
    providers: dict[str, Provider] = {}
    for server in servers.values():
        provider = server.need.provider
        if provider is not None and providers.setdefault(provider.name, provider) != provider:
            raise DefinitionError(f"two files declare different providers named {provider.name!r}")
    return servers


def user_server(source: Any) -> UserServer:  # an MCP server or an API with ``auth``
    """Return a source as a server that is used with credentials of users."""
    return UserServer(source.pin_key, _place_of(source), source.auth)


def _place_of(source: Any) -> str:  # as above
    """Return where a source sends credentials: its URL, or its command with the environment and the folder."""
    return source.url or json.dumps([source.place, dict(source.env), source.cwd], sort_keys=True)


def _check_audience(server: UserServer) -> None:
    """Raise ``DefinitionError`` if exchanged tokens for one server would be sent to another.

    Users connect to the provider, and are not asked for each server.
    """
    audience = server.need.audience or ""
    if not server.need.is_exchanged or not audience.startswith(("https://", "http://")) or "://" not in server.place:
        return
    if parse_url(audience).origin != parse_url(server.place).origin:
        raise DefinitionError(
            f"the server {server.name!r} gets tokens for {audience!r}, which is not at its own address {server.place!r}"
        )


def _digest(parts: list[Any]) -> str:  # JSON data
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def user_credential_of(
    owner: str, auth: UserAuth, providers: Mapping[str, ProviderShape], folder: Path
) -> UserCredential:
    """Return what a file in ``folder`` declares with ``auth``; ``owner`` is its label. Raises ``DefinitionError``."""
    if auth == "user":
        return UserCredential()
    if (shape := providers.get(auth.provider)) is None:
        raise DefinitionError(f"{owner}: auth: {unknown('provider', auth.provider, providers)}")
    options: dict[str, Any] = shape.model_dump(exclude_none=True)
    if "ca_file" in options:
        options["ca_file"] = str(folder / options["ca_file"])
    provider = Provider(name=auth.provider, **options)
    return UserCredential(provider=provider, scopes=auth.scopes or (), audience=auth.audience)
