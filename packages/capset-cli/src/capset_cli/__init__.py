"""The command-line interface. It parses options, uses sessions like every other interface, and prints wire shapes."""

from __future__ import annotations


def main() -> None:
    """Run ``capset``. Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 refused, not verified, or different."""
    # Imported here: the commands load typer and rich, which only the command line needs.
    from capset_cli.app import app
    from capset_cli.common.process import set_up_process

    set_up_process()
    app()
