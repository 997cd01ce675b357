"""What a configuration file allows everybody (spec 4, G36)."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset import Kernel, Principal
from capset.errors import LimitExceeded
from capset.ext import Allowance, Budget, Limit
from tests.helpers.connect.config_file.support import read, refused

ALLOWED = """\
governance:
  pending_approvals: 7
  allowance:
    limits: [100/1h, {requests: 2, window: 1m, scope: process}]
    session: {calls: 100, cost: 2.5}
    run: {calls: 20}
"""


@pytest.mark.spec("G36", "G27")
def test_it_is_read_in_every_format(tmp_path: Path) -> None:
    toml = """
    [governance]
    pending_approvals = 7
    [governance.allowance]
    limits = ["100/1h", {requests = 2, window = "1m", scope = "process"}]
    session = {calls = 100, cost = 2.5}
    run.calls = 20
    """
    expected = Allowance(
        limits=["100/1h", Limit(2, "1m", scope="process")], session=Budget(100, 2.5), run=Budget(calls=20)
    )
    for text, name in ((ALLOWED, "a.yaml"), (toml, "a.toml")):
        governance = read(tmp_path, text, name).governance
        assert (governance.allowance, governance.pending_approvals) == (expected, 7)
    for nothing in ("", "allowance: null", "allowance: {}", "allowance: {limits: [], session: {}}"):
        assert read(tmp_path, f"governance: {{{nothing}}}").governance.allowance is None


@pytest.mark.spec("G36", "G28")
def test_everything_that_is_wrong_with_it_has_its_line(tmp_path: Path) -> None:
    text = """\
governance:
  pending_approvals: 0
  allowance:
    limits:
      - 100/1h
      - 100/1w
    limts: []
    session: {calls: -1}
    run:
      cost: 1
      tokens: 5
"""
    problems = {path: (line, message) for line, path, message in refused(tmp_path, text)}
    assert {path: line for path, (line, _) in problems.items()} == {
        "governance.pending_approvals": 2,
        "governance.allowance.limits.1": 6,
        "governance.allowance.limts": 7,
        "governance.allowance.session.calls": 8,
        "governance.allowance.run.tokens": 11,
    }
    assert "a window is a whole number and s, m, h or d" in problems["governance.allowance.limits.1"][1]
    assert "did you mean 'limits'?" in problems["governance.allowance.limts"][1]
    assert "there is no such field" in problems["governance.allowance.run.tokens"][1]


@pytest.mark.spec("G36", "G13")
async def test_the_limits_of_an_action_stay_in_the_process_where_it_says_so(tmp_path: Path) -> None:
    text = """
    actions:
      - {name: add, tool: sums.add, permissions: [], limits: {requests: 1, window: 1h, scope: process}}
    """
    (tool,) = read(tmp_path, text).tools
    assert tool.limits == (Limit(1, "1h", scope="process"),)


@pytest.mark.spec("G28", "G36")
def test_an_effect_that_a_limit_on_all_calls_holds_is_no_warning(tmp_path: Path) -> None:
    text = """
    actions:
      - {name: a, title: A, permissions: [a:b], effect: external, handler: ./handlers/notify.py}
    governance: {require_auth: true, allowance: {%s}}
    """
    assert read(tmp_path, text % "limits: [1/1m]").warnings == ()
    (warned,) = read(tmp_path, text % "run: {calls: 1}").warnings
    assert "nothing limits how often it is called" in warned.message


@pytest.mark.spec("G36")
async def test_a_kernel_holds_everybody_to_it(tmp_path: Path) -> None:
    text = """
    actions: [{name: add, tool: sums.add, permissions: []}]
    governance: {default_permissions: [sums:read], allowance: {limits: [1/1h]}}
    """
    configuration = read(tmp_path, text)
    async with Kernel(store="memory://", governance=configuration.governance) as kernel:
        for principal_id in ("ada", "bob"):
            async with kernel.open(configuration.agent, principal=Principal(principal_id)) as session:
                message = session.message("add", {"a": 1, "b": 2})
                assert (await session.try_message(message)).data == 3
                error = (await session.try_message(message)).error
                assert isinstance(error, LimitExceeded)
                assert "this server is limited to 1/1h" in error.message
