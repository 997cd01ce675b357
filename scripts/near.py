"""Run the tests near a change: ``python -m scripts.near [BASE] [option of pytest …]``.

These are the tests in the folders that mirror those of changed modules, the tests of modules that import a changed one,
and changed tests. The change is that of the working tree since BASE, a commit; without BASE since HEAD, or that of HEAD
itself if nothing was changed since.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import grimp

from scripts import run_tests
from scripts.packages import import_folders, module_name

ROOT: Final = Path(__file__).parents[1]
MARKS: Final = "not nightly and not weekly and not clients and not browser"


def main(arguments: list[str]) -> int:
    """Run the tests, and return what ``run_tests`` does; 0 if there are none."""
    base = arguments.pop(0) if arguments and not arguments[0].startswith("-") else None
    files = tests_near(changed_files(base), grimp.build_graph(*(folder.name for folder in import_folders())))
    if not files:
        print("near: no test mirrors what was changed; make test runs all")
        return 0
    print(f"near: {len(files)} files of tests", flush=True)
    return run_tests.main(["-q", "-m", MARKS, *arguments, *files])


def changed_files(base: str | None) -> list[Path]:
    """Return the files that differ from a commit, and those that git does not know yet."""
    new = _git("ls-files", "--others", "--exclude-standard")
    changed = _git("diff", "--name-only", base or "HEAD") + new
    return [Path(name) for name in changed or _git("diff", "--name-only", "HEAD~1")]


def tests_near(changed: Iterable[Path], graph: grimp.ImportGraph) -> list[str]:
    """Return the files of tests near some changed files, by their paths from the root."""
    files: set[Path] = set()
    for path in changed:
        if path.name.startswith("test_") and "tests" in path.parts and (ROOT / path).exists():
            files.add(path)
        if path.suffix != ".py" or path.parts[0] != "packages" or path.parts[2] != "src":
            continue
        module = module_name(path)
        files.update(_tests_of(module, "test_*.py"))
        if module in graph.modules:
            for importer in graph.find_modules_that_directly_import(module):
                name = importer.rpartition(".")[2]
                files.update(_tests_of(importer, f"test_{name}.py"), _tests_of(importer, f"test_{name}_*.py"))
    return sorted(map(str, files))


def _tests_of(module: str, pattern: str) -> list[Path]:
    """Return the files of tests in the folders that mirror that of a module."""
    package, *parts = module.split(".")
    folder = "/".join(["packages", package.replace("_", "-"), "tests", "*", *parts[:-1]])
    return [path.relative_to(ROOT) for path in ROOT.glob(f"{folder}/{pattern}")]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
