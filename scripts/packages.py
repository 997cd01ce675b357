"""The packages of the workspace: where their sources are, and which file a module is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def source_folders(root: Path = ROOT) -> list[Path]:
    """Return the folders that Python imports the packages from, the core's first."""
    return sorted(root.glob("packages/*/src"), key=lambda folder: folder.parent.name)


def import_folders(root: Path = ROOT) -> list[Path]:
    """Return the folder of each import package, the core's first."""
    return [next(folder.glob("capset*")) for folder in source_folders(root)]


def folders_of_tests(root: Path = ROOT) -> list[Path]:
    """Return the folders of tests: those between packages, of each package, and of lab/."""
    return [root / "tests", *sorted(root.glob("packages/*/tests")), root / "lab"]


def with_dependents(name: str, root: Path = ROOT) -> list[str]:
    """Return a package and those that require it, directly or by others, by their names as distributions."""
    required = {project.parent.name: _required(project) for project in root.glob("packages/*/pyproject.toml")}
    dependents = {name}
    while more := {other for other, names in required.items() if names & dependents} - dependents:
        dependents |= more
    return sorted(dependents)


def _required(project: Path) -> set[str]:
    requirements = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    return {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}


def module_name(path: Path) -> str:
    """Return the dotted name of a module by its path from the root, such as ``packages/capset/src/capset/ids.py``."""
    return ".".join(path.with_suffix("").parts[3:]).removesuffix(".__init__")
