"""The packages of the workspace: where their sources are, and which file a module is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def source_folders(root: Path = ROOT) -> list[Path]:
    """Return the folders that Python imports the packages from, the core's first."""
    return sorted(root.glob("packages/*/src"), key=lambda folder: folder.parent.name)


def import_folders(root: Path = ROOT) -> list[Path]:
    """Return the folder of each import package, the core's first."""
    return [next(folder.glob("capset*")) for folder in source_folders(root)]


def module_name(path: Path) -> str:
    """Return the dotted name of a module by its path from the root, such as ``packages/capset/src/capset/ids.py``."""
    return ".".join(path.with_suffix("").parts[3:]).removesuffix(".__init__")
