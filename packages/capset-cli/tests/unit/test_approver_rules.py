"""``capset approvals`` where a configuration file has rules for approvers (spec 4, G45–G49)."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.helpers.cli.support import Done, Run, install
from tests.helpers.cli.till import TILL

CONFIGURATION = """\
governance:
  approvers:
    - tools: [till.pay]
      permission: payments:approve
      attributes: {department: finance}
      approvals: 2
      escalate_after: 600
      escalate_to: payments:lead
capabilities: [till]
"""
PAY = ("call", "pay", "--args", '{"to": "bob"}', "--defer")
FAY = ("--principal", "fay", "--grant", "payments:approve", "--attribute", "department=finance")
FRED = ("--principal", "fred", *FAY[2:])


@pytest.fixture
def shop(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Run]:
    """Give the command as a function, in a folder with a configuration file, where the till is installed."""
    packages = tmp_path / "packages"
    packages.mkdir()
    install(packages, "tillshop", TILL, capabilities={"till": "tillshop:till"})
    monkeypatch.syspath_prepend(str(packages))
    Path("capset.yaml").write_text(CONFIGURATION)
    yield run
    sys.modules.pop("tillshop", None)


def asked(shop: Run) -> tuple[str, str]:
    done = shop(*PAY, "--agent", "capset.yaml", "--json")
    assert done.code == 3, done.err
    assert "It needs two different approvers with the permission payments:approve" in done.json["error"]["message"]
    return done.json["session"], done.json["approval"]


def approve(shop: Run, request: str, *more: str) -> Done:
    return shop("approvals", "approve", request, *more)


@pytest.mark.spec("G45", "G46", "G48")
def test_two_people_who_may_approve_a_call(shop: Run) -> None:
    session, request = asked(shop)
    refused = approve(shop, request, "--principal", "eve", "--grant", "payments:approve")
    assert refused.code == 3
    assert "you have payments:approve and no department" in " ".join(refused.said.split())
    half = approve(shop, request, *FAY, "--note", "checked")
    assert half.code == 0, half.err
    assert approve(shop, request, *FAY).code == 2, "a conflict"
    (row,) = [line for line in shop("approvals", "list").out.splitlines() if request in line]
    assert "pending 1/2" in row
    details = shop("approvals", "show", request).out
    assert "needs         two different approvers with the permission payments:approve" in details
    assert 'approvals     ["user:fay at ' in details
    assert "escalates_at  2" in details
    assert shop(*PAY, "--session", session).code == 3
    approved = approve(shop, request, *FRED, "--json").json
    assert (approved["status"], approved["decidable"]) == ("approved", False)
    assert shop(*PAY, "--session", session).out == "bob has 5\n"


@pytest.mark.spec("G48")
def test_changed_arguments_are_approved_by_their_round(shop: Run) -> None:
    session, request = asked(shop)
    changed = approve(shop, request, *FAY, "--args", '{"to": "bob", "amount": 4}', "--json").json
    assert (changed["round"], changed["refusal"].split()[:3]) == (1, ["you", "have", "approved"])
    assert approve(shop, request, *FRED, "--round", "0").code == 2
    assert approve(shop, request, *FRED, "--round", "1", "--args", "{}").code == 2
    assert approve(shop, request, *FRED, "--round", "1", "--json").json["status"] == "approved"
    assert shop(*PAY, "--session", session).out == "bob has 4\n"
