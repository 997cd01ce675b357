"""The types, as a strict type checker sees them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from capset import Agent
from capset.ext import helper_types
from capset_tools.http import http
from capset_tools.memory import memory
from capset_tools.web_fetch import web_fetch
from scripts.packages import source_folders

pytestmark = [pytest.mark.realtime, pytest.mark.gate]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
IGNORE = re.compile(r"  # pyright: ignore\[(?P<rules>[\w, ]+)\]")


CLAIMS = [
    ("session.call(sync, 1), int)", "session.call(sync, 1), str)"),
    ("session.call(streamed), str)", "session.call(streamed), int)"),
    ("Result[list[Note]])", "Result[Note])"),
]
"""What stands in the accepted file, and what would be wrong there."""

ACCEPTED, REFUSED = [(HERE / name).read_text("utf-8") for name in ("accepted.py", "refused.py")]


WRITTEN = helper_types(Agent("desk", uses=[web_fetch, http, memory]))
USING = """
from typing import Any, assert_type

from capset import Context
from capset_tools.memory import Memory
from capset_tools.web_fetch.fetch import WebFetch
from capset.ext import HttpClient
from written import DeskHelpers


async def use(ctx: Context[DeskHelpers], untyped: Context) -> None:
    assert_type(ctx.cap.web_fetch, WebFetch)
    assert_type(ctx.cap["http"], HttpClient)
    assert_type(ctx.cap.memory, Memory)
    assert_type(ctx.cap["memory"], Memory)
    assert_type(untyped.cap, Any)
    ctx.cap.nowhere
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Check files, strictly and each by itself, and give what is wrong with each, by its name."""
    files = {"accepted": ACCEPTED, "refused": IGNORE.sub("", REFUSED), "written": WRITTEN, "using": USING}
    files |= {f"claim{number}": ACCEPTED.replace(right, wrong) for number, (right, wrong) in enumerate(CLAIMS)}
    folder = tmp_path_factory.mktemp("typing")
    settings = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error", "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings | {"extraPaths": list(map(str, source_folders()))}))
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--project",
        str(folder),
        "--pythonpath",
        sys.executable,
        "--outputjson",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(files)
    diagnostics: dict[str, list[dict[str, Any]]] = {name: [] for name in files}
    for diagnostic in report["generalDiagnostics"]:
        diagnostics[Path(diagnostic["file"]).stem].append(diagnostic)
    return diagnostics


def test_what_is_right_is_accepted_with_the_types_that_it_says(errors: dict[str, list[dict[str, Any]]]) -> None:
    assert errors["accepted"] == []


def test_what_is_wrong_is_refused_where_it_stands(errors: dict[str, list[dict[str, Any]]]) -> None:
    expected = {
        (number, rule)
        for number, line in enumerate(REFUSED.splitlines())
        if (match := IGNORE.search(line))
        for rule in match["rules"].split(", ")
    }
    assert len(expected) >= 30
    assert {(diagnostic["range"]["start"]["line"], diagnostic["rule"]) for diagnostic in errors["refused"]} == expected


@pytest.mark.spec("C41")
def test_helpers_have_the_types_that_are_written_for_them(errors: dict[str, list[dict[str, Any]]]) -> None:
    assert errors["written"] == []
    lines = {diagnostic["range"]["start"]["line"] for diagnostic in errors["using"]}
    assert lines == {USING.splitlines().index("    ctx.cap.nowhere")}


@pytest.mark.parametrize("number", range(len(CLAIMS)))
def test_a_wrong_claim_would_be_found(number: int, errors: dict[str, list[dict[str, Any]]]) -> None:
    assert ACCEPTED.count(CLAIMS[number][0]) == 1
    (diagnostic,) = errors[f"claim{number}"]
    assert diagnostic["rule"] == "reportAssertTypeFailure"
