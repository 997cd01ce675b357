"""Conversion of MCP client files, with ``mcpServers`` in JSON, to declarations of a configuration file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic_core import from_json

from capset.definitions.secrets import MASK, is_secret_name, mask_urls
from capset.errors import DefinitionError
from capset_connect.mcp.server import INHERITED

SERVER_KEYS: Final = ("mcpServers", "servers", "mcp_servers")
"""Claude, Cursor, Windsurf and Gemini use the first, VS Code the second."""
_KNOWN: Final = frozenset({"command", "args", "env", "cwd", "url", "serverUrl", "httpUrl", "headers", "type"})
_HELD: Final = re.compile(r"\$\{(?:env:|input:)?([A-Za-z][A-Za-z0-9_-]*)\}")
"""A placeholder that a client fills in: ``${NAME}``, ``${env:NAME}``, ``${input:name}``."""
_LEFT_OUT: Final = "SECRET-LEFT-OUT"
"""Replaces a secret where a configuration file supports no placeholder."""
_UNNAMED: Final = re.compile(r"[^a-z0-9_-]+")
_MEMBER: Final = re.compile(r"([A-Za-z0-9_.-]+)[ \t]*[:=][ \t]*")
"""The prefix of a named value in an argument: ``--token=``, ``GITHUB_TOKEN=`` of ``docker -e``, ``X-Api-Key: ``."""
_CREDENTIALS: Final = re.compile(r"(?:bearer|basic)[ \t]+\S", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ClientFile:
    """The servers of a client's file, as declarations of a configuration.

    ``secrets`` are the names of secrets whose values were in the file and have been removed. ``left_out`` lists what a
    configuration cannot express.
    """

    servers: Mapping[str, Mapping[str, Any]]  # JSON
    secrets: tuple[str, ...]
    left_out: tuple[str, ...]


def read_client_file(text: str) -> ClientFile:
    """Return the servers of a client's file. Raises ``DefinitionError`` if it has none."""
    try:
        data = from_json(text)
    except ValueError as error:
        raise DefinitionError(
            f"not valid JSON: {error}", hint="pass the file in which an MCP client declares its servers"
        ) from None
    members = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    section = next((members[key] for key in SERVER_KEYS if isinstance(members.get(key), dict)), None)
    if not section:
        raise DefinitionError("there are no MCP servers in this file", hint="they must be under mcpServers or servers")
    reading = _ClientReading()
    servers: dict[str, Mapping[str, Any]] = {}
    for title, entry in cast("dict[str, Any]", section).items():
        if not isinstance(entry, dict):
            raise DefinitionError(f"the MCP server {title!r:.80} must be an object")
        name = _name(title, servers)
        servers[name] = reading.server(name, cast("dict[str, Any]", entry))
    return ClientFile(servers, tuple(dict.fromkeys(reading.secrets)), tuple(reading.left_out))


