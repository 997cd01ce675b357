"""Change one thing in the source, see whether a test notices, and change it back; again and again.

``make lab-mutants COUNT=150 SEED=1``. The tests that reach the changed lines run in a copy of the tree, those of the
same place first, for at most ``--seconds`` by what they took when they were measured. A change that makes them hang
is noticed. One that cannot be noticed stands with its reason in ``equivalent.toml``.
"""

from __future__ import annotations

import argparse
import hashlib
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab.mutants.mutations import Change, Mutation, changes_in
from lab.mutants.reach import Reach
from lab.mutants.tree import Outcome, Tree

ROOT: Final = Path(__file__).resolve().parents[2]
LEAST: Final = 96.0
"""How many of a hundred changes that can be noticed must be."""
PACKAGES: Final = "packages"
MODULES: Final = (
    *(f"capset/src/capset/{name}" for name in ("composition", "evaluation", "fingerprint", "kernel", "stores", "net")),
    "capset-server/src/capset_server",
    *(f"capset-tools/src/capset_tools/{name}" for name in ("files", "session_file_system")),
)
"""Where changes are made, below the folder of packages."""
MEMORY: Final = Path("/dev/shm")
_NAMED: Final = 10
"""More than there are folders above a module."""
_ELSEWHERE: Final = (
    "tests/journeys/",
    "tests/scripts/",
    "tests/typing/",
    "packages/capset-cli/tests/",
    "packages/capset-frameworks/tests/integration/frameworks/",  # each needs an environment of its own
    "packages/capset/tests/integration/stores/scale/",
)
"""Folders of tests about something else, or that take long for what they add."""
PROCESSES: Final = {
    "capset-server/src/capset_server/mcp/stdio": ("packages/capset-cli/tests/integration/test_mcp.py",),
    "capset-server/src/capset_server/http/uvicorn_server": (
        "packages/capset-server/tests/integration/http/test_uvicorn_server.py",
        "packages/capset-cli/tests/integration/test_serve.py",
    ),
    "capset-server/src/capset_server/standard_streams": (
        "packages/capset-cli/tests/integration/test_kernel.py",
        "packages/capset-cli/tests/integration/test_kernel_ends.py",
        "packages/capset-cli/tests/integration/test_mcp.py",
    ),
}
"""Tests of modules that run in processes which tests start, where nobody sees what they reach."""


@dataclass(frozen=True)
class Aim:
    """A tree whose ``modules`` are changed, which are below ``package``, and the tests that should notice."""

    root: Path
    package: str
    modules: Sequence[str]
    cache: Path
    equivalent: Path
    test_seconds: int = 60
    """After how long a test is taken to hang."""

    def test_files(self) -> list[str]:
        """Return the files of tests, from the root."""
        folders = (self.root / "tests", *self.root.glob("packages/*/tests"))
        paths = sorted(
            path.relative_to(self.root).as_posix() for folder in folders for path in folder.rglob("test_*.py")
        )
        named = {name for files in PROCESSES.values() for name in files}
        return [name for name in paths if name in named or not name.startswith(_ELSEWHERE)]

    def equivalents(self) -> Mapping[tuple[str, ...], str]:
        """Return why some changes cannot be noticed, by their keys."""
        if not self.equivalent.exists():
            return {}
        entries = tomllib.loads(self.equivalent.read_text("utf-8"))["equivalent"]
        return {
            (entry["path"], entry["function"], entry["before"], entry["after"]): entry["reason"] for entry in entries
        }

    def mutations(self, path: str) -> list[tuple[Mutation, range]]:
        """Return every change of a module, each with the lines of its statement."""
        text = (self.root / path).read_text("utf-8")
        candidates = ((change.of(path, text), change.lines) for change in changes_in(text))
        return [(mutation, lines) for mutation, lines in candidates if mutation is not None]

    def stale(self) -> list[tuple[str, ...]]:
        """Return the keys of those that stand in ``equivalent.toml`` and are no changes any more."""
        keys = self.equivalents().keys()
        paths = [path for path in {key[0] for key in keys} if (self.root / path).exists()]
        possible = {mutation.key for path in paths for mutation, _ in self.mutations(path)}
        return sorted(keys - possible)


