"""Offline checks of the MCP servers and APIs of a configuration file (spec 7, M6, M23)."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from capset.errors import CapsetError, closest
from capset.kernel.runtime import EnvironmentSecrets
from capset.net.addresses import HostAllowlist, classify_address, is_address
from capset.net.urls import parse_url
from capset_connect.config_file.configuration import Configuration, Problem
from capset_connect.config_file.source_positions import lines_of
from capset_connect.declarations import internal_member
from capset_connect.mcp.server import McpServer, misnamed_rule
from capset_connect.openapi.api import OpenApi
from capset_connect.plain_files import read_text
from capset_connect.tool_rules import EVERY

SourceProblem = tuple[str, str]
"""The path of a problem in the file, and its message."""


async def source_problems(configuration: Configuration) -> Sequence[Problem]:
    """Return the problems of a file's sources that this machine can detect without connecting to them."""
    problems: list[SourceProblem] = []
    for source in configuration.own_sources:
        problems += await _api_problems(source) if isinstance(source, OpenApi) else _server_problems(source)
    placed = [*_placed(configuration, problems)]
    for inner in configuration.inner:
        placed += [_in_file(inner, problem) for problem in await source_problems(inner)]
    return placed


def source_warnings(configuration: Configuration) -> Sequence[Problem]:
    """Return possible problems of a file's sources that only their documents could confirm."""
    apis = [api for api in configuration.own_sources if isinstance(api, OpenApi) and api.document_url is not None]
    warnings = [*_placed(configuration, [problem for api in apis for problem in _likely_misspellings(api)])]
    for inner in configuration.inner:
        warnings += [_in_file(inner, problem) for problem in source_warnings(inner)]
    return warnings


def _in_file(inner: Configuration, problem: Problem) -> Problem:
    return Problem(None, "agents", f"{inner.path.name}: {problem}")


def _placed(configuration: Configuration, problems: Sequence[SourceProblem]) -> Sequence[Problem]:
    if not problems:
        return ()
    lines = lines_of(configuration.path.suffix.lower(), read_text(configuration.path, "a configuration file"))
    return [Problem(lines.of(place), place, message) for place, message in problems]


def _server_problems(server: McpServer) -> Iterator[SourceProblem]:
    program = next(iter(server.command), None)
    if program is not None and shutil.which(program) is None:
        yield f"mcp_servers.{server.name}.command", f"there is no program {program!r} on this machine's path"
    if (problem := _refused_host(server.url, server.internal)) is not None:
        yield f"mcp_servers.{server.name}.url", problem
    if (problem := _missing_file(server.ca_file)) is not None:
        yield f"mcp_servers.{server.name}.ca_file", problem
    for name in sorted(server.rules):
        if (problem := misnamed_rule(server, name)) is not None:
            yield f"mcp_servers.{server.name}.rules.{name}", problem


def _refused_host(url: str | None, internal: Iterable[str]) -> str | None:
    """Return why the address in a URL is refused. Host names, except ``localhost``, are not checked."""
    if url is None:
        return None
    at = parse_url(url)
    address = "127.0.0.1" if at.host == "localhost" else at.host
    if not is_address(address) or HostAllowlist.parse(internal).permits(at.host, at.port, address):
        return None
    if classify_address(address) == "refused":
        return f"{at.host} is never requested: it is neither a public nor an internal host"
    return f"{at.host} is not public: if this is intended, {internal_member(at.host, at.port)}"


def _missing_file(path: str | None) -> str | None:
    return None if path is None or Path(path).is_file() else f"there is no file {path!r} on this machine"


async def _api_problems(api: OpenApi) -> list[SourceProblem]:
    urls = {"url": api.url, "document": api.document_url}
    problems = {member: _refused_host(url, api.internal) for member, url in urls.items()}
    problems["ca_file"] = _missing_file(api.ca_file)
    return [
        *((f"apis.{api.name}.{member}", problem) for member, problem in problems.items() if problem is not None),
        *([] if api.document_url is not None else await _document_problems(api)),
    ]


async def _document_problems(api: OpenApi) -> list[SourceProblem]:
    # The client takes long to import.
    from capset_connect.openapi.client import OpenApiClient

    try:
        odd = await OpenApiClient(api, EnvironmentSecrets()).unmatched()
    except CapsetError as error:
        return [(f"apis.{api.name}.document", error.message + (f"; {error.hint}" if error.hint else ""))]
    return [(f"apis.{api.name}", problem) for problem in odd]


def _likely_misspellings(api: OpenApi) -> Iterator[SourceProblem]:
    """Yield rules whose names resemble those of selected operations. A rule may use an operation's other name."""
    for name in sorted({*api.rules} - {EVERY, *(api.operations or ())}):
        if (near := closest(name, api.operations or ())) is not None:
            yield f"apis.{api.name}.rules.{name}", f"operations has no {name!r}; did you mean {near!r}?"
