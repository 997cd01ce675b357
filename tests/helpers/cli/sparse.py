"""``capset`` where only some extras are installed beside `cli`: `sparse.py EXTRA,… [ARGUMENT…]`.

With arguments, it is that command. Without, each line of stdin is the arguments of one, as JSON, and each line of
stdout how it ended: its exit code, and what it printed on stderr. One interpreter imports for all of them.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, PackageNotFoundError, packages_distributions, requires
from types import ModuleType
from typing import Any

_REQUIRED = re.compile(r"""([\w.-]+)(?:\[([\w,-]+)\])?[^;]*(?:;.*?(?:extra == ['"]([\w-]+)['"])?)?$""")


def plain(name: str) -> str:
    """Return the name of a package as names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def reach(name: str, extras: frozenset[str], reached: set[tuple[str, frozenset[str]]]) -> None:
    """Add a package with extras to those that are found, and all that it needs."""
    if (plain(name), extras) in reached:
        return
    reached.add((plain(name), extras))
    try:
        required = requires(name) or []
    except PackageNotFoundError:  # it is for another system
        return
    for inner, options, extra in (match.groups() for match in map(_REQUIRED.match, required) if match):
        if extra is None or extra in extras:
            reach(inner, frozenset(options.split(",")) if options else frozenset(), reached)


class Sparse:
    """A finder of modules that leaves out those of packages that are not there."""

    def __init__(self, extras: frozenset[str]) -> None:
        reached: set[tuple[str, frozenset[str]]] = set()
        reach("capset", extras, reached)
        self._there = installed = {name for name, _ in reached}
        self._missing = {
            module for module, names in packages_distributions().items() if installed.isdisjoint(map(plain, names))
        }
        # Packages that share one module at the top.
        self._parts = {f"opentelemetry.{part}" for part in ("sdk", "exporter") if "opentelemetry-sdk" not in installed}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the usual finder finds, unless it is not there."""
        is_missing = name.partition(".")[0] in self._missing or name in self._parts
        return None if is_missing else PathFinder.find_spec(name, path, target)

    def find_distributions(self, *context: Any, **also: Any) -> Iterator[Distribution]:
        """Yield the packages that are there."""
        distributions = PathFinder.find_distributions(*context, **also)
        return (distribution for distribution in distributions if plain(distribution.metadata["Name"]) in self._there)


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of the tests
    sparse = Sparse(frozenset(sys.argv[1].split(",")) | {"cli"})
    sys.meta_path[:] = [sparse if finder is PathFinder else finder for finder in sys.meta_path]
    from capset_cli import main

    if sys.argv[2:]:
        sys.argv[1:] = sys.argv[2:]
        main()
    with os.fdopen(os.dup(1), "w") as answers:  # some commands take the streams for themselves
        for line in sys.stdin.read().splitlines():
            sys.argv[1:] = json.loads(line)
            sys.stdin, sys.stdout, sys.stderr = io.StringIO(), io.StringIO(), io.StringIO()
            code: object = 0
            try:
                main()
            except SystemExit as ended:
                code = ended.code
            print(json.dumps([code, sys.stderr.getvalue()]), file=answers, flush=True)
