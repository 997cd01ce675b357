"""MCP servers and APIs as files and stored agents declare them (spec 7, M6, M23, M26)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from capset.definitions.names import PERMISSION
from capset.definitions.tools.options import Effect
from capset.wire.allowances import LIMIT_SCHEMA
from capset.wire.shapes import StrictShape

LimitsText = Annotated[
    Any, WithJsonSchema({"anyOf": [*LIMIT_SCHEMA["anyOf"], {"type": "array", "items": LIMIT_SCHEMA}]})
]
"""Limits in any form. Their own validator gives better error messages than a union of types."""
Permission = Annotated[str, Field(pattern=f"^{PERMISSION.pattern}$")]
LIMITS_DESCRIPTION: Final = (
    "How often it may be called: `100/1h` for each principal; a mapping, or a list of them, has more options. Windows "
    "are a whole number and s, m, h or d. Calls are counted in the database; with `scope: process`, in each process."
)


class ToolRulesShape(StrictShape):
    """The rules of a tool of an MCP server or an API. The rules under `*` are the defaults for all tools."""

    effect: Effect | None = Field(
        None,
        description="If left out: for a tool of an MCP server `destructive`, as its hints can only make an effect "
        "stronger; for an operation of an API, the effect of its method.",
    )
    permissions: list[Permission] | None = Field(
        None, description="The permissions that a principal needs, in addition to those of its server or API."
    )
    limits: LimitsText = Field(None, description=LIMITS_DESCRIPTION)
    approval: Literal["auto", "ask"] | None = Field(
        None, description="`ask` if every call needs an approval; `auto`, if left out."
    )
    timeout: float | None = Field(
        None, gt=0, description="Seconds that a call may take; if left out, as for its server or API."
    )
    idempotent: bool | None = Field(
        None, description="Whether repeating a call has no further effect; `false`, if left out."
    )
    arguments: dict[str, dict[str, Any]] | None = Field(
        None,
        description="Restrictions on arguments in addition to the tool's own schema: a JSON Schema for each, with a "
        "`type`, a `const` or an `enum`; with `required: true`, calls without the argument are refused, too.",
    )
    unchecked_patterns: Literal["allow", "refuse"] | None = Field(
        None,
        description="`refuse` to refuse calls of a tool whose schema has a pattern that cannot be checked; `allow`, if "
        "left out.",
    )


class ClientCredentialsShape(StrictShape):
    """A client of an authorization server that gets access tokens with OAuth 2 client credentials."""

    token_url: str = Field(description="The token endpoint of the authorization server.")
    client_id: str = Field(description="The id of the client; `${NAME}` in it is replaced by the secret of that name.")
    client_secret: str = Field(description="The secret of the client: `${NAME}` is the secret of that name.")
    scopes: list[str] | None = Field(None, description="The scopes to request; none, if left out.")
    parameters: dict[str, str] | None = Field(
        None, description="Additional parameters of the request, such as `resource` or `audience`."
    )
    method: Literal["basic", "post"] | None = Field(
        None,
        description="`basic` sends the credentials in the header `Authorization`, `post` in the parameters; `basic`, "
        "if left out.",
    )


class ProviderShape(StrictShape):
    """An authorization server at which users connect their accounts."""

    issuer: str | None = Field(
        None,
        description="Its issuer URL, whose metadata has the endpoints; else give `authorize_url` and `token_url`.",
    )
    authorize_url: str | None = Field(None, description="The page at which users grant access.")
    token_url: str | None = Field(None, description="The token endpoint.")
    revoke_url: str | None = Field(None, description="The endpoint that revokes tokens when a user disconnects.")
    client_id: str = Field(
        description="The id of this server as a client; `${NAME}` in it is replaced by the secret of that name."
    )
    client_secret: str | None = Field(
        None, description="The secret of the client: `${NAME}` is the secret of that name; none for a public client."
    )
    method: Literal["basic", "post"] | None = Field(
        None, description="How the client's credentials are sent, as in `oauth`; `basic`, if left out."
    )
    scopes: list[str] | None = Field(
        None, description="The scopes of every connection, in addition to those of its server; none, if left out."
    )
    parameters: dict[str, str] | None = Field(
        None, description="Additional parameters of the authorization request, such as `access_type`."
    )
    exchange: bool | None = Field(
        None,
        description="Whether users connect to the provider once, and the tokens for each server are obtained by token "
        "exchange (RFC 8693); `false`, if left out.",
    )
    internal: list[str] | None = Field(
        None, description="Internal hosts that its URLs may lead to, as `host` or `host:port`."
    )
    ca_file: str | None = Field(None, description="As for a server.")


class UserCredentialShape(StrictShape):
    """The provider at which users connect to a server, and what they grant."""

    provider: str = Field(description="The name of a provider in `providers`.")
    scopes: list[str] | None = Field(None, description="The scopes that the server's tools need; none, if left out.")
    audience: str | None = Field(
        None, description="The resource that tokens are for: the URL of the server, or a name that the provider knows."
    )


UserAuth = Literal["user"] | UserCredentialShape
"""``user`` if every user enters a key of their own."""
_AUTH_DESCRIPTION: Final = (
    "`user` if each call uses a key that its user has entered, or the `provider` at which users connect. It is sent as "
    "`Authorization: Bearer`, or replaces `${USER_CREDENTIAL}` in "
)

CA_FILE_DESCRIPTION: Final = (
    "A PEM file of certificate authorities, relative to this file's folder, that are trusted in addition to the "
    "machine's. It is read again when it has changed."
)
PROXY_DESCRIPTION: Final = (
    "The proxy for its requests, `http://HOST:PORT`; `${NAME}` in it is replaced by the secret of that name. If left "
    "out, that of `HTTPS_PROXY`, except for hosts in `internal` and `NO_PROXY`. With a proxy, the addresses of host "
    "names are not checked."
)


class McpResourceShape(StrictShape):
    """A resource of an MCP server, by its URI or a URI template."""

    description: str | None = Field(
        None, description="Its description for models and clients, who never see the server's own."
    )
    context: bool | None = Field(
        None, description="Whether every agent with the server gets its text as context; `false`, if left out."
    )


class ServerToolsShape(StrictShape):
    """The parts of an MCP server that are used, and their rules."""

    tools: list[str] | None = Field(
        None, description="The tools to use, by their names on the server; all, if left out."
    )
    resources: dict[str, McpResourceShape] | None = Field(
        None,
        description="The resources that may be read, by URI or by a template such as `books://{name}`; none, if left "
        "out.",
    )
    prompts: list[str] | None = Field(
        None, description="The prompts to use, by their names on the server; none, if left out."
    )
    rules: dict[str, ToolRulesShape] | None = Field(
        None,
        description="The rules of each tool, by its name on the server, or `*` for every tool; `resources/read` is the "
        "tool that reads resources, `prompts/NAME` the one that gets a prompt.",
    )
    limits: LimitsText = Field(
        None, description="How often all its tools together may be called, in the form of a tool's `limits`."
    )
    permissions: list[Permission] | None = Field(
        None, description="The permissions that a principal needs to call any of its tools."
    )
    timeout: float | None = Field(None, gt=0, description="Seconds that a call may take: 60, if left out.")
    max_timeout: float | None = Field(
        None,
        gt=0,
        description="The maximum number of seconds for a call that reports progress: each report gives it another "
        "`timeout`. If left out, progress does not extend calls.",
    )
    start_timeout: float | None = Field(None, gt=0, description="Seconds until its first response: 30, if left out.")
    message_bytes: int | None = Field(
        None, ge=1_024, le=64 * 1024 * 1024, description="The maximum size of one message: 1 MiB, if left out."
    )


class _ServerLocationShape(StrictShape):
    """The location of an MCP server that a file declares. A separate base, so that its fields come first."""

    url: str | None = Field(None, description="Its URL, for streamable HTTP or the older HTTP with SSE.")
    headers: dict[str, str] | None = Field(
        None, description="Sent with every request; `${NAME}` in them is replaced by the secret of that name."
    )
    oauth: ClientCredentialsShape | None = Field(
        None, description="The client that gets the access tokens for its requests."
    )
    auth: UserAuth | None = Field(None, description=f"{_AUTH_DESCRIPTION}`headers` or `env`.")
    internal: list[str] | None = Field(
        None, description="Internal hosts that its URL may lead to, as `host` or `host:port`."
    )
    ca_file: str | None = Field(None, description=CA_FILE_DESCRIPTION)
    proxy: str | None = Field(None, description=PROXY_DESCRIPTION)
    command: list[str] | None = Field(None, description="The program and its arguments.")
    env: dict[str, str] | None = Field(
        None, description="The whole environment of its process; `${NAME}` is replaced by the secret of that name."
    )
    cwd: str | None = Field(None, description="The working directory of its process, relative to this file's folder.")


class McpServerShape(ServerToolsShape, _ServerLocationShape):
    """An MCP server at a `url`, or started by a `command`."""

    trust_first_use: bool | None = Field(
        None,
        description="Whether the tools that it has at its first use are approved automatically; `false`, if left out.",
    )
    ignore_word_order: bool | None = Field(
        None,
        description="Whether a tool stays approved if the words of its descriptions come in another order, as those of "
        "a set do after each start; `false`, if left out.",
    )


_PROGRAM: Final = "only the operator of the server declares programs, since callers of REST could run any code"
_OPERATOR_ONLY: Final[Mapping[str, str]] = {
    **dict.fromkeys(("command", "env", "cwd"), _PROGRAM),
    "internal": "only the operator of the server allows internal hosts",
    "proxy": "only the operator of the server declares proxies, behind which addresses are not checked",
    "ca_file": "only the operator of the server names files of its machine",
    "oauth": "only the operator of the server declares clients of OAuth; send a header with a secret that it allows",
    "auth": "only the operator of the server declares servers that use the credentials of users",
    "trust_first_use": "an administrator approves the tools, by their hashes",
}
"""The members that the servers of stored agents cannot have, with the reason."""


class _ServerUrlShape(StrictShape):
    """The location of an MCP server that a stored agent declares."""

    url: str = Field(
        max_length=2_000,
        description="Its URL, for streamable HTTP or the older HTTP with SSE, on a public host or on an internal one "
        "that the operator allows.",
    )
    headers: dict[str, str] | None = Field(
        None,
        max_length=32,
        description="Sent with every request, and visible to everyone who may read the agent; `${NAME}` in them is "
        "replaced by the secret of that name, if the operator allows it for this host.",
    )


class AgentServerShape(ServerToolsShape, _ServerUrlShape):
    """An MCP server of a stored agent at a `url`, declared by an administrator of its organisation."""

    timeout: float | None = Field(None, gt=0, le=600, description="Seconds that a call may take: 60, if left out.")
    max_timeout: float | None = Field(
        None,
        gt=0,
        le=600,
        description="The maximum number of seconds for a call that reports progress: each report gives it another "
        "`timeout`. If left out, progress does not extend calls.",
    )
    start_timeout: float | None = Field(
        None, gt=0, le=60, description="Seconds until its first response: 30, if left out."
    )
    message_bytes: int | None = Field(
        None, ge=1_024, le=1024 * 1024, description="The maximum size of one message: 1 MiB, if left out."
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_operator_members(cls, raw: Any) -> Any:  # any JSON
        for name, reason in _OPERATOR_ONLY.items():
            if isinstance(raw, dict) and name in raw:
                raise PydanticCustomError("operators_only", "{message}", {"message": f"{name}: {reason}"})
        return cast("object", raw)


def stored_servers(servers: Mapping[str, AgentServerShape] | None) -> dict[str, Any] | None:  # JSON
    """Return the servers of an agent in their stored form."""
    return {name: server.plain() for name, server in servers.items()} if servers else None


class ApiShape(StrictShape):
    """An API that is described by an OpenAPI 3.0 to 3.2 or Swagger 2.0 document in JSON or YAML."""

    document: str = Field(
        description="The document: a URL, or a file path, absolute or relative to this file's folder."
    )
    url: str | None = Field(
        None, description="The base URL of all paths; if given, it replaces the document's `servers`."
    )
    operations: list[str] | None = Field(
        None, description="The operations to use: their `operationId`, or method and path, `GET /pets/{id}`."
    )
    tags: list[str] | None = Field(
        None, description="Tags whose operations are used in addition to `operations`; all, if both are left out."
    )
    headers: dict[str, str] | None = Field(
        None,
        description="Sent with every call of an operation; `${NAME}` in them is replaced by the secret of that name.",
    )
    credentials: dict[str, str] | None = Field(
        None,
        description="The credential for each security scheme of the document, by its name: a key, a token, or "
        "`USER:PASSWORD`; `${NAME}` in it is replaced by the secret of that name.",
    )
    oauth: dict[str, ClientCredentialsShape] | None = Field(
        None,
        description="The client that gets the access tokens for each security scheme of the document, by its name.",
    )
    auth: UserAuth | None = Field(
        None,
        description="`user` if each call uses a key that its user has entered, or the `provider` at which users "
        "connect. It replaces `${USER_CREDENTIAL}` in `headers` or `credentials`.",
    )
    internal: list[str] | None = Field(
        None, description="The internal hosts that may be reached, as `host` or `host:port`."
    )
    ca_file: str | None = Field(None, description=CA_FILE_DESCRIPTION)
    proxy: str | None = Field(None, description=PROXY_DESCRIPTION)
    rules: dict[str, ToolRulesShape] | None = Field(
        None,
        description="The rules of each operation, by its id or by method and path, or `*` for every operation.",
    )
    limits: LimitsText = Field(
        None, description="How often all its operations together may be called, in the form of a tool's `limits`."
    )
    permissions: list[Permission] | None = Field(
        None, description="The permissions that a principal needs to call any of its operations."
    )
    slashes: bool | None = Field(
        None, description="Whether arguments in paths may contain slashes, sent as `%2F`; `false`, if left out."
    )
    timeout: float | None = Field(None, gt=0, description="Seconds that a call may take: 30, if left out.")
    answer_bytes: int | None = Field(
        None, ge=1_024, le=64 * 1024 * 1024, description="The maximum size of a response: 1 MiB, if left out."
    )
    trust_first_use: bool | None = Field(
        None,
        description="Whether the operations that it has at its first use are approved automatically; `false`, if left "
        "out.",
    )
