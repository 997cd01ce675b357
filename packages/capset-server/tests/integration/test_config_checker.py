"""Checks of configurations in a process of their own (spec 5, P34)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from capset import Capability, Principal, tool
from capset.errors import InvalidArguments
from capset.kernel.registry import Registry
from capset_connect.config_file.checks import Format, check_text
from capset_connect.config_file.reader import MAX_PROBLEMS
from capset_server.config_checker import ConfigChecker
from capset_server.http.request_rules import HttpRefusal

pytestmark = [pytest.mark.anyio, pytest.mark.spec("P34"), pytest.mark.realtime]
ADA = Principal("ada", org="acme")
SOUND = "actions: [{name: a, description: d, permissions: [], handler: ./a.py}]"


@pytest.fixture
async def checker() -> AsyncGenerator[ConfigChecker]:
    """Give a checker, and end its process."""
    config_checker = ConfigChecker(seconds=20)
    yield config_checker
    await config_checker.close()


@pytest.fixture(scope="module")
def installed() -> Registry:
    """Give what is installed."""
    return Registry.installed()


@pytest.mark.gate
async def test_the_process_says_what_the_function_says(checker: ConfigChecker, installed: Registry) -> None:
    for text in (SOUND, "actions: [{name: a}]", "[", "capabilities: [test_math, {id: nothing}]"):
        assert await checker.check(ADA, text, "yaml", installed) == check_text(text, "yaml", installed)


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("yaml", "governance: {refusals: {null: 1}}", "unknown field 'None'"),
        ("yaml", "governance: {refusals: 0x%s}" % ("f" * 4_000), "an integer has at most 4,000 digits"),
        ("json", r'{"governance": {"redact": ["\ud800"]}}', "redact holds a lone surrogate"),
        ("json", r'{"roles": {"\ud800": []}}', "lone surrogates"),
        (
            "json",
            r'{"actions": [{"name": "\ud800", "handler": "./a.py"}]}',
            "unable to parse raw data as a unicode string",
        ),
        ("json", r'{"actions": [{"name": "a", "handler": "./\ud800.py"}]}', "without lone surrogates"),
    ],
)
async def test_odd_values_are_problems_of_the_file(
    checker: ConfigChecker, installed: Registry, format: Format, text: str, expected: str
) -> None:
    report = await checker.check(ADA, text, format, installed)
    assert any(expected in issue.message for issue in report.problems), report


async def test_a_check_that_takes_too_long_ends_and_the_next_one_works(
    checker: ConfigChecker, installed: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    await checker.check(ADA, SOUND, "yaml", installed)  # the process is there
    monkeypatch.setattr("capset_server.config_checker.CHECK_SECONDS", 0.2)
    actions = [{"name": f"a{n}", "description": "d", "permissions": [], "handler": "./a.py"} for n in range(3_000)]
    with pytest.raises(InvalidArguments, match=r"more than 0\.2 seconds of processor time"):
        await checker.check(ADA, json.dumps({"actions": actions}), "json", installed)
    monkeypatch.undo()
    assert (await checker.check(ADA, SOUND, "yaml", installed)).valid


async def test_a_client_that_leaves_ends_its_check(checker: ConfigChecker, installed: Registry) -> None:
    await checker.check(ADA, SOUND, "yaml", installed)
    process = checker.process
    assert process is not None
    actions = [{"name": f"a{n}", "description": "d", "permissions": [], "handler": "./a.py"} for n in range(3_000)]
    checking = asyncio.create_task(checker.check(ADA, json.dumps({"actions": actions}), "json", installed))
    await asyncio.sleep(0.1)
    checking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await checking
    async with asyncio.timeout(60):
        assert await process.wait() == -signal.SIGKILL
    assert (await checker.check(ADA, SOUND, "yaml", installed)).valid


async def test_a_client_that_leaves_while_the_process_starts_spoils_nothing(
    checker: ConfigChecker, installed: Registry
) -> None:
    checking = asyncio.create_task(checker.check(ADA, SOUND, "yaml", installed))
    await asyncio.sleep(0.1)
    assert checker.process is None  # it is loading
    checking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await checking
    assert (await checker.check(ADA, SOUND, "yaml", installed)).valid


async def test_a_checker_is_closed_while_its_process_starts(checker: ConfigChecker, installed: Registry) -> None:
    checking = asyncio.create_task(checker.check(ADA, SOUND, "yaml", installed))
    await asyncio.sleep(0.1)
    await checker.close()
    with pytest.raises(asyncio.CancelledError):
        await checking


@pytest.mark.parametrize("program", ["true", "sleep"])
async def test_a_process_that_does_not_start_is_refused_and_the_next_check_works(
    checker: ConfigChecker, installed: Registry, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {program} 3600\n")
    python.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(python))
        patch.setattr("capset_server.config_checker._PATIENCE_SECONDS", 0.2 if program == "sleep" else 60.0)
        with pytest.raises(HttpRefusal, match="did not start") as raised:
            await checker.check(ADA, SOUND, "yaml", installed)
    assert (raised.value.status, raised.value.retryable) == (503, True)
    assert (await checker.check(ADA, SOUND, "yaml", installed)).valid


async def test_a_process_that_dies_is_replaced(checker: ConfigChecker, installed: Registry) -> None:
    await checker.check(ADA, SOUND, "yaml", installed)
    assert checker.process is not None
    os.kill(checker.process.pid, signal.SIGKILL)
    await checker.process.wait()
    assert (await checker.check(ADA, SOUND, "yaml", installed)).valid


async def test_capabilities_of_the_host_are_known(checker: ConfigChecker, installed: Registry) -> None:
    @tool(effect="read")
    async def own() -> str:
        """Do something of the host's own."""
        return ""

    ours = Capability("ours", description="Ours.", tools=[own])
    registry = Registry.of([*installed.capabilities.values(), ours], installed.agents.values())
    text = "actions: [{tool: ours.own}]"
    report = await checker.check(ADA, text, "yaml", registry)
    assert report == check_text(text, "yaml", registry)


async def test_problems_beyond_the_first_hundred_are_not_looked_for(
    checker: ConfigChecker, installed: Registry
) -> None:
    report = await checker.check(ADA, json.dumps({"actions": [{"wrong": 1}] * 5_000}), "json", installed)
    assert len(report.problems) == MAX_PROBLEMS + 1
    assert "first 100 problems" in report.problems[0].message
