"""What a toolkit's gates take out of play, and what is told of those that are in it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Capability, Preset, Principal, Toolkit, compose
from capset.definitions.tools.toolkits import Member
from capset.fingerprint.hashes import prompt_hash
from tests.helpers.evaluation.things import ANYONE, make, of, says, seen

NO, YES = says("no", False), says("yes", True)


@pytest.mark.spec("F18", "F9")
async def test_what_is_pruned_says_nothing() -> None:
    denied = Toolkit("denied", [make("a", instructions="a.")], policies=[NO], instructions="Denied.")
    barred = Toolkit("barred", [make("b", permissions=["x:y"], instructions="b.")], instructions="Barred.")
    half = Toolkit("half", [make("c", NO), make("d", instructions="d.")], instructions=["Half.", "Really."])
    composition = of(denied, barred, half, system_prompt="Be.", instructions=["Agent."])
    snapshot = await seen(composition)
    assert snapshot.member_instructions == ("Half.", "Really.", "d.")
    assert snapshot.instructions == ("Agent.", *snapshot.member_instructions)
    assert snapshot.prompt_hash == prompt_hash("Be.", snapshot.instructions)
    assert "Denied." not in snapshot.system_text
    verdict = snapshot.explain("a")
    assert (verdict.reason, verdict.policies) == ("policy 'no' says no", ("no",))
    allowed = await seen(composition, Principal("user-2", permissions=["x:y"]))
    assert allowed.member_instructions[:2] == ("Barred.", "b.")
    assert (allowed.prompt_hash == snapshot.prompt_hash, allowed.static_hash) == (False, snapshot.static_hash)


@pytest.mark.spec("F18", "F20")
async def test_a_tool_in_two_toolkits_stands_behind_the_gates_of_both() -> None:
    tool, other = make("tool"), make("other")
    for first, second in ((YES, NO), (NO, YES)):
        kits = [Toolkit("first", [tool], policies=[first]), Toolkit("second", [tool, other], policies=[second])]
        snapshot = await seen(of(*kits))
        assert snapshot.explain("tool").policies == ("no",)
        assert snapshot.explain("other").in_play is (second is YES)
    agent = Agent("a", tools=[tool], uses=[Capability("c", tools=[Toolkit("kit", [tool], policies=[NO])])])
    assert (await seen(compose(agent))).tools == {}


@pytest.mark.spec("F18")
async def test_what_is_brought_by_two_ways_speaks_once() -> None:
    kit = Toolkit("kit", [make("tool", instructions="Tool.")], instructions="Kit.")
    agent = Agent("a", tools=[kit], uses=[Capability("c", tools=[kit]), Capability("d", tools=[kit], policies=[YES])])
    assert (await seen(compose(agent))).member_instructions == ("Kit.", "Tool.")
    twice = Capability("c", tools=[kit], presets={"p": Preset(tools=[kit])}, default=["p"])
    assert (await seen(compose(Agent("a", uses=[twice])))).member_instructions == ("Kit.", "Tool.")
    bare = Toolkit("bare", instructions="Bare.")
    denied, allowed = Toolkit("denied", [bare], policies=[NO]), Toolkit("allowed", [bare])
    assert (await seen(of(denied, allowed))).member_instructions == ("Bare.",), "if one of the ways is denied too"


@pytest.mark.spec("C14", "F9")
async def test_instructions_name_tools_as_they_are_called_here() -> None:
    search = make("search", instructions="Ask `search` first, then `other`.")
    kit = Toolkit("kit", [search], instructions="`search` searches.")
    agent = Agent("a", uses=[Capability("c", tools=[kit]).with_names(prefix="web_")])
    snapshot = await seen(compose(agent))
    assert snapshot.member_instructions == ("`web_search` searches.", "Ask `web_search` first, then `other`.")


SHAPES = st.recursive(
    st.tuples(st.booleans(), st.booleans()),
    lambda inner: st.tuples(st.booleans(), st.lists(inner, max_size=3)),
    max_leaves=10,
)


@pytest.mark.spec("F18", "F8", "F9")
@given(st.lists(SHAPES, max_size=4))
def test_a_tool_is_in_play_if_nothing_around_it_denies_and_a_toolkit_speaks_if_a_tool_does(shapes: list[Any]) -> None:
    numbers = iter(range(1000))
    expected: dict[str, bool] = {}
    texts: list[tuple[str, list[str] | None, bool]] = []

    def build(shape: Any, open_above: bool) -> tuple[Member, list[str]]:
        allowed, number = shape[0], next(numbers)
        gates = [YES] if allowed else [NO]
        if isinstance(shape[1], bool):
            name, permitted = f"tool_{number}", shape[1]
            expected[name] = open_above and allowed and permitted
            texts.append((name, [name], True))
            return make(name, *gates, permissions=[] if permitted else ["a:b"], instructions=[name]), [name]
        name, place = f"kit_{number}", len(texts)
        is_open = open_above and allowed
        texts.append((name, None, is_open))
        built = [build(inner, is_open) for inner in shape[1]]
        inside = [tool for _, tools in built for tool in tools]
        texts[place] = (name, inside if built else None, is_open)
        return Toolkit(name, [member for member, _ in built], policies=gates, instructions=[name]), inside

    members = [build(shape, True)[0] for shape in shapes]
    snapshot = asyncio.run(seen(of(*members), ANYONE))
    assert {name: verdict.in_play for name, verdict in snapshot.verdicts.items()} == expected
    assert set(snapshot.tools) == {name for name, is_in_play in expected.items() if is_in_play}
    speaking = [
        name
        for name, inside, is_open in texts
        if is_open and (inside is None or any(expected[tool] for tool in inside))
    ]
    assert list(snapshot.member_instructions) == speaking
