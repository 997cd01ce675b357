"""The index of modules, made of the first line of each docstring when the site is built."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scripts.packages import import_folders

_SPEC: Final = re.compile(r" ?\((?:[^()]*, )?(?:spec \d|ADR |[A-Z]\d+)[^()]*\)")
"""References to the specification, which a reader who looks for a place does not need."""


def render() -> str:
    """Return the page: a heading for each folder of a package, and a line for each of its modules."""
    lines = [line for folder in import_folders() for line in _lines(folder, folder.parent)]
    return "\n".join(["# Modules", "", "Every module, by the first line of its docstring.", *lines]) + "\n"


def _lines(folder: Path, source: Path) -> Iterator[str]:
    level = "##" if folder.parent == source else "###"
    where = folder.relative_to(source).as_posix()
    yield from ("", f"{level} `{where}/`", "", first_line(folder / "__init__.py") + ".", "")
    for path in sorted(path for path in folder.glob("*.py") if path.name != "__init__.py"):
        yield f"- `{path.name}`: {first_line(path)}"
    for inner in sorted(path for path in folder.iterdir() if (path / "__init__.py").is_file()):
        yield from _lines(inner, source)


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, without its full stop and references."""
    doc = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return _SPEC.sub("", doc.partition("\n")[0]).rstrip(".")
