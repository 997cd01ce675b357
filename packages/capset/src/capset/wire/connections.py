"""Connections of users: what they can connect, and what they have connected (spec 11)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SecretStr

from capset.wire.shapes import Moment, PageShape, Shape, StrictShape


class ConnectionShape(Shape):
    """Something that a user can connect, so that calls act with the user's own credential.

    ``servers`` are the MCP servers and APIs that use it. ``kind`` is ``key`` if the user enters a key, ``oauth`` if the
    user grants access at the ``provider``. ``problem`` says why a connection cannot be used any more, and
    ``missing_scopes`` what was not granted. The credential itself is never shown.
    """

    name: str
    servers: list[str]
    kind: Literal["key", "oauth"]
    provider: str | None = None
    scopes: list[str] = Field(default_factory=list[str])
    connected: bool
    usable: bool
    missing_scopes: list[str] = Field(default_factory=list[str])
    problem: str | None = None
    id: str | None = None
    version: int | None = None
    connected_at: str | None = None
    renewed_at: str | None = None
    expires_at: str | None = None
    used_at: str | None = None


class ConnectionListShape(Shape):
    """The connections of a caller, by name."""

    items: list[ConnectionShape]


class CredentialShape(Shape):
    """A credential of a principal, as administrators see it: never its value."""

    id: str
    principal: str
    connection: str
    kind: Literal["key", "oauth"]
    version: int
    scopes: list[str]
    connected_at: str
    renewed_at: str
    expires_at: str | None = None
    used_at: str | None = None
    problem: str | None = None


class CredentialPageShape(PageShape[CredentialShape]):
    """Credentials, newest first."""


class ConnectionKeyInput(StrictShape):
    """A key that the caller enters, such as an access token that the caller has made at the server's own site."""

    key: SecretStr = Field(
        description="It is encrypted, and never shown again.",
        json_schema_extra={"minLength": 8, "maxLength": 8_192, "pattern": "^[!-~]+$"},
    )


class AuthorizationShape(Shape):
    """The page of the provider to open in a browser in which the caller is signed in to the console."""

    url: str


class AuthorizationAnswer(StrictShape):
    """The parameters with which the provider has redirected back."""

    state: str = Field(max_length=500)
    code: str | None = Field(default=None, max_length=8_192)
    iss: str | None = Field(default=None, max_length=2_000)
    error: str | None = Field(default=None, max_length=500)
    error_description: str | None = Field(default=None, max_length=2_000)


class DelegationInput(StrictShape):
    """The use of a connection that the caller allows another principal that acts for it."""

    delegate: str = Field(
        pattern="^(user|agent|org):.", max_length=300, description="The other principal, such as `agent:helper`."
    )
    tools: list[str] = Field(
        default_factory=list[str], max_length=200, description="The names of the tools; all of them, if left out."
    )
    arguments: dict[str, dict[str, Any]] | None = Field(
        default=None,
        description="The allowed arguments: a JSON Schema for each, as in `arguments` of a tool in a configuration "
        "file. Any arguments, if left out.",
    )
    until: Moment = Field(default=None, description="The end. Without it, the delegation lasts until it is ended.")


class DelegationShape(Shape):
    """The use of a connection that the caller has allowed another principal. It may have expired."""

    id: str
    connection: str
    delegate: str
    tools: list[str]
    arguments: dict[str, Any] | None = None
    until: str | None = None
    created_at: str


class DelegationPageShape(PageShape[DelegationShape]):
    """Delegations, newest first."""


class DisconnectedShape(Shape):
    """A connection that was deleted. ``revoked`` is whether the provider has confirmed that it revoked the access."""

    revoked: bool
