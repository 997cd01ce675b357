"""Tests with real frameworks, in the environments that ``make frameworks`` makes; elsewhere they are not collected."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.frameworks.contract import ROWS

MODULES: Mapping[str, str] = {"claude_agent": "claude_agent_sdk", "crewai": "mcp", "openai_agents": "agents"}
"""The module that each framework's tests import, by their names."""

collect_ignore = [
    path.name
    for path in Path(__file__).parent.glob("test_*.py")
    if find_spec(MODULES[path.stem.removeprefix("test_")]) is None
]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


class ContractResults:
    """What came of the contract: for each framework the rows, with nothing where one holds, and else the reason."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test of the contract, once it has run."""
        file, *_, test = report.nodeid.split("::")
        row = test.partition("[")[0].removeprefix("test_")
        if report.when != "call" or "::TestContract::" not in report.nodeid or row not in ROWS:
            return
        reason: str = getattr(report, "wasxfail", "")
        self.found.setdefault(Path(file).stem.removeprefix("test_"), {})[row] = reason.removeprefix("reason: ")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the results for the table, where ``scripts/frameworks.py`` says, in the process that collects."""
    if "CAPSET_CONTRACT" in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ContractResults(), "contract-results")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write them."""
    results = session.config.pluginmanager.get_plugin("contract-results")
    if isinstance(results, ContractResults):
        Path(os.environ["CAPSET_CONTRACT"]).write_text(json.dumps(results.found), encoding="utf-8")
