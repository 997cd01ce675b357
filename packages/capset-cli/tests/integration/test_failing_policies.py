"""Policies that fail: the log names what is missing, a hint gives the option, and the exit code is not 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli.support import Command, clean_environment, install

SHOP = '''
from capset import Agent, Capability, Decision, Request, allow, deny, policy, tool


@policy
def pro(request: Request) -> Decision:
    return allow() if request.env["tier"] == "pro" else deny("pro only")


@policy
def here(request: Request) -> bool:
    return request.principal.attributes["region"] == "eu"


@policy
def broken(request: Request) -> bool:
    return {"hunter2": True}[request.env["password"]]


@tool(effect="read", policies=[pro, here])
async def export() -> str:
    """Export."""
    return "exported"


@tool(effect="read", policies=[broken])
async def burn() -> str:
    """Burn."""
    return "burnt"


exports = Capability("exports", tools=[export])
fires = Capability("fires", tools=[burn])
clerk = Agent("clerk", uses=[exports])
'''
GIVEN = ("--env", "tier=pro", "--attribute", "region=eu")


@pytest.fixture
def shop(tmp_path: Path) -> Command:
    packages = tmp_path / "packages"
    packages.mkdir()
    capabilities = {name: f"shop:{name}" for name in ("exports", "fires")}
    install(packages, "shop", SHOP, capabilities=capabilities, agents={"clerk": "shop:clerk"})
    return Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=str(packages)))


def test_what_a_policy_lacks_is_named_with_its_option(shop: Command) -> None:
    done = shop("call", "exports.export")
    assert done.code == 3
    assert done.err.splitlines()[:4] == [
        "error: policy 'pro' failed: KeyError 'tier'",
        "hint:  --env tier=…",
        "error: policy 'here' failed: KeyError 'region'",
        "hint:  --attribute region=…",
    ]
    assert shop("call", "exports.export", *GIVEN).out == "exported\n", "as the hints say"


@pytest.mark.parametrize("command", ["compose", "fingerprint"])
def test_a_command_that_evaluates_ends_with_1_if_a_policy_failed(command: str, shop: Command) -> None:
    for more in ((), ("--json",)):
        done = shop(command, "clerk", *more)
        assert (done.code, "KeyError 'tier'" in done.err) == (1, True)
        assert (done := shop(command, "clerk", *GIVEN, *more)).code == 0, done.err


def test_a_replay_ends_with_1_if_a_policy_fails_now(shop: Command) -> None:
    assert shop("fingerprint", "clerk", *GIVEN, "--envelope", "then.json").code == 0
    assert shop("replay", "then.json").code == 0
    done = shop("replay", "then.json", "--attribute", "team=blue")
    assert (done.code, "hint: --attribute region=…" in done.said) == (1, True)


def test_other_errors_are_told_by_their_type_alone(shop: Command) -> None:
    done = shop("call", "fires.burn", "--env", "password=swordfish")
    assert "error: policy 'broken' failed: KeyError\n" in done.err
    assert "swordfish" not in done.err
