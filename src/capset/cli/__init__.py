"""The command line: it parses, enters by a session's door like everybody else, and prints wire shapes."""

from __future__ import annotations


def main() -> None:
    """Run ``capset``. Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 refused, not verified, or different."""
    # Importing the commands loads typer and rich, which nobody but the command line should pay for.
    from capset.cli.app import app
    from capset.cli.common.process import prepare

    prepare()
    app()