class _ClientReading:
    """Reads servers one by one, and collects the names of secrets and the omissions."""

    def __init__(self) -> None:
        self.secrets: list[str] = []
        self.left_out: list[str] = []

    def server(self, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        url = next((entry[key] for key in ("url", "serverUrl", "httpUrl") if entry.get(key)), None)
        self.left_out += [f"{name}: {key}" for key in entry if key not in _KNOWN]
        fields: dict[str, Any] = {}
        if url is not None:
            if not isinstance(url, str):
                raise DefinitionError(f"the MCP server {name!r}: url must be text; got {url!r:.80}")
            fields["url"] = self._url(name, url)
            if headers := self._texts(name, "headers", entry.get("headers")):
                fields["headers"] = headers
            return fields
        if not isinstance(entry.get("command"), str):
            raise DefinitionError(f"the MCP server {name!r} has neither a url nor a command")
        arguments: Any = entry.get("args") or []
        if not isinstance(arguments, list):
            raise DefinitionError(f"the MCP server {name!r}: args must be a list; got {arguments!r:.80}")
        texts = [_text(name, "args", argument) for argument in cast("list[object]", arguments)]
        fields["command"] = [entry["command"], *self._arguments(name, texts)]
        inherited = {variable: f"${{{variable}}}" for variable in INHERITED}
        fields["env"] = inherited | self._texts(name, "env", entry.get("env"))
        if entry.get("cwd"):
            fields["cwd"] = entry["cwd"]
        return fields

    def _arguments(self, server: str, arguments: list[str]) -> list[str]:
        """Return arguments without secrets, because a command supports no placeholders."""
        cleaned: list[str] = []
        after = ""
        for argument in arguments:
            masked = mask_urls(argument).replace(MASK, _LEFT_OUT)
            if after and not argument.startswith("-"):
                cleaned.append(_LEFT_OUT)
                self.left_out.append(f"{server}: the value of {after}, which looks like a secret")
            elif at := _secret_at(argument):
                cleaned.append(f"{argument[:at]}{_LEFT_OUT}")
                self.left_out.append(f"{server}: the value of {argument[:at].rstrip(':= ')}, which looks like a secret")
            elif _CREDENTIALS.match(argument) or masked != argument:
                cleaned.append(masked if masked != argument else _LEFT_OUT)
                self.left_out.append(f"{server}: a part of its arguments, which looks like a secret")
            else:
                cleaned.append(argument)
            after = argument if argument.startswith("-") and "=" not in argument and _is_secret(argument) else ""
        return cleaned

    def _url(self, server: str, address: str) -> str:
        """Return a URL without credentials, and without the values of query parameters that are named like secrets."""
        before, mark, query = address.partition("?")
        members: list[str] = []
        for member in query.split("&") if mark else ():
            name, equals, _ = member.partition("=")
            if equals and _is_secret(name):
                self.left_out.append(f"{server}: the value of {name} in its URL, which looks like a secret")
                member = f"{name}={_LEFT_OUT}"  # noqa: PLW2901
            members.append(member)
        url = f"{before}{mark}{'&'.join(members)}"
        masked = mask_urls(url).replace(f"//{MASK}@", "//").replace(MASK, _LEFT_OUT)
        if masked != url:
            self.left_out.append(f"{server}: a part of its URL, which looks like a secret")
        return masked

    def _texts(self, server: str, member: str, entries: Any) -> dict[str, str]:  # JSON
        """Return headers or variables, with placeholders instead of secrets."""
        texts: dict[str, str] = {}
        if not isinstance(entries or {}, dict):
            raise DefinitionError(f"the MCP server {server!r}: {member} must be an object; got {entries!r:.80}")
        for name, value in cast("dict[str, object]", entries or {}).items():
            text = _text(server, f"{member}.{name}", value)
            if _HELD.search(text):
                texts[name] = _HELD.sub(lambda place: f"${{{_constant(place[1])}}}", text)
            elif _is_secret(name) or _CREDENTIALS.match(text) or mask_urls(text) != text:
                secret = _constant(name if _constant(name) != "AUTHORIZATION" else f"{server}_token")
                scheme, space, _ = text.partition(" ")
                has_scheme = bool(space) and name.lower() in ("authorization", "proxy-authorization")
                texts[name] = f"{scheme} ${{{secret}}}" if has_scheme else f"${{{secret}}}"
                self.secrets.append(secret)
            else:
                texts[name] = text
        return texts


def _text(server: str, member: str, scalar: object) -> str:
    """Return a string, or a number or boolean as JSON. Raises ``DefinitionError`` for anything else."""
    if not isinstance(scalar, str | int | float):
        raise DefinitionError(f"the MCP server {server!r}: {member:.80} must be text; got {scalar!r:.80}")
    return scalar if isinstance(scalar, str) else json.dumps(scalar)


def _secret_at(argument: str) -> int:
    """Return the position of a named secret's value in an argument, or 0. Placeholders do not count."""
    at = 0
    while (name := _MEMBER.match(argument, at)) is not None:
        at = name.end()
        is_held = not argument.startswith("-") and _HELD.search(argument, at)
        if at < len(argument) and _is_secret(name[1]) and not is_held:
            return at
    return 0


def _name(title: str, taken: Mapping[str, object]) -> str:
    """Return an unused server name that is valid in a configuration."""
    base = _UNNAMED.sub("-", title.lower()).strip("-_")[:24]
    name = base if base[:1].isalpha() else f"mcp-{base}".rstrip("-")
    number, first = 1, name
    while name in taken:
        number += 1
        name = f"{first}-{number}"
    return name


def _is_secret(name: str) -> bool:
    """Return whether a variable, a header or a flag is named like a secret."""
    return is_secret_name(name) or _constant(name).rpartition("_")[2] in ("KEY", "PAT")


def _constant(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")
