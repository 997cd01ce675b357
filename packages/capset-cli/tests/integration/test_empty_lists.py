"""Empty lists: nothing on stdout, and on stderr what makes an entry."""

from __future__ import annotations

import pytest

from tests.helpers.cli.support import Run


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("key list", "capset key create"),
        ("people list", "capset people add"),
        ("approvals list", "approval: ask"),
        ("audit checkpoints", "capset audit checkpoint"),
        ("sessions list --principal eve", "--principal"),
        ("list --category nothing", "--category"),
    ],
)
def test_an_empty_list_says_what_makes_an_entry(run: Run, line: str, remedy: str) -> None:
    assert run("call", "test_math.add", "--args", '{"a": 1, "b": 2}').code == 0
    done = run(*line.split())
    assert (done.code, done.out) == (0, "")
    assert remedy in done.said
