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
"""Limits in any of their forms; their own validator gives better messages than a union of types would."""
Permission = Annotated[str, Field(pattern=f"^{PERMISSION.pattern}$")]
LIMITS_SAID: Final = (
    "How often it may be called: `100/1h` by one principal; a mapping, or a list of them, says more. Windows are a "
    "whole number and s, m, h or d. Calls are counted in the database; `scope: process` counts in each process."
)


class ToolRulesShape(StrictShape):
    """The rules of a tool of an MCP server or an API; under the name `*`, of all whose own rules do not say it."""

    effect: Effect | None = Field(
        None,
        description="If left out, `destructive` for a tool of an MCP server, whose hints make it stronger, never "
        "weaker; that of its method for an operation of an API.",
    )
    permissions: list[Permission] | None = Field(
        None, description="What a principal must hold, beside the permissions of its server or API."
    )
    limits: LimitsText = Field(None, description=LIMITS_SAID)
    approval: Literal["auto", "ask"] | None = Field(
        None, description="`ask` if somebody has to approve every call; `auto`, if left out."
    )
    timeout: float | None = Field(
        None, gt=0, description="Seconds that a call may take; those of its server or API, if left out."
    )
    idempotent: bool | None = Field(
        None, description="Whether calling it again changes nothing more; `false`, if left out."
    )
    arguments: dict[str, dict[str, Any]] | None = Field(
        None,
        description="What arguments are allowed beyond the tool's own schema: the JSON Schema of each, with a `type`, "
        "a `const` or an `enum`; with `required: true`, calls without it are refused, too.",
    )
    unchecked_patterns: Literal["allow", "refuse"] | None = Field(
        None,
        description="`refuse` if no call is made of a tool whose schema has a pattern that cannot be checked; `allow`, "
        "if left out.",
    )


class ClientCredentialsShape(StrictShape):
    """A client of an authorization server, which gets access tokens by `client_credentials` of OAuth 2."""

    token_url: str = Field(description="The token endpoint of the authorization server.")
    client_id: str = Field(description="The name of the client; `${NAME}` in it is the secret of that name.")
    client_secret: str = Field(description="The secret of the client: `${NAME}` is the secret of that name.")
    scopes: list[str] | None = Field(None, description="The scopes that are asked for; none, if left out.")
    parameters: dict[str, str] | None = Field(
        None, description="More parameters of the request, such as `resource` or `audience`."
    )
    method: Literal["basic", "post"] | None = Field(
        None,
        description="`basic` sends the credentials in the header `Authorization`, `post` among the parameters; "
        "`basic`, if left out.",
    )


CA_FILE_SAID: Final = (
    "A file of certificates in PEM, seen from this file's folder, whose authorities are trusted beside the machine's. "
    "It is read again when it has changed."
)
PROXY_SAID: Final = (
    "The proxy that it is reached through, `http://HOST:PORT`; `${NAME}` in it is the secret of that name. If left "
    "out, that of `HTTPS_PROXY`, but for hosts in `internal` and `NO_PROXY`. Where names lead is not checked behind a "
    "proxy."
)


class McpResourceShape(StrictShape):
    """A resource of an MCP server, by its URI, or by a template of URIs."""

    description: str | None = Field(
        None, description="What it is, for models and clients, who read nothing that its server says of it."
    )
    context: bool | None = Field(
        None, description="Gives its text to every agent with the server as context; `false`, if left out."
    )


class ServerToolsShape(StrictShape):
    """The parts of an MCP server that are used, and the rules for them."""

    tools: list[str] | None = Field(
        None, description="The tools that are used, by their names there; all, if left out."
    )
    resources: dict[str, McpResourceShape] | None = Field(
        None,
        description="The resources that may be read, by their URIs, or by templates such as `books://{name}`; none, if "
        "left out.",
    )
    prompts: list[str] | None = Field(
        None, description="The prompts that are used, by their names there; none, if left out."
    )
    rules: dict[str, ToolRulesShape] | None = Field(
        None,
        description="What holds for each tool, by its name there, or `*` for every tool; `resources/read` is the tool "
        "that reads resources, `prompts/NAME` the one that gets a prompt.",
    )
    limits: LimitsText = Field(
        None, description="How often all of its tools together may be called, as in the rules of a tool."
    )
    permissions: list[Permission] | None = Field(
        None, description="What a principal must hold to call any of its tools."
    )
    timeout: float | None = Field(None, gt=0, description="Seconds that a call may take: 60, if left out.")
    max_timeout: float | None = Field(
        None,
        gt=0,
        description="Seconds that a call may take at most whose progress is reported: each report gives it `timeout` "
        "more. Progress gives no more time, if left out.",
    )
    start_timeout: float | None = Field(
        None, gt=0, description="Seconds until it has answered for the first time: 30, if left out."
    )
    message_bytes: int | None = Field(
        None, ge=1_024, le=64 * 1024 * 1024, description="How long one of its messages is at most: 1 MiB, if left out."
    )


class _ServerPlaceShape(StrictShape):
    """The place of an MCP server that a file declares; a base of its own, so that it is said before what is used."""

    url: str | None = Field(None, description="Its address, for streamable HTTP, or the older HTTP with SSE.")
    headers: dict[str, str] | None = Field(
        None, description="Sent with every request; `${NAME}` in them is the secret of that name."
    )
    oauth: ClientCredentialsShape | None = Field(
        None, description="Gets the access tokens that are sent with every request."
    )
    internal: list[str] | None = Field(
        None, description="Internal hosts that its address may lead to, as `host` or `host:port`."
    )
    ca_file: str | None = Field(None, description=CA_FILE_SAID)
    proxy: str | None = Field(None, description=PROXY_SAID)
    command: list[str] | None = Field(None, description="The program and its arguments.")
    env: dict[str, str] | None = Field(
        None, description="The whole environment of its process; `${NAME}` is the secret of that name."
    )
    cwd: str | None = Field(None, description="The folder that its process begins in, seen from this file's folder.")


