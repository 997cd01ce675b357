"""Tests in several processes: who gets which files, and what is run once more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.packages import ROOT
from scripts.run_tests import IMPORT_SECONDS, deal, folders_of

SEVERAL = """
import pytest
from pathlib import Path

def test_that_passes(): pass

@pytest.mark.realtime
def test_that_passes_the_second_time():
    seen = Path("seen")
    seen.write_text(seen.read_text() + "x" if seen.exists() else "x")
    assert len(seen.read_text()) > 1, "the machine was busy"

@pytest.mark.realtime
def test_that_is_skipped(): pytest.skip("not here")
"""


@given(st.dictionaries(st.text("abcdef", min_size=1), st.floats(0, 1e4), min_size=1), st.integers(1, 8))
def test_each_file_is_dealt_once_and_no_process_is_far_behind(seconds: dict[str, float], processes: int) -> None:
    shards = deal(sorted(seconds), seconds, processes)
    assert sorted(file for shard in shards for file in shard) == sorted(seconds)
    taken = [sum(seconds[file] + IMPORT_SECONDS for file in shard) for shard in shards]
    assert max(taken) <= sum(taken) / len(shards) + max(seconds.values()) + IMPORT_SECONDS + 1e-6


def test_a_part_is_a_package_with_those_that_require_it_or_a_folder_or_a_subject() -> None:
    def parts(name: str) -> list[str]:
        return [Path(folder).relative_to(ROOT).as_posix() for folder in folders_of(name)]

    assert parts("capset-server") == ["tests", "packages/capset-cli/tests", "packages/capset-server/tests"]
    assert parts("capset-server/unit") == ["packages/capset-server/tests/unit"]
    assert sorted(parts("kernel/call")) == [
        f"packages/capset/tests/{level}/kernel/call" for level in ("integration", "unit")
    ]
    with pytest.raises(SystemExit, match="nowhere"):
        folders_of("nowhere")


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.parametrize(
    ("more", "code", "summary", "flaky"),
    [
        ("", 0, "2 passed, 0 failed, 1 skipped", 1),
        (
            "\ndef test_that_fails():\n    Path('again').mkdir()\n    raise AssertionError('as ever')\n",
            1,
            "2 passed, 1 failed, 1 skipped",
            1,
        ),
        ("\ndef test_(:\n", 2, "0 passed, 1 failed", 0),
    ],
)
def test_only_tests_of_real_time_are_run_once_more(
    tmp_path: Path, more: str, code: int, summary: str, flaky: int
) -> None:
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests/reports.py", tmp_path / "tests")
    (tmp_path / "tests/test_several.py").write_text(SEVERAL + more)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    realtime: real\naddopts = -p no:cacheprovider\n")
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "scripts.run_tests", "-q"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CAPSET_REPORT": str(report)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, summary), done.stdout + done.stderr
    report_data = json.loads(report.read_text())
    assert (report_data["summary"], len(report_data["flaky"])) == (summary, flaky)
    assert "FileExistsError" not in done.stdout, "what fails without the mark is not run again"
    if flaky:
        assert "test_that_passes_the_second_time: AssertionError: the machine was busy" in report_data["flaky"][0]
