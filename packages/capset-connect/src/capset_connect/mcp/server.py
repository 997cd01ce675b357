"""Declarations of MCP servers whose tools agents may use (spec 7, M1)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from capset.definitions.fields import POSITIVE, REAL, checked_field, requiring, store_checked, within
from capset.definitions.governance.acts import ActName
from capset.definitions.governance.limits import checked_limits
from capset.definitions.governance.policies import Policy
from capset.definitions.identity import FrozenValue
from capset.definitions.names import checked_flag, checked_permissions
from capset.definitions.secrets import Secrets
from capset.definitions.tools.options import Effect, Limits
from capset.errors import DefinitionError, closest
from capset.wire.tool_sources import McpServerShape, ProviderShape
from capset_connect.client_credentials import ClientCredentials, client_credentials_of
from capset_connect.declarations import (
    ANSWER_BYTES,
    BYTES,
    HEADER,
    SECONDS,
    distinct_names,
    optional_names,
    optional_proxy,
    optional_url,
    secrets_in,
    short_name,
    source_name,
    texts_by,
    words,
)
from capset_connect.mcp.resources import Resources, checked_resources, context_uris
from capset_connect.tool_rules import EVERY, Rules, checked_rules, options_of, rules_of, unknown_arguments
from capset_connect.vault.user_auth import PLACEHOLDER, UserCredential, user_credential_of

if TYPE_CHECKING:
    import httpx2

READ: Final = "resources/read"
"""The name, in rules, of the tool that reads a server's resources."""
PROMPTS: Final = "prompts/"
"""The prefix, in pins and rules, of the name of a tool that gets a prompt."""
OF_AGENTS: Final = "agents/"
"""The prefix of the pin keys of stored agents' own servers."""
INHERITED: Final = ("PATH", "HOME")
"""Variables that ``npx`` and ``uvx`` need from the machine's environment, and that are not secret."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTIONAL_SECONDS: Final = requiring("{} must be a positive number of seconds", within(REAL, POSITIVE), optional=True)
_OF_URLS: Final = ("headers", "oauth", "internal", "ca_file", "proxy")
"""The fields that do not apply to a server that is started by a command."""
Authentication = Callable[[Secrets], Awaitable["httpx2.Auth"]]
"""Creates the ``httpx2.Auth`` of one connection from the kernel's secrets."""