class McpServerShape(ServerToolsShape, _ServerPlaceShape):
    """An MCP server: at a `url`, or started by a `command`."""

    trust_first_use: bool | None = Field(
        None, description="Approves the tools that it has when it is first used, as they are; `false`, if left out."
    )
    ignore_word_order: bool | None = Field(
        None,
        description="Whether a tool counts as approved though the words of its descriptions come in another order, as "
        "those of a set do at each start; `false`, if left out.",
    )


_PROGRAM: Final = "only the operator of the server declares programs, since one over REST would be anybody's code"
_OPERATORS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("command", "env", "cwd"), _PROGRAM),
    "internal": "only the operator of the server allows internal hosts",
    "proxy": "only the operator of the server declares proxies, behind which addresses are not checked",
    "ca_file": "only the operator of the server names files of its machine",
    "oauth": "only the operator of the server declares clients of OAuth; send a header with a secret that it allows",
    "trust_first_use": "an administrator approves the tools, by their hashes",
}
"""The members that a stored agent's server has not, with the reason."""


class _ServerUrlShape(StrictShape):
    """The place of an MCP server that a stored agent declares."""

    url: str = Field(
        max_length=2_000,
        description="Its address, for streamable HTTP, or the older HTTP with SSE: a public one, or an internal host "
        "that the operator allows.",
    )
    headers: dict[str, str] | None = Field(
        None,
        max_length=32,
        description="Sent with every request, and shown to everyone who may read the agent; `${NAME}` in them is the "
        "secret of that name, if the operator allows it to be sent to this host.",
    )


class AgentServerShape(ServerToolsShape, _ServerUrlShape):
    """An MCP server of a stored agent: at a `url`, declared by an administrator of its organisation."""

    timeout: float | None = Field(None, gt=0, le=600, description="Seconds that a call may take: 60, if left out.")
    max_timeout: float | None = Field(
        None,
        gt=0,
        le=600,
        description="Seconds that a call may take at most whose progress is reported: each report gives it `timeout` "
        "more. Progress gives no more time, if left out.",
    )
    start_timeout: float | None = Field(
        None, gt=0, le=60, description="Seconds until it has answered for the first time: 30, if left out."
    )
    message_bytes: int | None = Field(
        None, ge=1_024, le=1024 * 1024, description="How long one of its messages is at most: 1 MiB, if left out."
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_is_the_operators(cls, raw: Any) -> Any:  # any JSON
        for name, why in _OPERATORS.items():
            if isinstance(raw, dict) and name in raw:
                raise PydanticCustomError("operators_only", "{told}", {"told": f"{name}: {why}"})
        return cast("object", raw)


def kept_servers(servers: Mapping[str, AgentServerShape] | None) -> dict[str, Any] | None:  # JSON
    """Return the servers of an agent in their stored form."""
    return {name: server.plain() for name, server in servers.items()} if servers else None


class ApiShape(StrictShape):
    """An API whose operations a document describes, of OpenAPI 3.0 to 3.2 or Swagger 2.0, in JSON or YAML."""

    document: str = Field(description="The document: a URL, or a file, absolute or seen from this file's folder.")
    url: str | None = Field(
        None, description="The URL before all paths; in the place of the document's `servers`, if given."
    )
    operations: list[str] | None = Field(
        None, description="The operations that are used: their `operationId`, or method and path, `GET /pets/{id}`."
    )
    tags: list[str] | None = Field(
        None, description="The tags whose operations are used, beside `operations`; all, if both are left out."
    )
    headers: dict[str, str] | None = Field(
        None, description="Sent with every request of an operation; `${NAME}` in them is the secret of that name."
    )
    credentials: dict[str, str] | None = Field(
        None,
        description="The credential of each security scheme of the document, by its name: a key, a token, or "
        "`USER:PASSWORD`; `${NAME}` in it is the secret of that name.",
    )
    oauth: dict[str, ClientCredentialsShape] | None = Field(
        None, description="What gets the access tokens of a security scheme of the document, by its name."
    )
    internal: list[str] | None = Field(
        None, description="Internal hosts that may be requested, as `host` or `host:port`; no others are."
    )
    ca_file: str | None = Field(None, description=CA_FILE_SAID)
    proxy: str | None = Field(None, description=PROXY_SAID)
    rules: dict[str, ToolRulesShape] | None = Field(
        None,
        description="What holds for each operation, by its id or by method and path, or `*` for every operation.",
    )
    limits: LimitsText = Field(
        None, description="How often all of its operations together may be called, as in the rules of a tool."
    )
    permissions: list[Permission] | None = Field(
        None, description="What a principal must hold to call any of its operations."
    )
    slashes: bool | None = Field(
        None, description="Whether arguments in paths may contain slashes, sent as `%2F`; `false`, if left out."
    )
    timeout: float | None = Field(None, gt=0, description="Seconds that a call may take: 30, if left out.")
    answer_bytes: int | None = Field(
        None, ge=1_024, le=64 * 1024 * 1024, description="How long an answer is at most: 1 MiB, if left out."
    )
    trust_first_use: bool | None = Field(
        None,
        description="Approves the operations that it has when it is first used, as they are; `false`, if left out.",
    )
