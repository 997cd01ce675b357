"""Warnings about the MCP servers and APIs of a configuration file, printed before it is served."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from capset.stores.base.pins import ToolPin
from capset_cli.common.configuration import print_warnings
from capset_cli.common.output import err, escaped
from capset_cli.common.remote import format_options
from capset_connect.openapi.api import OpenApi
from capset_connect.sources import Source

if TYPE_CHECKING:
    from capset_connect.config_file import Configuration


def warn_of_sources(configuration: Configuration, pins: Collection[ToolPin], db: str | None) -> None:
    """Warn of sources that cannot be used: those with problems on this machine, and those without approved tools.

    ``pins`` are those of the sources; ``db`` is the database as named on the command line, if it was named.
    """
    if not configuration.sources:
        return
    from capset_connect.config_file.source_checks import source_problems

    print_warnings(configuration.path, asyncio.run(source_problems(configuration)))
    approved = {pin.server for pin in pins}
    where = format_options(agent=configuration.path, db=db)
    for source in configuration.sources:
        if source.pin_key not in approved and _needs_approval(source):
            warning = f"{source.pin_key}: no tool is approved: capset mcp approve{where} {source.pin_key}"
            err().print(f"[yellow]warning:[/] {escaped(warning)}", soft_wrap=True)


def _needs_approval(source: Source) -> bool:
    """Return whether a source has more to offer than resources, which need no approval."""
    return isinstance(source, OpenApi) or source.tools is None or bool(source.tools or source.prompts)