def _optional_oauth(field: str, client: ClientCredentials | None) -> ClientCredentials | None:
    return None if client is None else client_credentials_of(field, client)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSource(FrozenValue):
    """An MCP server, identified by its name alone."""

    name: str = checked_field(source_name("an MCP server"))
    """Letters, digits, ``_`` and ``-``; also the prefix of its tools' names."""
    agent: str | None = checked_field(
        requiring("{} must be the id of a stored agent", lambda agent_id: isinstance(agent_id, str), optional=True),
        None,
    )
    """The id of the stored agent that owns the server; hosts leave it out."""

    def __post_init__(self) -> None:
        store_checked(self)

    @property
    def label(self) -> str:
        """Its kind and name, for messages."""
        return f"MCP server {self.name!r}"

    @property
    def capability(self) -> str:
        """The name of the capability of its tools."""
        return f"mcp:{self.name}"

    @property
    def pin_key(self) -> str:
        """The key of its tools' pins in a store. A stored agent's key never equals the name of a host's server."""
        return self.name if self.agent is None else f"{OF_AGENTS}{self.agent}/{self.name}"

    @property
    def approval_act(self) -> ActName:
        """The act that approves its tools."""
        return "mcp.approve"

    @property
    def said(self) -> str:
        """The description of its capability."""
        return "Tools of an MCP server."

    def tool_name(self, original_name: str) -> str:
        """Return the local name of a tool: the server's name and the tool's own, with ``_`` for dots and slashes.

        A name of more than 64 characters is cut, and ends with a part of the hash of the tool's own name.
        """
        return short_name(f"{self.name}_{original_name}".replace(".", "_").replace("/", "_"), original_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer(McpSource):
    """An MCP server: at a ``url``, or a process that is started by a ``command`` and used over its streams.

    A URL is used over streamable HTTP, or over the older HTTP with SSE if the server refuses that. Headers,
    environment variables and the proxy may contain ``${NAME}``, which stands for the secret of that name. A process
    gets only the environment variables declared here. Raises ``DefinitionError``, naming the server and the field.
    """

    url: str | None = checked_field(optional_url, None)
    headers: Mapping[str, str] = checked_field(texts_by("a header", HEADER), ())
    """Sent with every request."""
    auth: Authentication | UserCredential | None = checked_field(
        requiring(
            "{} must be a UserCredential, or a function of the secrets that returns an httpx2.Auth",
            lambda auth: callable(auth) or isinstance(auth, UserCredential),
            optional=True,
        ),
        None,
    )
    """Creates the authentication of each connection, such as an OAuth flow of the MCP SDK.

    With a ``UserCredential``, each call uses the credential of its user: as ``Authorization: Bearer``, or wherever
    headers or environment variables contain ``${USER_CREDENTIAL}``.
    """
    oauth: ClientCredentials | None = checked_field(_optional_oauth, None)
    """The credentials that obtain an access token, which is sent with every request."""
    internal: Iterable[str] = checked_field(words, ())
    """The internal hosts that may be contacted, as ``host`` or ``host:port``; others are refused."""
    ca_file: str | None = checked_field(
        requiring("{} must be a path", lambda path: isinstance(path, str), optional=True), None
    )
    """A PEM file of certificate authorities that are trusted in addition to the machine's."""
    proxy: str | None = checked_field(optional_proxy, None)
    """The proxy for requests to the URL, instead of the one in the environment (``HTTPS_PROXY``).

    The proxy resolves host names itself, so their addresses are not checked.
    """
    command: Iterable[str] = checked_field(words, ())
    """The program and its arguments."""
    env: Mapping[str, str] = checked_field(texts_by("a variable", _VARIABLE), ())
    """The whole environment of the process."""
    cwd: str | None = checked_field(
        requiring("{} must be a path", lambda path: isinstance(path, str), optional=True), None
    )
    tools: Iterable[str] | None = checked_field(optional_names, None)
    """The tools to use, by their names on the server; all if left out."""
    resources: Resources = checked_field(checked_resources, ())
    """The resources that may be read, by URI or template; none if left out."""
    prompts: Iterable[str] = checked_field(distinct_names, ())
    """The prompts to use, by their names on the server; none if left out."""
    rules: Rules = checked_field(checked_rules, ())
    """The rules of each tool, by its name on the server, or ``*`` for every tool: effect, limits, approval and so on.

    ``resources/read`` is the tool that reads resources, ``prompts/NAME`` the one that gets a prompt.
    """
    limits: Limits = checked_field(checked_limits, ())
    """Call limits for all of its tools together, in addition to each tool's own."""
    permissions: Iterable[str] = checked_field(checked_permissions, frozenset())
    """The permissions that a principal needs to call any of its tools."""
    timeout: float = checked_field(SECONDS, 60.0)
    """Seconds that a call may take."""
    max_timeout: float | None = checked_field(_OPTIONAL_SECONDS, None)
    """The maximum seconds of a call that reports progress; each report allows it ``timeout`` more seconds."""
    start_timeout: float = checked_field(SECONDS, 30.0)
    """Seconds that the server may take until its first response."""
    message_bytes: int = checked_field(BYTES, ANSWER_BYTES)
    """The maximum size of one of its messages."""
    trust_first_use: bool = checked_field(checked_flag, False)
    """Whether the tools that it offers at its first use are approved automatically."""
    ignore_word_order: bool = checked_field(checked_flag, False)
    """Whether a tool still counts as approved if only the order of words in its descriptions has changed."""

    def __post_init__(self) -> None:
        try:
            store_checked(self)
        except DefinitionError as error:
            raise DefinitionError(f"MCP server {self.name!r:.80}: {error.message}", hint=error.hint) from None
        if (self.url is None) == (not self.command):
            raise DefinitionError(f"MCP server {self.name!r} needs either a url or a command")
        unused = [name for name in _OF_URLS if getattr(self, name)] if self.url is None else []
        unused += ["auth"] if self.url is None and callable(self.auth) else []
        unused += [name for name in ("env", "cwd") if getattr(self, name)] if self.url is not None else []
        if unused:
            kind = "a command" if self.url is None else "a url"
            raise DefinitionError(f"MCP server {self.name!r}: {unused[0]} does not apply to a server with {kind}")
        self._check_rules()
        self._check_user()
        has_header = any(name.lower() == "authorization" for name in self.headers)
        ways = {"the header Authorization": has_header, "auth": callable(self.auth), "oauth": self.oauth}
        declared = [way for way, value in ways.items() if value]
        if len(declared) > 1:
            raise DefinitionError(f"MCP server {self.name!r}: give {declared[0]} or {declared[1]}, not both")
        if self.max_timeout is not None and self.max_timeout < self.timeout:
            raise DefinitionError(
                f"MCP server {self.name!r}: max_timeout must be timeout, {self.timeout:g} s, or more; got "
                f"{self.max_timeout:g}"
            )

    def _check_user(self) -> None:
        """Raise ``DefinitionError`` unless the credential of a user, if there is one, has exactly one way in."""
        is_placed = any(PLACEHOLDER in text for text in (*self.headers.values(), *self.env.values()))
        if not isinstance(self.auth, UserCredential):
            if is_placed:
                raise DefinitionError(f"MCP server {self.name!r}: {PLACEHOLDER} needs auth: user")
            return
        if self.command and not is_placed:
            raise DefinitionError(
                f"MCP server {self.name!r}: auth: user needs a variable in env with {PLACEHOLDER}",
                hint=f'env: {{API_KEY: "{PLACEHOLDER}"}}',
            )
        if self.oauth is not None:
            raise DefinitionError(f"MCP server {self.name!r}: give auth: user or oauth, not both")
        has_header = any(name.lower() == "authorization" for name in self.headers)
        if has_header and not any(PLACEHOLDER in text for text in self.headers.values()):
            raise DefinitionError(
                f"MCP server {self.name!r}: the header Authorization is that of the user: write {PLACEHOLDER} in it"
            )
        if PLACEHOLDER in (self.proxy or ""):
            raise DefinitionError(f"MCP server {self.name!r}: a proxy cannot have the credential of a user")
        if context_uris(self.resources):
            raise DefinitionError(f"MCP server {self.name!r}: resources cannot be context with auth: user")
        if self.trust_first_use:
            raise DefinitionError(
                f"MCP server {self.name!r}: trust_first_use cannot be used with auth: user",
                hint="connect it, and approve its tools as yourself: capset mcp approve NAME --agent FILE",
            )

    @property
    def sent_headers(self) -> Mapping[str, str]:
        """The headers of every request, with the credential of the user if they do not place it themselves."""
        is_placed = any(PLACEHOLDER in text for text in self.headers.values())
        if not isinstance(self.auth, UserCredential) or is_placed:
            return self.headers
        return {**self.headers, "Authorization": f"Bearer {PLACEHOLDER}"}

    def _check_rules(self) -> None:
        """Raise ``DefinitionError`` for rules that cannot apply to resources or prompts."""
        for name in [*([READ] if self.resources else ()), *(f"{PROMPTS}{prompt}" for prompt in self.prompts)]:
            if self.rules.get(name, {}).get("effect", "read") != "read":
                raise DefinitionError(f"MCP server {self.name!r}: rules of {name!r}: its effect is always read")
        if context_uris(self.resources) and rules_of(self.rules, READ).get("approval") == "ask":
            raise DefinitionError(
                f"MCP server {self.name!r}: resources that need an approval cannot be context, which does not wait",
                hint=f"give {READ} a rule of its own: approval auto",
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it needs."""
        credentials = () if self.oauth is None else self.oauth.texts
        names = secrets_in((*self.headers.values(), *self.env.values(), *credentials, self.proxy or ""))
        return self.auth.secrets(names) if isinstance(self.auth, UserCredential) else names

    @property
    def longest(self) -> float:
        """The maximum seconds that a call can take."""
        return self.max_timeout or self.timeout

    @property
    def place(self) -> str:
        """Its URL or its command. A server of the same name at another place is a different server."""
        return self.url or shlex.join(self.command)


def tool_options(
    server: McpServer, original_name: str, effect: Effect, policies: Iterable[Policy], arguments: Collection[str]
) -> dict[str, Any]:  # the options of a tool, as make_tool takes them
    """Return the options of a tool under its server's rules; ``arguments`` are the names in the tool's schema."""
    return options_of(
        f"mcp:{server.tool_name(original_name)}",
        {**rules_of(server.rules, original_name), "effect": effect},
        permissions=server.permissions,
        policies=policies,
        timeout=server.longest,
        names=arguments,
        unknown=unknown_arguments(server.rules, original_name, arguments),
    )


def misnamed_rule(server: McpServer, name: str) -> str | None:
    """Return what is wrong with the name of a rule, or ``None`` if the declaration alone does not show it."""
    if name == EVERY or (name == READ and server.resources):
        return None
    kind, bare_name, chosen = "tools", name, server.tools
    if name.startswith(PROMPTS):
        kind, bare_name, chosen = "prompts", name.removeprefix(PROMPTS), server.prompts
    if chosen is None or bare_name in chosen:
        return None
    near = closest(bare_name, chosen)
    return f"rules: {kind} leaves out {bare_name!r}" + (f"; did you mean {near!r}?" if near else "")


def server_of(
    name: str, shape: McpServerShape, folder: Path, providers: Mapping[str, ProviderShape] = MappingProxyType({})
) -> McpServer:
    """Return the server that a file in ``folder`` declares, with its ``providers``. Raises ``DefinitionError``."""
    options: dict[str, Any] = shape.model_dump(exclude_none=True)
    if shape.auth is not None:
        options["auth"] = user_credential_of(f"MCP server {name!r}", shape.auth, providers, folder)
    for path in ("cwd", "ca_file"):
        if path in options:
            options[path] = str(folder / options[path])
    return McpServer(name=name, **options)
