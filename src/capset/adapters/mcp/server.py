"""MCP servers whose tools agents may use, as their host declares them (spec 7, M1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from capset.adapters.tool_rules import Rules, checked_rules
from capset.definitions.capabilities import AnyCapability, Capability
from capset.definitions.fields import POSITIVE, REAL, checked_field, requiring, store_checked, within
from capset.definitions.names import checked_flag, checked_permissions, checked_text, listed, mapped
from capset.definitions.tools.definition import AnyTool
from capset.errors import DefinitionError, ToolError
from capset.net.urls import read_url
from capset.wire.mcp_servers import McpServerShape

SERVER: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
"""The name of a server; ``mcp:NAME`` is the capability of its tools."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
SECRET: Final = re.compile(r"\$\{([A-Za-z][A-Za-z0-9_]{0,99})\}")
"""The place of a secret in a header or a variable of the environment: ``Bearer ${GITHUB_TOKEN}``."""
RESULT_BYTES: Final = 1024 * 1024
"""The maximum size of a message of a server that says nothing else, in bytes."""


def _texts(what: str, grammar: re.Pattern[str]) -> Any:  # a check, as checked_field takes it
    def check(field: str, given: Mapping[str, str]) -> Mapping[str, str]:
        found = {name: checked_text(f"{field} {name!r}", text) for name, text in mapped(field, given or {}).items()}
        for name in found:
            if not grammar.fullmatch(name):
                raise DefinitionError(f"{field}: {name!r} is no name of {what}")
        return MappingProxyType(found)

    return check


def _words(field: str, given: Iterable[str]) -> tuple[str, ...]:
    return tuple(checked_text(f"{field}: a word", one) for one in listed(field, given))


def _optional_names(field: str, given: Iterable[str] | None) -> frozenset[str] | None:
    return None if given is None else frozenset(_words(field, given))


def _optional_url(field: str, given: str | None) -> str | None:
    if given is not None:
        try:
            read_url(given)
        except ToolError as error:
            raise DefinitionError(f"{field}: {error.message}") from None
    return given


def _name(_: str, given: object) -> str:
    if not isinstance(given, str) or not SERVER.fullmatch(given):
        raise DefinitionError(f"the name of an MCP server must match {SERVER.pattern}; got {given!r:.80}")
    return given


_SECONDS: Final = requiring("{} must be a positive number of seconds", within(REAL, POSITIVE))
_BYTES: Final = requiring("{} must be a number of bytes from 1,024 to 64 MiB", within(int, 1024, 64 * 1024 * 1024))


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """An MCP server: at a ``url`` (streamable HTTP), or started by a ``command`` and spoken to over its streams.

    Headers, and variables of the environment, may contain ``${NAME}``, which stands for the secret of that name. A
    process gets the variables that are declared here, and no others. Raises ``DefinitionError``, naming the server and
    the field.
    """

    name: str = checked_field(_name)
    """Letters, digits, ``_`` and ``-``; also the prefix of its tools' names."""
    url: str | None = checked_field(_optional_url, None)
    headers: Mapping[str, str] = checked_field(_texts("a header", _HEADER), ())
    """Sent with every request."""
    internal: Iterable[str] = checked_field(_words, ())
    """The internal hosts that the URL may lead to, ``host`` or ``host:port``; others are refused."""
    command: Iterable[str] = checked_field(_words, ())
    """The program and its arguments."""
    env: Mapping[str, str] = checked_field(_texts("a variable", _VARIABLE), ())
    """The whole environment of the process."""
    cwd: str | None = checked_field(
        requiring("{} must be a path", lambda one: isinstance(one, str), optional=True), None
    )
    tools: Iterable[str] | None = checked_field(_optional_names, None)
    """The tools that are used, by their names there; all of them if left out."""
    rules: Rules = checked_field(checked_rules, ())
    """What holds for each tool, by its name there, or ``*`` for every tool: effect, limits, approval and so on."""
    permissions: Iterable[str] = checked_field(checked_permissions, frozenset())
    """What a principal must hold to call any of its tools."""
    timeout: float = checked_field(_SECONDS, 60.0)
    """Seconds that a call may take."""
    start_timeout: float = checked_field(_SECONDS, 30.0)
    """Seconds until the server has answered for the first time."""
    message_bytes: int = checked_field(_BYTES, RESULT_BYTES)
    """The maximum size of one of its messages."""
    trust_first_use: bool = checked_field(checked_flag, False)
    """Whether the tools that it has when it is first used are approved as they are."""

    def __post_init__(self) -> None:
        try:
            store_checked(self)
        except DefinitionError as error:
            raise DefinitionError(f"MCP server {self.name!r:.80}: {error.message}", hint=error.hint) from None
        if (self.url is None) == (not self.command):
            raise DefinitionError(f"MCP server {self.name!r} needs either a url or a command")
        unused = [name for name in ("headers", "internal") if getattr(self, name)] if self.url is None else []
        unused += [name for name in ("env", "cwd") if getattr(self, name)] if self.url is not None else []
        if unused:
            kind = "a command" if self.url is None else "a url"
            raise DefinitionError(f"MCP server {self.name!r}: {unused[0]} means nothing for one with {kind}")

    @property
    def capability(self) -> str:
        """The name of the capability of its tools."""
        return f"mcp:{self.name}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it needs."""
        texts = (*self.headers.values(), *self.env.values())
        return tuple(dict.fromkeys(name for text in texts for name in SECRET.findall(text)))


Upstream = Callable[[McpServer], AnyCapability]
"""Returns the capability of a server, made of what is pinned of it somewhere, such as ``McpServers.capability``."""


def server_of(name: str, shape: McpServerShape, folder: Path) -> McpServer:
    """Return a server as a file in ``folder`` declares it. Raises ``DefinitionError``."""
    given: dict[str, Any] = shape.model_dump(exclude_none=True)
    if shape.cwd is not None:
        given["cwd"] = str(folder / shape.cwd)
    return McpServer(name=name, **given)


def capability_with(server: McpServer, tools: Iterable[AnyTool] = ()) -> Capability:
    """Return the capability of a server with these tools; without them, it stands for what is not looked at."""
    return Capability(
        server.capability, title=server.name, description="Tools of an MCP server.", tools=tools, risk="high"
    )
