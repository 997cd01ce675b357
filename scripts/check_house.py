"""Hold the layout and the words of the packages, and what the recipes of AGENTS.md ask for.

Each finding names the file, what is wrong and what to do. An exception stands with its reason in ``house.toml``; one
that is needed no more is a finding too.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

FOLDERS: Final = ("packages", "tests", "examples", "lab", "scripts")
SOURCES: Final = "packages/*/src"
MOST_LINES: Final = 500
MOST_ENTRIES: Final = 20
"""In one folder; its ``__init__.py`` does not count."""
PARTICIPLE: Final = re.compile(r"(?:ing|ed)$")
CRUTCHES: Final = re.compile(r"\b(whoever|whomever|whatever|nobody|anew|meanwhile|be it|waits not)\b", re.IGNORECASE)
BEGINNINGS: Final = frozenset({"What", "Whose", "Whoever"})


@dataclass
class House:
    """The tree below ``root``, its parsed modules by their paths, and the exceptions that were used."""

    root: Path
    exceptions: Mapping[str, Mapping[str, str]]
    modules: dict[Path, ast.Module] = field(default_factory=dict[Path, ast.Module])
    used: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def __post_init__(self) -> None:
        for path in sorted(self.root.glob(f"{SOURCES}/**/*.py")):
            self.modules[path.relative_to(self.root)] = ast.parse(path.read_text("utf-8"))

    def excepted(self, rule: str, name: str) -> bool:
        """Whether a rule has an exception of this name."""
        if name not in self.exceptions.get(rule, {}):
            return False
        self.used.add((rule, name))
        return True

    def text(self, path: str) -> str:
        """Return the text of a file, ``""`` where there is none."""
        file = self.root / path
        return file.read_text("utf-8") if file.is_file() else ""

    def below(self, folder: str) -> Iterator[tuple[Path, ast.Module]]:
        """Yield the modules below a folder, such as ``capset/kernel``."""
        for path, tree in self.modules.items():
            if Path(*path.parts[3:]).is_relative_to(folder):
                yield path, tree


def long_modules(house: House) -> Iterator[str]:
    """Yield the modules with too many lines, the longest first."""
    sizes: list[tuple[int, str]] = []
    for folder in FOLDERS:
        for path in (house.root / folder).rglob("*.py"):
            name, lines = path.relative_to(house.root).as_posix(), len(path.read_bytes().splitlines())
            if lines > MOST_LINES and not house.excepted("long_modules", name):
                sizes.append((lines, name))
    for lines, name in sorted(sizes, reverse=True):
        yield f"{name} has {lines} lines; at most {MOST_LINES}: split it, or give the reason in scripts/house.toml"


def full_folders(house: House) -> Iterator[str]:
    """Yield the folders of the packages with too many entries."""
    for folder in sorted(house.root.glob(f"{SOURCES}/**/*")):
        if not folder.is_dir() or folder.name == "__pycache__":
            continue
        entries = [entry for entry in folder.iterdir() if entry.name not in ("__init__.py", "__pycache__", "py.typed")]
        name = folder.relative_to(house.root).as_posix()
        if len(entries) > MOST_ENTRIES and not house.excepted("full_folders", name):
            yield f"{name} has {len(entries)} entries; at most {MOST_ENTRIES}: group them, or give the reason"


def participles(house: House) -> Iterator[str]:
    """Yield the modules that are named by a participle."""
    for path in house.modules:
        name = path.parent.name if path.name == "__init__.py" else path.stem
        dotted = ".".join(path.with_suffix("").parts[3:]).removesuffix(".__init__")
        if PARTICIPLE.search(name) and not house.excepted("participles", dotted):
            yield f"{path} is named by a participle; name it by a noun of the field"


def repeated_classes(house: House) -> Iterator[str]:
    """Yield the class names that stand in two modules."""
    classes: dict[str, list[str]] = {}
    for path, tree in house.modules.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(path.as_posix())
    for name, paths in sorted(classes.items()):
        if len(paths) > 1 and not house.excepted("repeated_classes", name):
            yield f"the class {name} stands in {' and '.join(paths)}; rename one of them"


def crutch_words(house: House) -> Iterator[str]:
    """Yield the lines of the packages with a word that its prose avoids, and docstrings that begin with one."""
    for path, tree in house.modules.items():
        name = path.as_posix()
        for number, line in enumerate(house.text(name).splitlines(), 1):
            if (word := CRUTCHES.search(line)) is not None and not house.excepted("crutch_words", name):
                yield f"{path}:{number} says {word[0]!r}; say it plainly"
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = ((ast.get_docstring(node) or "").split() or [""])[0]
                if first in BEGINNINGS and not house.excepted("crutch_words", name):
                    where = f"{path}:{getattr(node, 'lineno', 1)}"
                    yield f"{where} has a docstring that begins with {first!r}; begin with a noun or a verb"


def built_ins(house: House) -> Iterator[str]:
    """Yield the built-in capabilities that lack an entry point, a page or its line in the menu."""
    project: dict[str, Any] = tomllib.loads(house.text("packages/capset-tools/pyproject.toml"))
    points: dict[str, str] = project.get("project", {}).get("entry-points", {}).get("capset.capabilities", {})
    modules = {point.partition(":")[0].rpartition(".")[2] for point in points.values()}
    nav = house.text("mkdocs.yml")
    for path in sorted((house.root / "packages/capset-tools/src/capset_tools").glob("*")):
        name = path.stem
        if name.startswith("_") or path.name == "py.typed" or (path.is_dir() and not (path / "__init__.py").is_file()):
            continue
        if name not in modules:
            yield f"builtin {name}: no entry point under capset.capabilities in packages/capset-tools/pyproject.toml"
        if not (house.root / f"docs/capabilities/{name}.md").is_file():
            yield f"builtin {name}: no page docs/capabilities/{name}.md; write it, and run scripts.capability_pages"
        if f"capabilities/{name}.md" not in nav:
            yield f"builtin {name}: mkdocs.yml does not list capabilities/{name}.md"


def stages(house: House) -> Iterator[str]:
    """Yield the stages that belong to no phase, and phases whose first stages are others."""
    table = house.text("packages/capset/src/capset/kernel/call/stages/phases.py").partition("STAGES: Final")[2]
    if re.search(r'"admit": \((?!\s*approval\b)', table):
        yield 'kernel/call/stages/phases.py: approval must be first in "admit": others there see what was approved'
    if re.search(r'"arguments": \((?!\s*validation,\s*policy\b)', table):
        yield (
            'kernel/call/stages/phases.py: validation and policy must be first in "arguments": a stage before them that'
            " refuses tells those whom a policy refuses about the arguments"
        )
    for path, tree in house.below("capset/kernel/call/stages"):
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            if [argument.arg for argument in node.args.args] != ["installed"]:
                continue
            if not re.search(rf"\b{node.name}\b", table):
                yield f"{path}: the stage {node.name} stands in no phase of STAGES in kernel/call/stages/phases.py"


def port_methods(house: House) -> Iterator[str]:
    """Yield the methods of the ports of stores that no check of the store suite calls."""
    suite = "".join(house.text(path.as_posix()) for path, _ in house.below("capset_testing/store_suite"))
    for path, tree in house.below("capset/stores/base"):
        for port in tree.body:
            if not isinstance(port, ast.ClassDef) or not port.name.endswith(("Store", "Log")):
                continue
            methods = (node.name for node in port.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
            for name in methods:
                if not name.startswith("_") and not re.search(rf"\.{name}\b", suite):
                    yield f"{path}: no check in capset_testing/store_suite/ calls {port.name}.{name}"


RULES: Final[tuple[Callable[[House], Iterator[str]], ...]] = (
    long_modules,
    full_folders,
    participles,
    repeated_classes,
    crutch_words,
    built_ins,
    stages,
    port_methods,
)


def problems(root: Path, exceptions: Mapping[str, Mapping[str, str]]) -> list[str]:
    """List what breaks a rule, and the exceptions that nothing needs."""
    house = House(root, exceptions)
    violations = [problem for rule in RULES for problem in rule(house)]
    for rule, names in exceptions.items():
        for name, reason in names.items():
            if (rule, name) not in house.used:
                violations.append(f"scripts/house.toml: {rule} needs no exception for {name!r} any more; remove it")
            elif not reason.strip():
                violations.append(f"scripts/house.toml: {rule} gives no reason for {name!r}")
    return violations


def main(root: Path) -> int:
    """Print the problems; the exit code is 1 when there are any."""
    exceptions = tomllib.loads((root / "scripts/house.toml").read_text("utf-8"))
    violations = problems(root, exceptions)
    for problem in violations:
        print(f"house: {problem}", file=sys.stderr)
    if not violations:
        print(f"house: {len(RULES)} rules hold")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1]))
