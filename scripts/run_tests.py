"""Run the tests in several processes, each with files of its own: ``python -m scripts.run_tests [option | path …]``.

``--part NAME`` chooses the tests of a package with those of the packages that require it and of what is between them
(``--part capset-server``), those of a folder of one package alone (``--part capset-server/unit``), or those of a
subject (``--part kernel/streams``).

The files are dealt out by the seconds that their tests took before, so that each file is imported once: those of
``tests/durations.json``, or those of another file for another selection of tests.
``--processes N``, ``--shuffle`` and ``--durations FILE`` are options of this script, and ``--save`` writes the seconds
of this run to that file; all others are pytest's. Tests marked ``realtime`` that fail are run once more at the end,
alone: those that pass then are flaky, and named; more than three of them fail the run. The counts and the failures are
written to the file that CAPSET_REPORT names.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from scripts.packages import folders_of_tests, with_dependents

ROOT: Final = Path.cwd()
MOST_FLAKY: Final = 3
IMPORT_SECONDS: Final = 0.25
"""What a file takes beside its tests: it is imported, and its tests are collected."""
FEW_SECONDS: Final = 20.0
"""Tests that take less are run in one process."""
ELSEWHERE: Final = ROOT / "packages/capset-frameworks/tests/integration/frameworks"
"""Tests that ``make lab-frameworks`` runs, in environments that have the frameworks."""
_NO_TESTS: Final = 5
"""pytest's exit code when no test was chosen."""


