"""Configuration files on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capset.definitions.governance.allowances import Allowance, lowest_allowance
from capset.definitions.governance.settings import Governance
from capset.kernel.blocks.generation import GeneratorRunner
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset_cli.common.output import err, escaped
from capset_cli.common.upstream import Upstream

if TYPE_CHECKING:
    from capset_connect.config_file import Configuration, Problem
    from capset_connect.vault.user_vault import UserVault

AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="AGENT",
        help="A configuration file, the name of an installed agent, or the id of a stored one.",
    ),
]
ServedFile = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="A configuration file, with an agent and its governance.")
]


def load_configuration(path: Path, registry: Registry, upstream: Upstream) -> Configuration:
    """Return the configuration in a file, and print its warnings. Raises as ``read_configuration`` does.

    ``upstream`` makes the capabilities of its MCP servers and APIs, and opens the kernel that uses them.
    """
    from capset_connect.config_file import read_configuration  # imported only for a file

    configuration = read_configuration(path, registry, upstream=upstream)
    print_warnings(path, configuration.warnings)
    return configuration


def print_warnings(path: Path, warnings: Iterable[Problem]) -> None:
    """Print the warnings of a configuration file on stderr."""
    for warning in warnings:
        err().print(f"[yellow]warning:[/] {escaped(f'{path}: {warning}')}", soft_wrap=True)


def make_kernel(
    store: str,
    configuration: Configuration | None,
    allowance: Allowance | None = None,
    *,
    signs: bool = True,
    generator: GeneratorRunner | None = None,
    redis: str | None = None,
    vault: UserVault | None = None,
) -> Kernel:
    """Return a kernel on a store, governed by a configuration, with an allowance in addition to its own.

    With ``signs=False``, the configuration's checkpoints are left to the caller. ``generator`` runs agents;
    ``redis`` is the URL of a Redis that notifies other processes of changes; ``vault`` has the credentials of users.
    """
    credentials = None if vault is None else vault.open
    if configuration is None:
        return Kernel(store=store, governance=Governance(allowance=allowance), generator=generator, redis=redis)
    governance = configuration.governance
    return Kernel(
        store=store,
        generator=generator,
        governance=replace(governance, allowance=lowest_allowance((governance.allowance, allowance))),
        workspace=configuration.workspace,
        checkpoints=configuration.checkpoints if signs else None,
        channels=configuration.channels,
        redis=redis,
        credentials=credentials,
    )
