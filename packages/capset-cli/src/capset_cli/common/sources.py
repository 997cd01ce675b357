"""Needs of the MCP servers and APIs of a configuration file, reported before and while it is served."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from capset.definitions.secrets import mask_urls
from capset.stores.base.pins import ToolPin
from capset_cli.common.configuration import print_warnings
from capset_cli.common.output import err, escaped
from capset_cli.common.remote import format_options
from capset_connect.declared_sources import need_of
from capset_connect.pins.tool_pins import unlisted
from capset_connect.sources import Source

if TYPE_CHECKING:
    from capset_connect.config_file import Configuration
    from capset_connect.declared_sources import SourceSummary

_log = logging.getLogger("capset.sources")


def source_options(file: Path, db: str | None) -> str:
    """Return the options by which commands find a file and its database, without the password in a database's URL.

    ``db`` is the database as named on the command line, if it was named.
    """
    return format_options(agent=file, db=None if db is None else mask_urls(db))


def warn_of_sources(configuration: Configuration, pins: Collection[ToolPin], options: str) -> None:
    """Warn of sources that cannot be used, as far as this machine knows without querying them.

    ``pins`` are those of the sources; ``options`` are those of commands for the file.
    """
    if not configuration.sources:
        return
    from capset_connect.config_file.source_checks import source_problems

    print_warnings(configuration.path, asyncio.run(source_problems(configuration)))
    for source in configuration.sources:
        report = unlisted(source, [pin for pin in pins if pin.server == source.pin_key])
        if (need := need_of(report, unset_secrets(source))) is not None:
            err().print(f"[yellow]warning:[/] {need.key}: {escaped(need.line(options))}", soft_wrap=True)


def unset_secrets(source: Source) -> list[str]:
    """Return the secrets of a source that are not set in the environment, or empty there."""
    return [name for name in source.secrets if not os.environ.get(name)]


def log_need(options: str, summary: SourceSummary) -> None:
    """Log what a source needs now, with the last output of its process; or that it needs nothing any more."""
    need = summary.need
    if need is None:
        _log.info("%s: no longer needs anything", summary.source.pin_key)
        return
    output = "".join(f"\n{line}" for line in summary.output)
    _log.warning("%s: %s%s", need.key, need.line(options), output and f"; the end of its output:{output}")
