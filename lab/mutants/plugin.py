"""Runs pytest as a file of JSON says, and keeps what came of it in another: in a process of its own, of any tree.

``{"measure": FOLDER, "arguments": […]}`` keeps which test reached which line of the folder, and how long each took;
``{"tests": […], "arguments": […]}`` runs these, in their order, up to the first that fails.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest


class Chosen:
    """Runs some tests, and says at once which failed and which is running."""

    def __init__(self, tests: list[str], report_path: Path) -> None:
        self._places = {test: place for place, test in enumerate(tests)}
        self._told = report_path
        self._failed: list[str] = []

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out all others."""
        chosen = [item for item in items if item.nodeid in self._places]
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self._places])
        items[:] = sorted(chosen, key=lambda item: self._places[item.nodeid])
        self._tell(None)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Keep which test is running, for whoever has to kill this process."""
        self._tell(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what failed."""
        if report.failed and report.nodeid not in self._failed:
            self._failed.append(report.nodeid)
            self._tell(report.nodeid)

    def _tell(self, running: str | None) -> None:
        self._told.write_text(json.dumps({"running": running, "failed": self._failed}))


class Measured:
    """Keeps which test reached which line."""

    def __init__(self, folder: str, report_path: Path) -> None:
        from coverage import Coverage

        self._told = report_path
        self._seconds: dict[str, float] = {}
        self._coverage = Coverage(
            str(report_path.with_suffix(".sqlite")), config_file=False, source=[folder], messages=False
        )
        self._coverage.set_option("run:relative_files", True)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Let what is reached be reached by this test."""
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep how long a test took, its fixtures included."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_unconfigure(self) -> None:
        """Write it all down."""
        self._coverage.stop()
        self._coverage.save()
        self._told.write_text(json.dumps(self._seconds))


def main(request_path: Path, report_path: Path) -> int:
    """Run pytest."""
    request: dict[str, Any] = json.loads(request_path.read_text())  # JSON, as the module says
    plugin = (
        Measured(request["measure"], report_path) if "measure" in request else Chosen(request["tests"], report_path)
    )
    return pytest.main(["-p", "no:cacheprovider", "-q", *request["arguments"]], plugins=[plugin])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
