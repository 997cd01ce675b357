"""What the tests themselves rely on: a command from a warm start is what a new interpreter would be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Command, Done, clean_environment, install

PROBE = """
import atexit, json, os, sys

from capset import Capability

told = [os.getcwd(), sys.argv, sys.path, os.isatty(1), sys.stdin.read(), os.environ.copy()]
print(json.dumps([*told, sorted(name for name in sys.modules if name.startswith("capset.builtin."))]), file=sys.stderr)
atexit.register(print, "ended", file=sys.stderr)
probe = Capability("probe")
"""


def fresh(command: Command, *arguments: str) -> Done:
    """Run a command in a new interpreter."""
    with command.start(*arguments) as process:
        out, err = process.communicate(timeout=60)
    return Done(process.returncode, out, err)


@pytest.mark.parametrize("line", ["--version", "list --json", "describe nobody", "audit verify"])
def test_it_says_the_same_and_ends_with_the_same_code(line: str, workshop: Command) -> None:
    assert workshop(*line.split()) == fresh(workshop, *line.split())


def test_it_stands_in_the_same_place(tmp_path: Path) -> None:
    install(tmp_path, "probed", PROBE, capabilities={"probe": "probed:probe"})
    command = Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=str(tmp_path), CAPSET_X="ü\udce9"))
    forked, new = command("describe", "probe"), fresh(command, "describe", "probe")
    (shown, *rest), (expected, *same) = forked.err.splitlines(), new.err.splitlines()
    assert json.loads(shown) == json.loads(expected)
    assert (forked.code, forked.out, rest) == (new.code, new.out, same)
    assert rest == ["ended"], "it ends as an interpreter does"


def test_what_takes_too_long_is_killed_and_the_next_command_is_not_disturbed(workshop: Command) -> None:
    with pytest.raises(TimeoutError):
        workshop("call", "workshop.wait", "--args", '{"seconds": 60}', timeout=0.5)
    assert workshop("lsit").code == 2
