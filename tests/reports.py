"""A plugin of pytest that writes the counts, failures and seconds of files that ``scripts/run_tests.py`` reads."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

_counts = Counter[str]()
_failures: dict[str, dict[str, Any]] = {}
_seconds: dict[str, float] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count a report of a test; its set-up and its end are reported too."""
    file = report.nodeid.partition("::")[0]
    _seconds[file] = _seconds.get(file, 0.0) + report.duration
    if report.failed:
        _failures.setdefault(
            report.nodeid,
            {
                "test": report.nodeid,
                "realtime": "realtime" in report.keywords,
                "error": _first_line(report.longrepr),
                "load": os.getloadavg()[0],
            },
        )
    elif report.skipped or report.when == "call":
        _counts[report.outcome] += 1


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Count a file that cannot be collected as a failure."""
    if report.failed:
        _failures[report.nodeid] = {
            "test": report.nodeid,
            "realtime": False,
            "error": _first_line(report.longrepr),
            "load": os.getloadavg()[0],
        }


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle files, and the tests of each, where CAPSET_SHUFFLE has a seed; fixtures of a file are still made once."""
    if seed := os.environ.get("CAPSET_SHUFFLE"):
        chance = random.Random(seed)
        files = sorted({item.path for item in items})
        chance.shuffle(files)
        place = {file: number for number, file in enumerate(files)}
        order = {item: (place[item.path], chance.random()) for item in items}
        items.sort(key=order.__getitem__)


def pytest_sessionfinish() -> None:
    """Write the report."""
    if path := os.environ.get("CAPSET_SHARD_REPORT"):
        failed = list(_failures.values())
        Path(path).write_text(json.dumps({"counts": _counts, "failures": failed, "seconds": _seconds}))


def _first_line(error: object) -> str:
    crash = getattr(error, "reprcrash", None)
    text = str(getattr(crash, "message", None) or error or "")
    return text.strip().partition("\n")[0][:300]
