"""The command line: it parses, uses sessions like every other interface, and prints wire shapes."""

from __future__ import annotations


def main() -> None:
    """Run ``capset``. Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 refused, not verified, or different."""
    # Importing the commands loads typer and rich, a cost for the command line only.
    from capset_cli.app import app
    from capset_cli.common.process import prepare

    prepare()
    app()