def main(arguments: list[str]) -> int:
    """Run the tests; return 0 if all passed, 1 if one failed, pytest's code if it could not run them."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--processes", type=int, default=(os.cpu_count() or 1) + 2)
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--durations", type=Path, default=Path("tests/durations.json"))
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--part", action="append", default=[])
    parsed, others = parser.parse_known_args(arguments)
    paths = [
        argument for argument in others if not argument.startswith("-") and Path(argument.partition("::")[0]).exists()
    ]
    options = [argument for argument in others if argument not in paths]
    paths += [folder for part in parsed.part for folder in folders_of(part)]
    durations: dict[str, float] = json.loads(parsed.durations.read_text()) if parsed.durations.exists() else {}
    if any("::" in path for path in paths):
        shards = [paths]
    else:
        shards = deal(files_of(paths or map(str, folders_of_tests(ROOT))), durations, parsed.processes)
    seed = random.SystemRandom().randrange(1 << 31)
    if parsed.shuffle:
        print(f"shuffled by {seed}: CAPSET_SHUFFLE={seed} has the same order", flush=True)
        os.environ.setdefault("CAPSET_SHUFFLE", str(seed))
    with tempfile.TemporaryDirectory(prefix="capset-tests-") as folder:
        reports = run(shards, options, Path(folder))
        failures = [failure for report in reports for failure in report["failures"]]
        flaky, failures = rerun(failures, Path(folder))
    if parsed.save:
        save(parsed.durations, durations, shards, reports)
    counts = Counter[str]()
    for report in reports:
        counts.update(report["counts"])
    counts["failed"] = len(failures)
    counts["passed"] += len(flaky)
    for failure in failures:
        print(f"FAILED {failure['test']}: {failure['error']}")
    for failure in flaky:
        print(f"flaky: {failure['test']}: {failure['error']} (load {failure['load']:.1f})")
    summary = f"{counts['passed']} passed, {counts['failed']} failed"
    summary += f", {counts['skipped']} skipped" if counts["skipped"] else ""
    if len(flaky) > MOST_FLAKY:
        print(f"{len(flaky)} tests are flaky, and {MOST_FLAKY} may be")
    broken = [report["status"] for report in reports if report["status"] not in (0, 1, _NO_TESTS)]
    if broken:
        print(f"a process of the tests ended with {broken[0]}")
    print(summary)
    if path := os.environ.get("CAPSET_REPORT"):
        lines = [f"{failure['test']}: {failure['error']} (load {failure['load']:.1f})" for failure in flaky]
        Path(path).write_text(json.dumps({"summary": summary, "flaky": lines, "failures": failures}, indent=1))
    if broken:
        return broken[0]
    return 1 if failures or len(flaky) > MOST_FLAKY or not counts.total() else 0


def folders_of(part: str) -> list[str]:
    """Return the folders of tests of a package, of a folder of one, or of a subject; ``SystemExit`` if it has none."""
    package, _, rest = part.strip("/").partition("/")
    if not (ROOT / "packages" / package).is_dir():
        folders = [*ROOT.glob(f"packages/*/tests/*/{part}"), *ROOT.glob(f"tests/{part}")]
    elif rest:
        folders = [ROOT / "packages" / package / "tests" / rest]
    else:
        folders = [ROOT / "tests", *(ROOT / "packages" / name / "tests" for name in with_dependents(package, ROOT))]
    existing = [str(folder) for folder in folders if folder.is_dir()]
    if not existing:
        raise SystemExit(f"no package and no folder of tests is named {part!r}")
    return existing


def files_of(paths: Iterable[str]) -> list[str]:
    """Return the files of tests below some paths."""
    files: set[Path] = set()
    for path in map(Path, paths):
        files |= {path} if path.is_file() else set(path.resolve().rglob("test_*.py")) - set(ELSEWHERE.glob("*"))
    return sorted(str(path.resolve().relative_to(ROOT)) for path in files)


def deal(files: list[str], durations: Mapping[str, float], processes: int) -> list[list[str]]:
    """Deal files out to processes so that each takes about as long: the longest first, to the one with the least."""
    usual = statistics.median([seconds for seconds in durations.values() if seconds] or [1.0])
    seconds = {file: durations.get(file, usual) + IMPORT_SECONDS for file in files}
    if sum(seconds.values()) < FEW_SECONDS:
        processes = 1
    shards: list[list[str]] = [[] for _ in range(max(1, min(processes, len(files))))]
    taken = [0.0] * len(shards)
    for file in sorted(files, key=lambda path: -seconds[path]):
        shortest = taken.index(min(taken))
        shards[shortest].append(file)
        taken[shortest] += seconds[file]
    return [sorted(shard) for shard in shards if shard]


def run(shards: list[list[str]], options: list[str], folder: Path) -> list[dict[str, Any]]:
    """Run pytest for each shard at once, print what those said that failed, and return their reports."""
    running: list[tuple[subprocess.Popen[bytes], Path, Path]] = []
    for number, files in enumerate(shards):
        report, log = folder / f"{number}-{len(list(folder.iterdir()))}.json", folder / f"{number}.log"
        command = [sys.executable, "-m", "pytest", "-p", "tests.reports", *options, *files]
        environment = {**os.environ, "CAPSET_SHARD_REPORT": str(report)}
        with log.open("wb") as output:
            output_to = None if len(shards) == 1 else output
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output_to, stderr=output_to)
        running.append((process, report, log))
    reports: list[dict[str, Any]] = []
    for process, report, log in running:
        status = process.wait()
        if len(shards) > 1:
            text = log.read_text(errors="replace")
            print(text if status not in (0, _NO_TESTS) else text.rstrip().rpartition("\n")[2], flush=True)
        empty: dict[str, Any] = {"counts": {}, "failures": [], "seconds": {}}
        reports.append((json.loads(report.read_text()) if report.exists() else empty) | {"status": status})
    return reports


def rerun(failures: list[dict[str, Any]], folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run failed tests that live on real time once more, one after the other; return those that pass, and the rest."""
    tests = [failure["test"] for failure in failures if failure["realtime"]]
    if not tests:
        return [], failures
    print(f"once more, alone: {', '.join(tests)}", flush=True)
    (report,) = run([tests], [], folder)
    if report["status"] not in (0, 1):
        return [], failures
    failed = {failure["test"] for failure in report["failures"]}
    flaky = [failure for failure in failures if failure["realtime"] and failure["test"] not in failed]
    return flaky, [failure for failure in failures if failure not in flaky]


def save(path: Path, durations: dict[str, float], shards: list[list[str]], reports: list[dict[str, Any]]) -> None:
    """Save the seconds of the files that were run, 0 where no test was chosen, beside those of the others."""
    for shard, report in zip(shards, reports, strict=True):
        durations |= {file: round(report["seconds"].get(file, 0.0), 2) for file in shard}
    existing = {file: seconds for file, seconds in sorted(durations.items()) if (ROOT / file).exists()}
    path.write_text(json.dumps(existing, indent=0) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
