"""``capset gateway``: other MCP servers and APIs behind one governed endpoint, without a line of Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capset.errors import DefinitionError
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Attribute, Db, Grant, Who
from capset_cli.common.settings import load_settings
from capset_cli.common.sources import source_options
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
    approve: Annotated[
        bool, typer.Option("--approve", help="Start the servers, show their tools in a table, and ask to approve them.")
    ] = False,
    principal: Who = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Print a configuration with the MCP servers in a client's file, as YAML.

    Values that look like secrets are left out: ${NAME} stands for the environment variable of that name. With
    --approve, exits with 1 if a server cannot be queried, and with 3 if you do not agree. Tools whose descriptions have
    problems are left out.
    """
    from capset_cli.interop.imports import print_servers

    if not approve and (db is not None or principal is not None):
        raise DefinitionError("--db and --principal say where and by whom tools are approved: give --approve, too")
    text = read_text(file, "a client's file")
    code = print_servers(text, as_json=as_json)
    if not approve:
        return code
    from capset_cli.interop.approvals import approve_servers

    return approve_servers(text, load_settings(db=db, principal=principal), source_options(Path("FILE"), db))