@dataclass
class Report:
    """What came of each change."""

    noticed: list[tuple[Mutation, Outcome]] = field(default_factory=list[tuple[Mutation, Outcome]])
    survivors: list[Mutation] = field(default_factory=list[Mutation])
    equivalent: list[tuple[Mutation, str]] = field(default_factory=list[tuple[Mutation, str]])
    unclear: list[tuple[Mutation, str]] = field(default_factory=list[tuple[Mutation, str]])

    @property
    def score(self) -> float:
        """How many of a hundred were noticed, of those that could be."""
        tried = len(self.noticed) + len(self.survivors)
        return 100 * len(self.noticed) / tried if tried else 100.0


def sample(aim: Aim, count: int, seed: int) -> list[tuple[Mutation, range]]:
    """Return some changes, one a line at most, each with the lines of its statement.

    Which ones depends on the seed and on the lines themselves: what is written elsewhere makes no difference.
    """
    paths = sorted(path for module in aim.modules for path in _modules(aim.root / aim.package / module))
    ranked: list[tuple[bytes, str, list[Change]]] = []
    for path in (path.relative_to(aim.root).as_posix() for path in paths):
        lines: dict[tuple[str, int], list[Change]] = {}
        text = (aim.root / path).read_text("utf-8")
        for change in changes_in(text):
            lines.setdefault((change.function, change.line), []).append(change)
        occurrences = Counter[str]()
        for (function, line), changes in lines.items():
            named = f"{path} {function} {text.splitlines()[line - 1].strip()}"
            occurrences[named] += 1
            ranked.append((hashlib.sha256(f"{seed} {named} {occurrences[named]}".encode()).digest(), path, changes))
    sampled: list[tuple[Mutation, range]] = []
    for rank, path, changes in sorted(ranked, key=lambda entry: entry[0]):
        if len(sampled) == count:
            break
        change = changes[int.from_bytes(rank) % len(changes)]
        if (mutation := change.of(path, (aim.root / path).read_text("utf-8"))) is not None:
            sampled.append((mutation, change.lines))
    return sampled


def choose(aim: Aim, reach: Reach, mutation: Mutation, lines: range, seconds: float) -> list[str]:
    """Return the tests that can notice a change, the likeliest first, as many as fit into some seconds.

    Those are the tests that reach it, and those of its name, which may reach it in another process.
    """
    place = Path(mutation.path).relative_to(aim.package).with_suffix("").parts
    text = (aim.root / mutation.path).read_text("utf-8")
    reached = reach.tests_of(mutation.path, lines, text)
    ranked: list[tuple[int, float, dict[str, float]]] = []
    for file in reach.files:
        near = _nearness(place, file)
        tests = reach.tests_in(file)
        if near < (_NAMED if reached else 1):
            tests = {test: took for test, took in tests.items() if test in reached}
        if tests:
            ranked.append((-near, sum(tests.values()), dict(tests)))
    ranked.sort(key=lambda entry: entry[:2])
    every = {test: took for _, _, tests in ranked for test, took in tests.items()}
    chosen: list[str] = []
    for test in sorted(every, key=lambda test: "postgres" in test):  # whose server takes seconds to start
        seconds -= every[test]
        if seconds < 0 and chosen:
            break
        chosen.append(test)
    return chosen


def _nearness(place: Sequence[str], file: str) -> int:
    """Return how much the path of a file of tests says that it is about a module; ``_NAMED`` if it names it."""
    if file in PROCESSES.get("/".join(place), ()):
        return _NAMED
    parts = Path(file).with_suffix("").parts
    *folders, name = parts[4:] if parts[0] == "packages" else parts[1:]
    words = {*folders, *name.split("_")}
    shared = sum(part.removeprefix("capset_") in words for part in place[:-1])
    return shared + _NAMED * ({*place[-1].split("_")} <= set(name.split("_")))


