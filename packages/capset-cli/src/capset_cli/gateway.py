"""``capset gateway``: other MCP servers and APIs behind one governed endpoint, without a line of Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Attribute, Db, Grant, Who
from capset_cli.serve import serve_command
from capset_cli.serve.jwt import PublicUrl
from capset_connect.plain_files import read_text


def gateway_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A configuration file with mcp_servers or apis.")],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = 8000,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Require no key: every caller acts as --principal. On loopback only.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A host name by which clients may address the server; may be repeated.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="An origin from which browsers may call the server; may be repeated.")
    ] = None,
    public_url: PublicUrl = None,
    principal: Who = None,
    grant: Grant = None,
    attribute: Attribute = None,
    db: Db = None,
) -> None:
    """Serve the approved tools of a file's MCP servers and APIs at /mcp, with keys, rules, approvals and a record.

    This is capset serve FILE with fewer options. For a client that starts its servers itself, use
    capset mcp serve --agent FILE.
    """
    serve_command(
        host=host,
        port=port,
        insecure=insecure,
        allow_host=allow_host,
        allow_origin=allow_origin,
        file=file,
        public_url=public_url,
        principal=principal,
        grant=grant,
        attribute=attribute,
        db=db,
    )


@guarded
def import_command(
    file: Annotated[Path, typer.Argument(help="A client's JSON file with mcpServers.")],
    as_json: AsJson = False,
) -> Exit:
    """Print a configuration with the MCP servers in a client's file, as YAML.

    Values that look like secrets are left out: ${NAME} stands for the environment variable of that name.
    """
    from capset_cli.interop.imports import print_servers

    return print_servers(read_text(file, "a client's file"), as_json=as_json)
