"""The types, as a strict type checker sees them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
IGNORE = re.compile(r"  # pyright: ignore\[(?P<rules>[\w, ]+)\]")


def errors_of(folder: Path, **files: str) -> list[dict[str, Any]]:
    """Check these files by themselves, strictly, and return what is wrong with them."""
    settings = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error", "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings | {"extraPaths": [str(ROOT / "src")]}))
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
    return report["generalDiagnostics"]


def test_what_is_right_is_accepted_with_the_types_that_it_says(tmp_path: Path) -> None:
    assert errors_of(tmp_path, accepted=(HERE / "accepted.py").read_text("utf-8")) == []


def test_what_is_wrong_is_refused_where_it_stands(tmp_path: Path) -> None:
    source = (HERE / "refused.py").read_text("utf-8")
    expected = {
        (number, rule)
        for number, line in enumerate(source.splitlines())
        if (found := IGNORE.search(line))
        for rule in found["rules"].split(", ")
    }
    assert len(expected) >= 30
    found = errors_of(tmp_path, refused=IGNORE.sub("", source))
    assert {(one["range"]["start"]["line"], one["rule"]) for one in found} == expected


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("session.call(sync, 1), int)", "session.call(sync, 1), str)"),
        ("session.call(streamed), str)", "session.call(streamed), int)"),
        ("Result[list[Note]])", "Result[Note])"),
    ],
)
def test_a_wrong_claim_would_be_found(right: str, wrong: str, tmp_path: Path) -> None:
    source = (HERE / "accepted.py").read_text("utf-8")
    assert source.count(right) == 1
    (found,) = errors_of(tmp_path, accepted=source.replace(right, wrong))
    assert found["rule"] == "reportAssertTypeFailure"
