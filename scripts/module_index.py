"""The index of modules in AGENTS.md, from the first line of each docstring: ``python -m scripts.module_index``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
AGENTS: Final = ROOT / "AGENTS.md"
HEADING: Final = "## Every module"
PLAIN: Final = frozenset({"cli", "client", "flows", "server/rest", "stores/sql/migrations/versions"})
"""The folders whose modules are named by what they are: a command, a noun, a block, a revision."""
_OLD: Final = "The old path of"
_SPEC: Final = re.compile(r" ?\((?:[^()]*, )?(?:spec \d|ADR |[A-Z]\d+)[^()]*\)")
"""References to the specification, which a reader who looks for a place does not need."""


def index() -> str:
    """Return the section: a heading for each folder of ``src/capset``, and a line for each of its modules."""
    return "\n".join([HEADING, "", *_about(), *_lines(ROOT / "src/capset")]) + "\n"


def _about() -> list[str]:
    return [
        "Written by `python -m scripts.module_index` from the first line of each docstring; `make check` compares. Left"
        " out are the old",
        f"paths of modules, and what its name explains: {', '.join(f'`{name}/`' for name in sorted(PLAIN))}.",
    ]


def _lines(folder: Path) -> Iterator[str]:
    where = folder.relative_to(ROOT / "src/capset").as_posix()
    if where in PLAIN:
        return
    modules = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    told = [(path.name, first) for path in modules if not (first := first_line(path)).startswith(_OLD)]
    whole = folder / "__init__.py"
    if told or where != ".":
        about = [] if where == "." else [first_line(whole) + ".", ""]
        yield from ("", "### the package itself" if where == "." else f"### `{where}/`", "", *about)
        yield from (f"- `{name}`: {first}" for name, first in told)
    for inner in sorted(path for path in folder.iterdir() if (path / "__init__.py").is_file()):
        yield from _lines(inner)


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, without its full stop and references."""
    doc = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return _SPEC.sub("", doc.partition("\n")[0]).rstrip(".")


def main() -> None:
    """Write the section, which is the last, into AGENTS.md."""
    before = AGENTS.read_text("utf-8").partition(f"\n{HEADING}\n")[0].rstrip("\n")
    AGENTS.write_text(f"{before}\n\n{index()}", "utf-8")


if __name__ == "__main__":
    main()
