"""Code neither gets out of the sandbox nor takes more than it may have, and nothing of it is left (spec 5, P18).

What is tried stands in ``sandbox.yaml``, by classes.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.tools.sandbox.support import PYTHONS, box, open_files, run, running, texts
from tests.security.attacks import attacks, classes_of

FILE = "sandbox.yaml"
SECRET = "hush-5f1d"
LIMITS = ("time", "memory", "output", "files")
KEPT = {"/kept.txt": "kept\n"}
LATE = 100.0
"""Seconds after which a run of at most 60 seconds has not ended by its limit, on a machine however busy."""


def cases(*classes: str) -> list[Any]:
    """Return the cases of some classes, each for a jail, and those of Python for Monty.

    ``jailed`` of a case says what else stops it in a jail than its class. ``make nightly`` tries the limits of Monty,
    and the gate runs one case of each class and language.
    """
    parameters: list[Any] = []
    in_gate: set[tuple[str, str]] = set()
    for parameter in attacks(FILE, *classes):
        case = parameter.values[0]
        for language in PYTHONS if case["language"] == "python" else ("bash",):
            is_jailed = language != "monty"
            stopped = case.get("jailed", case["class"]) if is_jailed else case["class"]
            is_quick = is_jailed or case["class"] in ("host", "network")
            marks = [] if is_quick else [pytest.mark.nightly]
            if is_jailed and (case["class"], language) not in in_gate:
                in_gate.add((case["class"], language))
                marks.append(pytest.mark.gate)
            values = {**case, "language": language, "stopped": stopped}
            parameters.append(pytest.param(values, id=f"{parameter.id}, {language}", marks=marks))
    return parameters


def test_every_class_is_tried() -> None:
    assert classes_of(FILE) == {"host", "network", "contained", *LIMITS}


@pytest.mark.realtime
@pytest.mark.spec("P18", "T28", "T29")
@pytest.mark.parametrize("case", cases("host"))
async def test_nothing_of_the_host_is_told(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSET_TEST_SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text(SECRET)
    result, _ = await tried(case, file=f"{tmp_path}/secret.txt", folder=str(tmp_path))
    output = json.dumps(result)
    assert SECRET not in output
    assert "site-packages" not in output
    assert str(os.getpid()) not in result["stdout"].split()


@pytest.mark.realtime
@pytest.mark.spec("P18", "T28")
@pytest.mark.parametrize("case", cases("network"))
async def test_nobody_is_connected_to(case: dict[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        await tried(case, port=str(server.getsockname()[1]))
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
@pytest.mark.parametrize("case", cases(*LIMITS))
async def test_each_limit_ends_the_run_and_is_named(case: dict[str, Any]) -> None:
    result, files = await tried(case)
    assert result["stopped"] == case["stopped"]
    assert result["exit_code"] is None
    assert result["files"]["kept"] is False
    assert files == KEPT
    assert len(result["stdout"]) <= 2_000
    assert len(result["stderr"]) <= 2_000


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
@pytest.mark.parametrize("case", cases("contained"))
async def test_what_is_hard_to_run_ends_all_the_same(case: dict[str, Any]) -> None:
    result, files = await tried(case)
    assert result["stopped"] != "crash"
    assert files["/kept.txt"] == KEPT["/kept.txt"]


async def tried(case: dict[str, Any], **names: str) -> tuple[Any, dict[str, str]]:
    """Run a case in a session with one file; return the result, and the files then."""
    code = case["code"]
    for name, value in names.items():
        code = code.replace(f"{{{name}}}", value)
    before = open_files()
    # Time is short only where it is what must end the run, or may.
    seconds = 0.3 if case["stopped"] == "time" else 3.0 if case["class"] == "contained" else 60.0
    async with box(
        case["language"], seconds=seconds, memory_bytes=64 << 20, output_bytes=2_000, max_files=50, max_bytes=2_000_000
    ) as desk:
        await desk.session.files.write("/kept.txt", b"kept\n")
        async with asyncio.timeout(LATE):
            result = await run(desk.session, case["language"], code)
        assert running(os.getpid()) == set()
        files = await texts(desk.session)
    assert open_files() <= before
    return result, files
