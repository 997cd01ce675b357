"""``capset export``: an agent in other formats: tool JSON, JSON Schema, and files for registries and clients."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

import typer

from capset.composition.compose import compose
from capset.definitions.agents import Agent
from capset.errors import DefinitionError
from capset.evaluation.evaluate import evaluate
from capset.kernel.registry import Registry
from capset_cli.common.configuration import AgentOption
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Attribute, Db, Env, Grant, Who
from capset_cli.common.output import err, escaped, pretty, print_json
from capset_cli.common.settings import Settings, load_settings, parse_attributes, parse_env
from capset_cli.common.targets import Target, find_target, load_agent

if TYPE_CHECKING:
    from uuid import UUID

    from capset.evaluation.snapshot.snapshot import Snapshot
    from capset_connect.interop import BundledAgent, Export

Format = Literal["openai", "openai-chat", "anthropic", "json-schema", "mcp-server", "mcpb", "a2a"]
_REQUIRED: Final[Mapping[Format, tuple[str, ...]]] = {
    "mcp-server": ("name", "release", "at"),
    "mcpb": ("release", "author", "output"),
    "a2a": ("release", "at"),
}
"""The options that a format requires."""
_OPTIONAL: Final[Mapping[Format, tuple[str, ...]]] = {
    "mcp-server": ("description", "no_keys"),
    "mcpb": ("description", "require"),
    "a2a": ("description",),
}
"""The options that a format takes but does not require, besides those of all formats."""
_SAMPLES: Final = {
    "name": "io.github.you/weather",
    "release": "1.0.0",
    "at": "https://tools.example.com/mcp",
    "author": "'Your Name'",
    "output": "weather.mcpb",
}


@guarded
def export_command(
    format: Annotated[Format, typer.Argument(help="The format to write.")],
    agent: AgentOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead of stdout.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="mcp-server: the name in the registry, such as io.github.you/weather.")
    ] = None,
    release: Annotated[
        str | None, typer.Option(metavar="VERSION", help="mcp-server, mcpb, a2a: the version, such as 1.0.0.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="URL", help="mcp-server: where capset serves it; a2a: where your host runs it."),
    ] = None,
    description: Annotated[
        str | None, typer.Option(help="mcp-server, mcpb, a2a: a description, by default the agent's.")
    ] = None,
    no_keys: Annotated[
        bool, typer.Option("--no-keys", help="mcp-server: clients send no API key, as with OAuth.")
    ] = False,
    author: Annotated[str | None, typer.Option(help="mcpb: who publishes it.")] = None,
    require: Annotated[
        list[str] | None, typer.Option(help="mcpb: a package that it needs, such as 'capset[web]'; may be repeated.")
    ] = None,
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    principal: Who = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Write an agent, with the tools that it has for the principal, in a format of other programs.

    openai is for OpenAI's Responses API, openai-chat for Chat Completions, anthropic for Anthropic's Messages API: each
    is a list of tools. json-schema describes calls, for programs that read JSON Schema. mcp-server is the server.json
    of MCP registries, mcpb a bundle that MCP clients install, a2a an agent card.

    The same agent gives the same bytes. What a format cannot express is reported on stderr. Exits with 1 if a policy
    failed.
    """
    options = {"name": name, "release": release, "at": at, "author": author, "output": output}
    options |= {"description": description, "no_keys": no_keys or None, "require": require or None}
    _check_options(format, {key for key, value in options.items() if value is not None})
    if agent is None:
        raise DefinitionError("name the agent to export with --agent")
    settings = load_settings(db=db, principal=principal, grant=grant, attribute=attribute, env=env)
    if format == "mcpb":  # others read it, so this machine's settings are left out unless given as options
        bare_principal = replace(settings.principal, attributes=parse_attributes(attribute))
        settings = replace(settings, principal=bare_principal, env=parse_env(env))
    target = find_target(Registry.installed(), agent, None, settings)
    _check_output(output, target)
    snapshot = asyncio.run(_snapshot(settings, target))
    texts = {key: str(value) for key, value in options.items() if value is not None}
    if format == "mcpb":
        export, content = _bundle(target, snapshot, agent, texts, require or [])
    else:
        export = _export(format, snapshot, texts, has_keys=not no_keys)
        content = f"{pretty(export.content)}\n".encode()
    _write(format, export, content, output, as_json=as_json)
    return Exit.FAILED if snapshot.failures else Exit.DONE


