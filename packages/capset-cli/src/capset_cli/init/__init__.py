"""``capset init``: a configuration file to begin with, its tools, and a script in place of a model."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from capset.errors import DefinitionError
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson
from capset_cli.common.output import err, escaped, out, print_json

NAMES: Final = ("capset.yaml", "tools.py", "script.yaml")
_NEXT: Final = (
    "capset check capset.yaml",
    "capset run capset.yaml 'What is order 7?' --model script:script.yaml",
    """capset call refund_order --agent capset.yaml --args '{"number": 7, "amount": 40}' --grant orders:refund""",
    "capset serve capset.yaml --insecure --open",
)
"""Commands to try next, in the folder."""


@guarded
def init_command(
    folder: Annotated[Path, typer.Argument(help="Where to write the files; the current folder, by default.")] = Path(),
    as_json: AsJson = False,
) -> Exit:
    """Write a commented configuration file that runs, with its tools in Python, and a script in place of a model.

    Existing files are never overwritten.
    """
    paths = write_files(folder)
    if as_json:
        print_json({"files": list(map(str, paths))})
        return Exit.DONE
    out().print(escaped(f"wrote {', '.join(map(str, paths))}"), soft_wrap=True)
    commands = [*([] if folder == Path() else [f"cd {shlex.quote(str(folder))}"]), *_NEXT]
    for command in commands:
        err().print(f"[dim]{escaped(command)}[/]", soft_wrap=True)
    return Exit.DONE


def write_files(folder: Path) -> list[Path]:
    """Write the files, the configuration file first, and return their paths.

    Raises ``DefinitionError`` if one of them exists, before any is written.
    """
    paths = [folder / name for name in NAMES]
    if existing := [path for path in paths if path.exists()]:
        raise DefinitionError(
            f"{existing[0]} already exists, and is not overwritten",
            hint="name another folder: capset init FOLDER",
        )
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        template = files("capset_cli.init") / "files" / path.name
        path.write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
    return paths
