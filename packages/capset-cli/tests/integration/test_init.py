"""``capset init``: what it writes runs as it is, and with each of its commented parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from capset import Registry
from capset_cli.init import NAMES
from capset_connect.config_file.checks import check_text
from tests.helpers.cli.support import Run


def test_it_writes_an_agent_that_runs(run: Run, tmp_path: Path) -> None:
    done = run("init")
    assert done.code == 0, done.said
    assert run("check", "capset.yaml").code == 0
    model = ("--model", "script:script.yaml")
    turn = run("run", "capset.yaml", "What is order 7?", *model)
    assert (turn.code, "it was delivered" in turn.out) == (0, True), turn.said
    call = ("call", "refund_order", "--agent", "capset.yaml", "--grant", "orders:refund", "--defer", "--args")
    assert "needs an approval first" in run(*call, '{"number": 7, "amount": 40}').said
    assert "refunds of more than 100" in run(*call, '{"number": 7, "amount": 400}').said


def test_it_overwrites_nothing(run: Run, tmp_path: Path) -> None:
    assert run("init", "shop").code == 0
    texts = [(tmp_path / "shop" / name).read_text() for name in NAMES]
    (tmp_path / "shop" / "tools.py").write_text("mine = 1\n")
    assert run("init", "shop").code == 2
    assert (tmp_path / "shop" / "tools.py").read_text() == "mine = 1\n"
    assert [(tmp_path / "shop" / name).read_text() for name in (NAMES[0], NAMES[2])] == [texts[0], texts[2]]


@pytest.mark.spec("G27")
def test_every_commented_part_is_valid(run: Run, tmp_path: Path) -> None:
    run("init")
    text = (tmp_path / "capset.yaml").read_text()
    commented = re.compile(r"^(\s*)# (?=\s*(?:- |[a-z_]+:))", re.MULTILINE)
    assert len(commented.findall(text)) > 15
    report = check_text(commented.sub(r"\1", text), "yaml", Registry.installed())
    assert report.valid, report.problems
