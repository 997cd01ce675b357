"""``capset describe``: what tools say of themselves, and which toolkits they are in (spec 5, P6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli.support import Command, clean_environment, install

CELLAR = '''
from capset import Capability, Policy, Preset, Toolkit, dynamic_toolkit, tool
from capset.ext import Limit

adults = Policy("adults", lambda _: True)


@tool(
    effect="write",
    instructions=["Hold it [b]low[/b]."],
    examples=[{"bottles": 2}],
    version="1.4",
    idempotent=True,
    approval="ask",
    limits=["100/1h", Limit(5, "1d", per="all")],
    cost=2.5,
)
async def pour(bottles: int) -> str:
    """Pour."""
    return "poured"


@tool(effect="read", approval=lambda request: True)
async def taste() -> str:
    """Taste."""
    return "good"


@dynamic_toolkit(name="guests")
def guests(context):
    return []


wine = Toolkit("wine", [pour, Toolkit("old", [taste]), guests], instructions="Let it breathe.", policies=[adults])
cellar = Capability("cellar", limits="600/1h", tools=[wine], presets={"empty": Preset(tools=[Toolkit("nothing", [])])})
'''


@pytest.fixture
def cellar(tmp_path: Path) -> Command:
    """Give the command where the cellar is installed."""
    packages = tmp_path / "packages"
    packages.mkdir()
    install(packages, "cellar", CELLAR, capabilities={"cellar": "cellar:cellar"})
    return Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=str(packages)))


@pytest.mark.spec("P6")
def test_a_description_shows_toolkits_with_their_members_and_what_is_told_of_them(cellar: Command) -> None:
    text = cellar("describe", "cellar").out
    description = cellar("describe", "cellar", "--json").json
    wine, old, guests, nothing = description["toolkits"]
    for fragment in (
        f"toolkit wine pour, old, guests, behind adults, {wine['hash'][:8]}",
        "Let it breathe.",
        f"toolkit old taste, {old['hash'][:8]}",
        f"toolkit guests its members are made at run time, {guests['hash'][:8]}",
        f"toolkit nothing empty, {nothing['hash'][:8]}",
        "limits 600/1h",
        "pour write, idempotent, each call needs approval, at most 100/1h and 5/1d per all, costs 2.5, ",
        "taste read, some calls need approval, ",
    ):
        assert fragment in text, fragment
    assert "toolkit" not in cellar("describe", "noop").out


@pytest.mark.spec("P6")
def test_a_tool_shows_what_it_says_of_itself(cellar: Command) -> None:
    text = cellar("describe", "cellar.pour").out
    for fragment in ("version 1.4", "Hold it [b]low[/b].", '"bottles": 2'):
        assert fragment in text, fragment
    description = cellar("describe", "cellar.pour", "--json").json
    assert (description["instructions"], description["examples"]) == (["Hold it [b]low[/b]."], [{"bottles": 2}])
    assert (description["version"], description["idempotent"]) == ("1.4", True)
    assert (description["approval"], description["limits"], description["cost"]) == (
        "ask",
        ["100/1h", "5/1d per all"],
        2.5,
    )
    other = cellar("describe", "cellar", "--json").json
    assert (other["limits"], other["tools"][1]["approval"], other["tools"][1]["limits"]) == (["600/1h"], "dynamic", [])
    plain = cellar("describe", "cellar.taste").out
    assert not any(word in plain for word in ("version", "instructions", "example", "idempotent"))
