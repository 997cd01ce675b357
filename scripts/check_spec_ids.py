"""Tie the tests to the requirements: docs/spec defines ids such as G12, docs/threat-model.md T3; tests carry them.

A test carries ids by `@pytest.mark.spec("G12", "G13")` (or by `pytestmark`, or by the marks of a parameter).
An id that neither defines is refused; every threat, and every id in docs/spec/finished.md, must have a test.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

DEFINITION: Final = re.compile(r"\*\*([CDFGKMNPRVW]\d+)\*\*")
THREAT: Final = re.compile(r"\*\*(T\d+)\*\*")
LIST_ITEM: Final = re.compile(r"^\s*[-*+]\s+(?P<text>.*)$")
FINISHED_ID: Final = re.compile(r"([CDFGKMNPRVW]\d+)\b")


@dataclass(frozen=True, slots=True)
class Mention:
    """One place that names an id; `where` is `path:line` from the root. No id: the place names none."""

    where: str
    id: str | None


def spec_ids(root: Path) -> set[str]:
    """Collect the ids that the pages of docs/spec define, in bold."""
    pages = (path for path in (root / "docs/spec").glob("*.md") if path.name != "finished.md")
    return {spec_id for page in pages for spec_id in DEFINITION.findall(page.read_text("utf-8"))}


def repeated_ids(root: Path) -> list[str]:
    """List the ids that the pages of docs/spec define more than once."""
    pages = sorted(path for path in (root / "docs/spec").glob("*.md") if path.name != "finished.md")
    counted = Counter(spec_id for page in pages for spec_id in DEFINITION.findall(page.read_text("utf-8")))
    return [f"docs/spec defines {spec_id} {count} times" for spec_id, count in sorted(counted.items()) if count > 1]


def finished_ids(root: Path) -> list[Mention]:
    """Read the list of finished parts: each item begins with an id; a note may follow."""
    page = root / "docs/spec/finished.md"
    items = (
        (number, match["text"])
        for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1)
        if (match := LIST_ITEM.match(line))
    )
    return [
        Mention(f"{page.relative_to(root).as_posix()}:{number}", id_match[1] if id_match else None)
        for number, id_match in ((number, FINISHED_ID.match(text)) for number, text in items)
    ]


def threat_ids(root: Path) -> list[Mention]:
    """Collect the ids that docs/threat-model.md defines, in bold."""
    page = root / "docs/threat-model.md"
    lines = page.read_text("utf-8").splitlines() if page.exists() else []
    return [
        Mention(f"docs/threat-model.md:{number}", threat_id)
        for number, line in enumerate(lines, start=1)
        for threat_id in THREAT.findall(line)
    ]


def carried_ids(root: Path) -> list[Mention]:
    """Read every `pytest.mark.spec(...)` of tests, of packages and of lab/, from the syntax tree."""
    return [
        Mention(f"{path.relative_to(root).as_posix()}:{line}", spec_id)
        for folder in (root / "tests", *root.glob("packages/*/tests"), root / "lab")
        for path in sorted(folder.rglob("*.py"))
        for line, spec_id in _marked(ast.parse(path.read_bytes(), filename=str(path)))
    ]


def _marked(tree: ast.Module) -> Iterator[tuple[int, str | None]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="spec"), args=args):
                if not args or node.keywords:
                    yield node.lineno, None
                for arg in args:
                    value = arg.value if isinstance(arg, ast.Constant) else None
                    yield arg.lineno, value if isinstance(value, str) else None
            case _:
                pass


def problems(defined: Collection[str], finished: Collection[Mention], carried: Collection[Mention]) -> list[str]:
    """List markers and items without an id, ids that are not defined, and finished ids without a test."""
    violations: list[str] = []
    for mention in (*finished, *carried):
        if mention.id is None:
            violations.append(f"{mention.where}: names no id; write ids out, such as G12")
        elif mention.id not in defined:
            meant = get_close_matches(mention.id, sorted(defined), n=1)
            hint = f" (did you mean {meant[0]}?)" if meant else ""
            violations.append(f"{mention.where}: docs/spec defines no {mention.id}{hint}")
    tested = {mention.id for mention in carried}
    violations += [
        f"{mention.where}: {mention.id} is finished, but no test carries it"
        for mention in finished
        if mention.id in defined and mention.id not in tested
    ]
    return violations


def main(root: Path) -> int:
    """Print the figures, then the problems; the exit code is 1 when there are any."""
    threats, carried = threat_ids(root), carried_ids(root)
    defined = spec_ids(root) | {threat.id for threat in threats if threat.id}
    finished = [*finished_ids(root), *threats]
    tested = {mention.id for mention in carried} & defined
    print(f"spec ids: {len(defined)} defined, {len(tested)} carried by tests, {len(finished)} finished")
    violations = [*repeated_ids(root), *problems(defined, finished, carried)]
    if not defined:
        violations.append("docs/spec defines no ids at all")
    for problem in violations:
        print(f"spec ids: {problem}", file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1]))
