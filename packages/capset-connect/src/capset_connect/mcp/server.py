"""MCP servers whose tools agents may use, as their host declares them (spec 7, M1)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
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
from capset.wire.tool_sources import McpServerShape
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

if TYPE_CHECKING:
    import httpx2

READ: Final = "resources/read"
"""The name, there, of the tool that reads the resources of a server; rules may name it."""
PROMPTS: Final = "prompts/"
"""The beginning of the name, there, of the tool that gets a prompt; its pin and its rules have it."""
OF_AGENTS: Final = "agents/"
"""The beginning of the keys of the pins of stored agents' own servers."""
INHERITED: Final = ("PATH", "HOME")
"""Variables that ``npx`` and ``uvx`` need of the machine, and that are no secrets."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTIONAL_SECONDS: Final = requiring("{} must be a positive number of seconds", within(REAL, POSITIVE), optional=True)
_OF_URLS: Final = ("headers", "auth", "oauth", "internal", "ca_file", "proxy")
"""The fields that mean nothing for a server that is started by a command."""
Authentication = Callable[[Secrets], Awaitable["httpx2.Auth"]]
"""Returns what authenticates the requests of one connection, made with the kernel's secrets."""


def _optional_oauth(field: str, client: ClientCredentials | None) -> ClientCredentials | None:
    return None if client is None else client_credentials_of(field, client)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSource(FrozenValue):
    """An MCP server by its name alone."""

    name: str = checked_field(source_name("an MCP server"))
    """Letters, digits, ``_`` and ``-``; also the prefix of its tools' names."""
    agent: str | None = checked_field(
        requiring("{} must be the id of a stored agent", lambda agent_id: isinstance(agent_id, str), optional=True),
        None,
    )
    """The stored agent whose own it is, by its id; hosts leave it out."""

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
        """The key of its tools' pins in a store: that of a stored agent is like no name of a host's."""
        return self.name if self.agent is None else f"{OF_AGENTS}{self.agent}/{self.name}"

    @property
    def approval_act(self) -> ActName:
        """The act by which its tools are approved."""
        return "mcp.approve"

    @property
    def said(self) -> str:
        """The description of its capability."""
        return "Tools of an MCP server."

    def tool_name(self, original_name: str) -> str:
        """Return the name that a tool has here: that of the server, and its own with ``_`` for dots and slashes.

        One of more than 64 letters ends with a part of the hash of its own name instead.
        """
        return short_name(f"{self.name}_{original_name}".replace(".", "_").replace("/", "_"), original_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer(McpSource):
    """An MCP server: at a ``url``, or started by a ``command`` and spoken to over its streams.

    At a URL, streamable HTTP is spoken, or the older HTTP with SSE where a server refuses that. Headers, variables of
    the environment and the proxy may contain ``${NAME}``, which stands for the secret of that name. A process gets the
    variables that are declared here, and no others. Raises ``DefinitionError``, naming the server and the field.
    """

    url: str | None = checked_field(optional_url, None)
    headers: Mapping[str, str] = checked_field(texts_by("a header", HEADER), ())
    """Sent with every request."""
    auth: Authentication | None = checked_field(
        requiring("{} must be a function of the secrets that returns an httpx2.Auth", callable, optional=True), None
    )
    """Makes what authenticates the requests, such as a flow of OAuth of the MCP SDK, for each connection."""
    oauth: ClientCredentials | None = checked_field(_optional_oauth, None)
    """Gets the access tokens that are sent with every request."""
    internal: Iterable[str] = checked_field(words, ())
    """The internal hosts that the URL may lead to, ``host`` or ``host:port``; others are refused."""
    ca_file: str | None = checked_field(
        requiring("{} must be a path", lambda path: isinstance(path, str), optional=True), None
    )
    """A file of certificates in PEM, whose authorities are trusted beside the machine's."""
    proxy: str | None = checked_field(optional_proxy, None)
    """The proxy that the URL is reached through, in the place of those of the environment (``HTTPS_PROXY``).

    It looks names up itself, so where they lead is not checked.
    """
    command: Iterable[str] = checked_field(words, ())
    """The program and its arguments."""
    env: Mapping[str, str] = checked_field(texts_by("a variable", _VARIABLE), ())
    """The whole environment of the process."""
    cwd: str | None = checked_field(
        requiring("{} must be a path", lambda path: isinstance(path, str), optional=True), None
    )
    tools: Iterable[str] | None = checked_field(optional_names, None)
    """The tools that are used, by their names there; all of them if left out."""
    resources: Resources = checked_field(checked_resources, ())
    """The resources that may be read, by URI or template; none if left out."""
    prompts: Iterable[str] = checked_field(distinct_names, ())
    """The prompts that are used, by their names there; none if left out."""
    rules: Rules = checked_field(checked_rules, ())
    """The rules of each tool, by its name on the server, or ``*`` for every tool: effect, limits, approval and so on.

    ``resources/read`` is the tool that reads resources, ``prompts/NAME`` the one that gets a prompt.
    """
    limits: Limits = checked_field(checked_limits, ())
    """How often all of its tools together may be called, beside the limits of each."""
    permissions: Iterable[str] = checked_field(checked_permissions, frozenset())
    """What a principal must hold to call any of its tools."""
    timeout: float = checked_field(SECONDS, 60.0)
    """Seconds that a call may take."""
    max_timeout: float | None = checked_field(_OPTIONAL_SECONDS, None)
    """Seconds that a call may take at most whose progress is reported: each report gives it ``timeout`` more."""
    start_timeout: float = checked_field(SECONDS, 30.0)
    """Seconds until the server has answered for the first time."""
    message_bytes: int = checked_field(BYTES, ANSWER_BYTES)
    """The maximum size of one of its messages."""
    trust_first_use: bool = checked_field(checked_flag, False)
    """Whether the tools that it has when it is first used are approved as they are."""
    ignore_word_order: bool = checked_field(checked_flag, False)
    """Whether a tool counts as approved though the words of its descriptions come in another order."""

    def __post_init__(self) -> None:
        try:
            store_checked(self)
        except DefinitionError as error:
            raise DefinitionError(f"MCP server {self.name!r:.80}: {error.message}", hint=error.hint) from None
        if (self.url is None) == (not self.command):
            raise DefinitionError(f"MCP server {self.name!r} needs either a url or a command")
        unused = [name for name in _OF_URLS if getattr(self, name)] if self.url is None else []
        unused += [name for name in ("env", "cwd") if getattr(self, name)] if self.url is not None else []
        if unused:
            kind = "a command" if self.url is None else "a url"
            raise DefinitionError(f"MCP server {self.name!r}: {unused[0]} means nothing for one with {kind}")
        self._check_rules()
        has_header = any(name.lower() == "authorization" for name in self.headers)
        ways = {"the header Authorization": has_header, "auth": self.auth, "oauth": self.oauth}
        declared = [way for way, value in ways.items() if value]
        if len(declared) > 1:
            raise DefinitionError(f"MCP server {self.name!r}: give {declared[0]} or {declared[1]}, not both")
        if self.max_timeout is not None and self.max_timeout < self.timeout:
            raise DefinitionError(
                f"MCP server {self.name!r}: max_timeout must be timeout, {self.timeout:g} s, or more; got "
                f"{self.max_timeout:g}"
            )

    def _check_rules(self) -> None:
        """Raise ``DefinitionError`` for rules that could not hold for resources or prompts."""
        for name in [*([READ] if self.resources else ()), *(f"{PROMPTS}{prompt}" for prompt in self.prompts)]:
            if self.rules.get(name, {}).get("effect", "read") != "read":
                raise DefinitionError(f"MCP server {self.name!r}: rules of {name!r}: its effect is always read")
        if context_uris(self.resources) and rules_of(self.rules, READ).get("approval") == "ask":
            raise DefinitionError(
                f"MCP server {self.name!r}: resources that need an approval cannot be context, which waits for no one",
                hint=f"give {READ} a rule of its own: approval auto",
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it needs."""
        credentials = () if self.oauth is None else self.oauth.texts
        return secrets_in((*self.headers.values(), *self.env.values(), *credentials, self.proxy or ""))

    @property
    def longest(self) -> float:
        """The seconds after which a call ends in any case."""
        return self.max_timeout or self.timeout

    @property
    def place(self) -> str:
        """Its URL, or its command: a server of the same name elsewhere is another one."""
        return self.url or shlex.join(self.command)


def tool_options(
    server: McpServer, original_name: str, effect: Effect, policy: Policy, arguments: Collection[str]
) -> dict[str, Any]:  # the options of a tool, as make_tool takes them
    """Return the options of a tool, by its name on the server, under its rules there; ``arguments`` are its own."""
    return options_of(
        f"mcp:{server.tool_name(original_name)}",
        {**rules_of(server.rules, original_name), "effect": effect},
        permissions=server.permissions,
        policies=[policy],
        timeout=server.longest,
        names=arguments,
        unknown=unknown_arguments(server.rules, original_name, arguments),
    )


def misnamed_rule(server: McpServer, name: str) -> str | None:
    """Return what is wrong with the name of a rule, as far as the declaration itself says what is used."""
    if name == EVERY or (name == READ and server.resources):
        return None
    kind, bare_name, chosen = "tools", name, server.tools
    if name.startswith(PROMPTS):
        kind, bare_name, chosen = "prompts", name.removeprefix(PROMPTS), server.prompts
    if chosen is None or bare_name in chosen:
        return None
    near = closest(bare_name, chosen)
    return f"rules: {kind} leaves out {bare_name!r}" + (f"; did you mean {near!r}?" if near else "")


def server_of(name: str, shape: McpServerShape, folder: Path) -> McpServer:
    """Return a server as a file in ``folder`` declares it. Raises ``DefinitionError``."""
    options: dict[str, Any] = shape.model_dump(exclude_none=True)
    for path in ("cwd", "ca_file"):
        if path in options:
            options[path] = str(folder / options[path])
    return McpServer(name=name, **options)
