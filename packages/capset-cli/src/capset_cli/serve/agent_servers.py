"""Allowances for the MCP servers of stored agents on the command line: ``capset serve`` (spec 7, M26)."""

from __future__ import annotations

from typing import Annotated

import typer

AgentHost = Annotated[
    list[str] | None,
    typer.Option(
        "--agent-host",
        metavar="ORG=HOST",
        help="An internal host, or HOST:PORT, that MCP servers of this organisation's stored agents may be at; * for "
        "all organisations; may be repeated.",
    ),
]
AgentSecret = Annotated[
    list[str] | None,
    typer.Option(
        "--agent-secret",
        metavar="ORG=NAME@HOST",
        help="A secret that headers of these servers may have, where they are at this host; may be repeated.",
    ),
]
