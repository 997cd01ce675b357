"""What the tests themselves rely on: a command from a warm start is what a new interpreter would be."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path
from typing import cast

import pytest

from tests.helpers.cli.forking import Forked
from tests.helpers.cli.support import Command, clean_environment, install

IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
PROBE = """
import atexit, json, os, sys

from capset import Capability

told = [os.getcwd(), sys.argv, sys.path, os.isatty(1), sys.stdin.read(), os.environ.copy()]
print(json.dumps(told), file=sys.stderr)
atexit.register(print, "ended", file=sys.stderr)
probe = Capability("probe")
"""


@pytest.mark.realtime
@pytest.mark.parametrize("line", ["--version", "list --json", "describe nobody", "audit verify"])
def test_it_says_the_same_and_ends_with_the_same_code(line: str, workshop: Command) -> None:
    assert workshop(*line.split()) == workshop.anew(*line.split())


@pytest.mark.realtime
def test_it_stands_in_the_same_place(tmp_path: Path) -> None:
    install(tmp_path, "probed", PROBE, capabilities={"probe": "probed:probe"})
    command = Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=str(tmp_path), CAPSET_X="ü\udce9"))
    forked, new = command("describe", "probe"), command.anew("describe", "probe")
    (actual, *rest), (expected, *same) = forked.err.splitlines(), new.err.splitlines()
    assert json.loads(actual) == json.loads(expected)
    assert (forked.code, forked.out, rest) == (new.code, new.out, same)
    assert rest == ["ended"], "it ends as an interpreter does"


def test_what_takes_too_long_is_killed_and_the_next_command_is_not_disturbed(workshop: Command) -> None:
    with pytest.raises(TimeoutError):
        workshop("call", "workshop.wait", "--args", '{"seconds": 60}', timeout=0.5)
    assert workshop("lsit").code == 2


@pytest.mark.nightly
@pytest.mark.parametrize("line", ["call workshop.echo --args -", "mcp --agent foreman"])
def test_who_stands_in_for_it_hands_on_what_is_read_and_said(line: str, workshop: Command) -> None:
    stdin = json.dumps({"text": "ü😀" * 50_000}, ensure_ascii=False)
    done = []
    for start in (workshop.start, workshop.start_anew):
        with start(*line.split(), stdin=subprocess.PIPE) as process:
            out, err = process.communicate(stdin, timeout=60)
        done.append((process.returncode, IDS.sub("ID", out), IDS.sub("ID", err)))
    assert done[0] == done[1]


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, None), (signal.SIGHUP, None), (signal.SIGKILL, None)]
)
def test_who_stands_in_for_it_hands_on_signals(number: signal.Signals, code: int | None, workshop: Command) -> None:
    with workshop.start("call", "workshop.steps", "--args", '{"count": 1000000}') as process:
        assert process.stderr is not None
        assert process.stderr.readline()
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == (-number if code is None else code)


@pytest.mark.realtime
def test_a_command_whose_stand_in_is_gone_is_killed(workshop: Command) -> None:
    with workshop.start("call", "workshop.steps", "--args", '{"count": 1000000}') as process:
        assert process.stderr is not None
        assert process.stderr.readline()
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
        while process.stderr.read(65536):
            pass  # until nobody has the other end


@pytest.mark.realtime
@pytest.mark.parametrize(
    "message", [b"", b'{"arguments": [', b'{"arguments": ["--version"], "folder": "/", "environ": {}}\n']
)
def test_who_is_killed_while_it_asks_does_not_end_the_warm_process(message: bytes, workshop: Command) -> None:
    with cast("Forked", workshop.start("--version", stdout=subprocess.DEVNULL)) as process:
        process.wait(60)
    with Path(os.devnull).open("r+b") as nothing:
        for _ in range(20):
            with socket.socket(socket.AF_UNIX) as asking:
                asking.connect(process.door)
                if message:
                    socket.send_fds(asking, [message], [nothing.fileno()] * 3)
    assert workshop("lsit").code == 2
