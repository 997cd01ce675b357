"""``capset audit tail``: the newest records, and those that follow, until somebody ends it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.cli.support import ADD, Run, clean_environment


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_the_newest_records_are_shown_the_newest_last(run: Run) -> None:
    for _ in range(3):
        run(*ADD)
    run("call", "test_math.ad")
    lines = run("audit", "tail", "-n", "2").out.splitlines()
    assert [line.split()[0] for line in lines] == ["3", "4"]
    assert " local add succeeded " in lines[0]
    assert " local test_math.ad not_found " in lines[1]
    records = [json.loads(line) for line in run("audit", "tail", "--json").out.splitlines()]
    assert [record["seq"] for record in records] == [1, 2, 3, 4]
    assert records[0]["arguments"] == {"a": 2, "b": 3}
    assert run("audit", "tail", "-n", "0").out == ""


@pytest.mark.nightly
@pytest.mark.spec("G22")
def test_what_follows_is_shown_until_ctrl_c(run: Run, tmp_path: Path) -> None:
    run(*ADD)
    command = [sys.executable, "-c", "from capset_cli import main; main()", "audit", "tail", "-f", "--json"]
    # What runs in the background of a shell is started with SIGINT ignored, and so would this be.
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=clean_environment(tmp_path, PYTHONPATH=":".join(sys.path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_interruptible,  # noqa: PLW1509 - no other thread of the tests forks
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["seq"] == 1
        write = ("session_file_system.write_file", "--args", '{"path": "/a", "content": ""}')
        run("call", *write, "--grant", "session_files:write")
        run(*ADD)
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert [(line["seq"], line["phase"]) for line in lines] == [(4, "outcome"), (5, "outcome")]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")
