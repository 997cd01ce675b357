"""``capset import``: a configuration file with the tools or MCP servers in another program's file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer
from pydantic_core import from_json

from capset.definitions.tools.options import Effect
from capset.errors import DefinitionError
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson
from capset_cli.common.output import err, escaped, pretty, print_json
from capset_connect.plain_files import read_text, yaml_text

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_FILE: Final = "a file of tools or servers"


@guarded
def import_command(
    file: Annotated[Path, typer.Argument(help="Tool definitions as JSON, or a client's mcpServers.")],
    effect: Annotated[
        Effect | None, typer.Option("--effect", help="The effect of all tools; change that of single ones in the file.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to a new file, with the handlers beside it."),
    ] = None,
    skip_refused: Annotated[
        bool, typer.Option("--skip-refused", help="Skip definitions that cannot be tools.")
    ] = False,
    as_json: AsJson = False,
) -> Exit:
    """Create a configuration file from the tool JSON of OpenAI, Anthropic or MCP, or from a client's mcpServers.

    Each tool becomes an action. You write its handler, in a Python file that --output creates beside the configuration;
    until then, its calls fail with an error that says so. Without --output, the configuration is printed.
    """
    text = read_text(file, _FILE)
    if _has_servers(text):
        if effect is not None or skip_refused:
            raise DefinitionError("--effect and --skip-refused are for tool definitions; this file has MCP servers")
        return print_servers(text, output, as_json=as_json)
    return _import_tools(file, text, effect, output, skip_refused=skip_refused, as_json=as_json)


def print_servers(text: str, output: Path | None = None, *, as_json: bool) -> Exit:
    """Print or write a configuration with the MCP servers in a client's file, and report what is left out."""
    from capset_connect.mcp.client_files import read_client_file

    client_file = read_client_file(text)
    _write({"mcp_servers": dict(client_file.servers)}, output, as_json=as_json)
    if client_file.secrets:
        names = ", ".join(client_file.secrets)
        err().print(f"set these variables, whose values were left out: {escaped(names)}", soft_wrap=True)
    _warn(f"left out: {omission}" for omission in client_file.left_out)
    return Exit.DONE


def _has_servers(text: str) -> bool:
    with suppress(ValueError):  # reported where the file is read
        data = from_json(text)
        if isinstance(data, dict):
            from capset_connect.mcp.client_files import SERVER_KEYS

            return any(isinstance(cast("dict[str, Any]", data).get(key), dict) for key in SERVER_KEYS)
    return False


def _import_tools(
    file: Path, text: str, effect: Effect | None, output: Path | None, *, skip_refused: bool, as_json: bool
) -> Exit:
    from capset_connect.interop import configuration_of, read_tools

    try:
        data = from_json(text)
    except ValueError as error:
        raise DefinitionError(f"{file} is not JSON: {error}", hint="give tool definitions as JSON") from None
    reading = read_tools(data)
    for refusal in reading.refused:
        kind = "[yellow]warning:[/] left out:" if skip_refused else "[red]error:[/]"
        err().print(f"{kind} {escaped(refusal)}", soft_wrap=True)
    if reading.refused and not skip_refused:
        raise DefinitionError(
            f"{len(reading.refused)} of the definitions in {file} cannot be tools, so nothing was written",
            hint="fix them, or skip them with --skip-refused",
        )
    if not reading.tools:
        raise DefinitionError(f"there are no tool definitions in {file}")
    if effect is None:
        raise DefinitionError(
            "say what the tools do: --effect read, write, external or destructive",
            hint="give the strongest effect of any tool (read changes nothing); change single tools in the file",
        )
    name = output.name if output is not None else "the configuration"
    module = "handlers.py" if output is None else f"{re.sub('[^A-Za-z0-9_]', '_', output.stem)}_handlers.py"
    generated = configuration_of(reading.tools, effect=effect, configuration=name, module=module)
    _write(generated.content, output, handlers=(module, generated.handlers), as_json=as_json)
    _warn(f"left out: {omission}" for omission in reading.left_out)
    for tool_name, original in reading.names.items():
        if tool_name != original:
            err().print(f"[dim]{escaped(original)} is called {tool_name} here[/]", soft_wrap=True)
    return Exit.DONE


def _write(
    content: Mapping[str, Any], output: Path | None, *, handlers: tuple[str, str] | None = None, as_json: bool
) -> None:
    """Print a configuration, or write it and its handlers to new files."""
    if output is None:
        if as_json:
            print_json(content)
        else:
            print(yaml_text(content), end="", flush=True)
        if handlers is not None:
            note = f"{handlers[0]}, with its handlers, is not written: give --output FILE"
            err().print(f"[yellow]warning:[/] {note}", soft_wrap=True)
        return
    if output.suffix.lower() not in _SUFFIXES:
        raise DefinitionError(f"--output must end in one of {', '.join(_SUFFIXES)}; got {output.name!r}")
    texts = {output: f"{pretty(content)}\n" if output.suffix.lower() == ".json" else yaml_text(content)}
    if handlers is not None:
        texts[output.with_name(handlers[0])] = handlers[1]
    for path in texts:
        if path.exists():
            raise DefinitionError(f"{path} already exists, and is not overwritten", hint="name another --output")
    for path, text in texts.items():
        with path.open("x", encoding="utf-8") as new:
            new.write(text)
    if as_json:
        print_json({"configuration": str(output), "handlers": [str(path) for path in texts if path != output]})
        return
    for path in texts:
        err().print(f"[dim]wrote {escaped(str(path))}[/]", soft_wrap=True)


def _warn(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        err().print(f"[yellow]warning:[/] {escaped(sentence)}", soft_wrap=True)
