"""Allowances for the MCP servers of stored agents on the command line: ``capset serve`` (spec 7, M26)."""

from __future__ import annotations

from typing import Annotated

import typer

AgentHost = Annotated[
    list[str] | None,
    typer.Option(
        "--agent-host",
        metavar="ORG=HOST",
        help="An internal host, or HOST:PORT, where MCP servers of this organisation's stored agents may be; * stands "
        "for all organisations; may be repeated.",
    ),
]
AgentSecret = Annotated[
    list[str] | None,
    typer.Option(
        "--agent-secret",
        metavar="ORG=NAME@HOST",
        help="A secret that the headers for these servers may contain, if they are on this host; may be repeated.",
    ),
]