def judge(aim: Aim, tree: Tree, reach: Reach, sampled: Sequence[tuple[Mutation, range]], seconds: float) -> Report:
    """Try every change."""
    report, equivalents = Report(), aim.equivalents()
    for number, (mutation, lines) in enumerate(sampled, start=1):
        label = f"{number:>4}  {mutation.path}:{mutation.line}"
        if (reason := equivalents.get(mutation.key)) is not None:
            report.equivalent.append((mutation, reason))
            _say(f"{label}  equivalent")
            continue
        tests = choose(aim, reach, mutation, lines, seconds)
        began, original = time.monotonic(), (tree.root / mutation.path).read_text("utf-8")
        tree.write(mutation.path, mutation.text)
        try:
            outcome = tree.run(tests, reach.seconds(tests)) if tests else Outcome("passed")
        finally:
            tree.write(mutation.path, original)
        if outcome.kind == "passed":
            report.survivors.append(mutation)
        else:
            report.noticed.append((mutation, outcome))
        by = "SURVIVED" if outcome.kind == "passed" else f"{outcome.kind} {outcome.test}"
        _say(f"{label}  {by} ({len(tests)} tests, {time.monotonic() - began:.0f} s)")
    _check_baseline(tree, reach, report)
    return report


def _check_baseline(tree: Tree, reach: Reach, report: Report) -> None:
    """Set aside what was noticed by tests that fail without any change too."""
    remaining, bad = {outcome.test for _, outcome in report.noticed if outcome.test is not None}, set[str]()
    while remaining:
        outcome = tree.run(sorted(remaining), reach.seconds(remaining), at_once=False)
        bad |= remaining if outcome.kind == "broken" else {*outcome.failed, str(outcome.test)} & remaining
        if outcome.kind != "hung" or outcome.test not in remaining:
            break
        remaining -= bad
    report.unclear = [(mutation, str(outcome.test)) for mutation, outcome in report.noticed if outcome.test in bad]
    report.noticed = [(mutation, outcome) for mutation, outcome in report.noticed if outcome.test not in bad]


def show(report: Report) -> None:
    """Print the score, and all that is no plain success."""
    for heading, mutations in (
        ("survivors", [(mutation, "") for mutation in report.survivors]),
        ("equivalent", report.equivalent),
        ("unclear, since the test fails without the change too", report.unclear),
    ):
        if mutations:
            print(f"\n{heading}")
        for mutation, note in mutations:
            print(
                f"  {mutation.path}:{mutation.line} {mutation.function}\n    - {mutation.before}\n"
                f"    + {mutation.after}"
            )
            if note:
                print(f"    {note}")
    noticed, aside = len(report.noticed), f"{len(report.equivalent)} equivalent, {len(report.unclear)} unclear"
    print(f"\nscore: {report.score:.1f} %, {noticed} of {noticed + len(report.survivors)} noticed; {aside}")


def run(aim: Aim, count: int, seed: int, seconds: float) -> Report:
    """Sample, try and return what came of it."""
    sampled = sample(aim, count, seed)
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        for path, function, before, _ in aim.stale():
            _say(f"equivalent.toml names a change that there is no more: {path} {function}: {before}")
        tree = Tree(aim.root, Path(folder), test_seconds=aim.test_seconds)
        reach = Reach(aim.cache, aim.package)
        reach.update(tree, aim.test_files(), _say)
        return judge(aim, tree, reach, sampled, seconds)


def main() -> int:
    """Read the command line, and say how it went by the exit code: 1 for too few that were noticed."""
    parser = argparse.ArgumentParser(prog="python -m lab.mutants", description="Hold the tests to single mutations.")
    parser.add_argument("--count", type=int, default=150, help="how many changes are tried (150)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--seconds", type=float, default=240.0, help="how long the tests of one may take (240)")
    parser.add_argument("modules", nargs="*", default=MODULES, help=f"folders or modules below {PACKAGES}/")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what it has started ends too
    equivalents_file = Path(__file__).with_name("equivalent.toml")
    aim = Aim(ROOT, PACKAGES, options.modules, ROOT / ".mutants", equivalents_file)
    report = run(aim, options.count, options.seed, options.seconds)
    show(report)
    return 0 if report.score >= LEAST else 1


def _modules(path: Path) -> list[Path]:
    """Return the modules of a folder, or the module of that name. Raises ``SystemExit`` if there is neither."""
    alone = path.with_suffix(".py")
    modules = [*([alone] if alone.is_file() else []), *sorted(path.rglob("*.py"))]
    if not modules:
        raise SystemExit(f"mutants: there is no module {path}: MODULES of lab/mutants/__main__.py names it")
    return modules


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