def _check_options(format: Format, options: set[str]) -> None:
    """Raise ``DefinitionError`` for options that a format does not take, and for missing required ones."""
    required, optional = _REQUIRED.get(format, ()), _OPTIONAL.get(format, ())
    if wrong := sorted(options - {*required, *optional, "output"}):
        takers = [candidate for candidate in _REQUIRED if wrong[0] in (*_REQUIRED[candidate], *_OPTIONAL[candidate])]
        raise DefinitionError(f"{_option(wrong[0])} is for {' and '.join(takers)}; {format} does not take it")
    if missing := [option for option in required if option not in options]:
        samples = " ".join(f"{_option(option)} {_SAMPLES[option]}" for option in missing)
        raise DefinitionError(f"{format} needs {', '.join(map(_option, missing))}", hint=f"such as {samples}")


def _check_output(output: Path | None, target: Target) -> None:
    """Raise ``DefinitionError`` if the file to be written is the one that declares the agent."""
    configuration = target.configuration
    if output is not None and configuration is not None and configuration.path.resolve() == output.resolve():
        raise DefinitionError(
            f"--output {output} is the exported file itself, and is not overwritten", hint="name another --output"
        )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


async def _snapshot(settings: Settings, target: Target) -> Snapshot:
    agent, principal = target.agent, settings.principal
    if not isinstance(agent, Agent):
        agent = await load_agent(target.registry, cast("UUID", agent), settings.db)
    if target.configuration is not None:
        principal = principal.with_permissions(target.configuration.governance.default_permissions)
    return await evaluate(compose(agent), principal=principal, env=settings.env)


def _export(format: Format, snapshot: Snapshot, texts: Mapping[str, str], *, has_keys: bool) -> Export:
    from capset_connect.interop import export_agent_card, export_json_schema, export_server_json, export_tools

    description = texts.get("description")
    match format:
        case "mcp-server":
            place = {"name": texts["name"], "version": texts["release"], "url": texts["at"]}
            return export_server_json(snapshot, **place, description=description, has_keys=has_keys)
        case "a2a":
            return export_agent_card(snapshot, version=texts["release"], url=texts["at"], description=description)
        case "json-schema":
            return export_json_schema(snapshot)
        case "openai" | "openai-chat" | "anthropic":
            return export_tools(snapshot, format)
        case "mcpb":
            raise AssertionError("bundles are bytes")


def _bundle(
    target: Target, snapshot: Snapshot, agent: str | None, texts: Mapping[str, str], requirements: list[str]
) -> tuple[Export, bytes]:
    from capset_connect.interop import export_bundle

    bundle = export_bundle(
        snapshot,
        _bundled_agent(target, agent),
        version=texts["release"],
        author=texts["author"],
        description=texts.get("description"),
        requirements=requirements,
    )
    return bundle.manifest, bundle.content


def _bundled_agent(target: Target, agent: str | None) -> BundledAgent:
    """Return how a bundle starts the agent. Raises ``DefinitionError`` for an agent that needs this machine."""
    from capset_connect.interop import BundledAgent, bundled_file

    configuration = target.configuration
    if configuration is not None and configuration.sources:
        raise DefinitionError(
            "an agent with MCP servers or APIs cannot be bundled: your approvals of their tools are in your database",
            hint="serve it, and give clients its URL: capset gateway",
        )
    if configuration is not None:
        if configuration.workspace is not None or configuration.checkpoints is not None:
            raise DefinitionError(
                "a configuration with a workspace or an audit key cannot be bundled: they belong to this machine",
                hint="bundle one without workspace and audit",
            )
        folder = configuration.path.parent
        return bundled_file(
            configuration.path, (Path(relpath(file, folder)).as_posix() for file in configuration.files)
        )
    if isinstance(target.agent, Agent):
        return BundledAgent(["--agent", target.agent.name])
    raise DefinitionError(
        "a stored agent cannot be bundled, as it is in your database: name a configuration file", hint=agent
    )


def _write(format: Format, export: Export, content: bytes, output: Path | None, *, as_json: bool) -> None:
    if output is not None:
        output.write_bytes(content)
    if as_json:
        data = {"format": format, "left_out": list(export.left_out), "warnings": list(export.warnings)}
        print_json({**data, **({"content": export.content} if output is None else {"output": str(output)})})
        return
    if output is None:
        sys.stdout.buffer.write(content)  # the same bytes for any encoding of the stream
        sys.stdout.flush()
    for line in _notices(export):
        err().print(line, soft_wrap=True)


def _notices(export: Export) -> Iterator[str]:
    yield from (f"[dim]left out: {escaped(omission)}[/]" for omission in export.left_out)
    yield from (f"[yellow]warning:[/] {escaped(warning)}" for warning in export.warnings)
