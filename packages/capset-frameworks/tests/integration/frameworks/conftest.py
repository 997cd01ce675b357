"""Tests with real frameworks, in the environments that ``make lab-frameworks`` makes; elsewhere none is collected."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.helpers.frameworks.contract import ROWS

MODULES: Mapping[str, str] = {
    "agent_framework": "agent_framework",
    "claude_agent": "claude_agent_sdk",
    "crewai": "mcp",
    "google_adk": "google.adk",
    "langchain": "langchain",
    "llama_index": "llama_index",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "tool_json": "anthropic",
}
"""The module that each framework's tests import, by their names: ``test_NAME`` and ``test_NAME_*``."""


def _module(test: str) -> str:
    name = test.removeprefix("test_")
    return next(module for prefix, module in MODULES.items() if f"{name}_".startswith(f"{prefix}_"))


def _is_missing(module: str) -> bool:
    """Whether a module, or the package around it, is not installed."""
    return find_spec(module.partition(".")[0]) is None or find_spec(module) is None


collect_ignore = [path.name for path in Path(__file__).parent.glob("test_*.py") if _is_missing(_module(path.stem))]


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
        if report.when != "call" or "Contract::" not in report.nodeid or row not in ROWS:
            return
        reason: str = getattr(report, "wasxfail", "")
        rows = self.found.setdefault(Path(file).stem.removeprefix("test_"), {})
        rows[row] = rows.get(row) or reason.removeprefix(
            "reason: "
        )  # of several classes, a row holds if it does in all


def pytest_configure(config: pytest.Config) -> None:
    """Keep the results for the table, where ``lab/frameworks.py`` says, in the process that collects."""
    if "CAPSET_CONTRACT" in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ContractResults(), "contract-results")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write them."""
    results = session.config.pluginmanager.get_plugin("contract-results")
    if isinstance(results, ContractResults):
        Path(os.environ["CAPSET_CONTRACT"]).write_text(json.dumps(results.found), encoding="utf-8")
