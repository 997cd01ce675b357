"""What the suite found, held against what is expected of it, written `SCENARIO:CHECK` as the suite has it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from lab.conformance.suite import Side

FOLDER: Final = re.compile(r"(?:server-)?(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
"""What the suite calls the folder of one scenario's results; the name of a client's may have slashes."""
CLIENT_ERROR: Final = "client-error"
"""The check that fails if a client ended with an error in which the suite finds no fault."""
GRAVITY: Final = ("INFO", "SKIPPED", "SUCCESS", "WARNING", "FAILURE")
"""What can become of a check, the gravest last. A check that stands twice counts as its gravest."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a scenario; ``said`` is what the suite says of it, if anything."""

    id: str
    status: str
    said: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether the suite finds fault; it takes a warning for a failure too."""
        return self.status in ("WARNING", "FAILURE")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of one scenario, what is wrong with it, and which expectations came true."""

    said: str
    wrong: tuple[str, ...]
    used: frozenset[str]

    @property
    def word(self) -> str:
        """All of it in a word."""
        return "FAILED" if self.wrong else "expected" if self.used else "ok"


def expectations(file: Path, side: Side) -> frozenset[str]:
    """Return the entries of a file of expected failures for one side."""
    return frozenset(yaml.safe_load(file.read_text(encoding="utf-8"))[side])


def read_results(folder: Path) -> dict[str, list[Check]]:
    """Return the checks of every scenario that left its results in a folder."""
    checks_by_scenario: dict[str, list[Check]] = {}
    for file in sorted(folder.glob("**/checks.json")):
        name = file.parent.relative_to(folder).as_posix()
        named = FOLDER.fullmatch(name)
        if named is None:
            raise ValueError(f"no folder of a scenario: {name}")
        entries = json.loads(file.read_text(encoding="utf-8"))
        checks = _gravest(Check(entry["id"], entry["status"], entry.get("errorMessage") or "") for entry in entries)
        stderr = file.with_name("stderr.txt")
        if stderr.exists() and (error := stderr.read_text().strip()) and not any(check.has_failed for check in checks):
            # A client that did not get to what is checked passes: those checks count as skipped.
            checks.append(Check(CLIENT_ERROR, "FAILURE", error))
        checks_by_scenario[named["scenario"]] = checks
    return checks_by_scenario


def judge(scenario: str, checks: Iterable[Check], expected: frozenset[str]) -> Verdict:
    """Hold one scenario's checks against what is expected of them. A check that was skipped is neither."""
    named = {f"{scenario}:{check.id}": check for check in checks}
    failed = {name for name, check in named.items() if check.has_failed}
    passed = {name for name, check in named.items() if check.status == "SUCCESS"}
    wrong = [f"{name} fails: {named[name].said or named[name].status}" for name in sorted(failed - expected)]
    wrong += [f"{name} passes: it is expected to fail" for name in sorted(passed & expected)]
    if not named:
        wrong.append(f"{scenario} checks nothing")
    tallies = [(len(passed), "passed"), (len(failed & expected), "failed as expected"), (len(wrong), "wrong")]
    return Verdict(", ".join(f"{count} {label}" for count, label in tallies if count), tuple(wrong), expected & failed)


def unused(expected: frozenset[str], verdicts: Iterable[Verdict]) -> list[str]:
    """Return the expectations that came true nowhere."""
    used = frozenset[str]().union(*(verdict.used for verdict in verdicts))
    return sorted(expected - used)


def _gravest(checks: Iterable[Check]) -> list[Check]:
    gravest: dict[str, Check] = {}
    for check in checks:
        earlier = gravest.setdefault(check.id, check)
        if GRAVITY.index(check.status) > GRAVITY.index(earlier.status):
            gravest[check.id] = check
    return list(gravest.values())
