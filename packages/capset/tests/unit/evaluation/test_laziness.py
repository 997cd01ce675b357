"""What a snapshot works out at first use is what the payloads say, whenever that is (spec 2, F8, F9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import Policy, Principal, Snapshot, Toolkit
from capset.evaluation.plan import plan_of
from capset.fingerprint.canonical import digest
from capset.fingerprint.hashes import Ref, tool_hash
from capset.fingerprint.payloads import prompt_payload, runtime_payload
from tests.helpers.evaluation.things import made_by, make, of, seen

PERMISSIONS = ["a:read", "b:read", "c:read"]
NUMBERS = st.sets(st.integers(0, 3), max_size=3)
TOOLS = st.lists(
    st.tuples(st.sets(st.sampled_from(PERMISSIONS)), NUMBERS, st.sampled_from(["", "kit", "made"])), max_size=8
)
OCCASIONS = st.lists(st.tuples(st.sets(st.sampled_from(PERMISSIONS)), NUMBERS), min_size=1, max_size=5)


def consistent(snapshot: Snapshot) -> None:
    """Compare everything that a snapshot says with everything else, and with what anybody can compute."""
    refs = [Ref(name, tool_hash(entry.tool)) for name, entry in snapshot.tools.items()]
    assert list(snapshot.tool_refs) == sorted(refs, key=lambda ref: (ref.name, ref.hash))
    assert snapshot.runtime_hash == digest(runtime_payload(ref.payload for ref in refs))
    system_prompt = snapshot.composition.block.system_prompt
    assert snapshot.prompt_hash == digest(prompt_payload(system_prompt, snapshot.instructions))
    assert snapshot.static_hash == snapshot.composition.static_hash
    assert {name for name, verdict in snapshot.verdicts.items() if verdict.in_play} == set(snapshot.tools)
    assert list(snapshot.verdicts) == list(snapshot.installed)
    for name, installed in snapshot.installed.items():
        missing = installed.tool.permissions - snapshot.principal.permissions
        denied = [gate.id for gate in installed.policies if snapshot.decisions[gate.id].kind == "deny"]
        assert (name in snapshot.tools) is (not missing and not denied)
        deciding = denied or [gate.id for gate in installed.policies]
        assert snapshot.verdicts[name].policies == (() if missing else tuple(deciding))
        assert snapshot.explain(name) is snapshot.verdicts[name]
    assert all(text in snapshot.system_text for text in snapshot.member_instructions)


@pytest.mark.spec("F8", "F9", "F21")
@settings(max_examples=40)
@given(TOOLS, OCCASIONS)
def test_everything_agrees_for_whatever_tools_principals_and_answers(tools: list[Any], occasions: list[Any]) -> None:
    policies = [
        Policy(f"p{number}", lambda request, number=number: number not in request.env["off"]) for number in range(4)
    ]
    members = {"": list[Any](), "kit": list[Any](), "made": list[Any]()}
    for number, (permissions, behind, where) in enumerate(tools):
        gates = [policies[index] for index in sorted(behind)]
        members[where].append(make(f"tool_{number}", *gates, permissions=permissions, instructions=f"Tool {number}."))
    kit = Toolkit("kit", members["kit"], policies=policies[:1], instructions="Kit.")
    composition = of(*members[""], kit, made_by("made", *members["made"], instructions="Made."), system_prompt="Be.")
    for granted, off in occasions:
        consistent(asyncio.run(seen(composition, Principal("p", permissions=granted), env={"off": off})))


@pytest.mark.spec("F8", "F21")
@settings(max_examples=5)
@given(st.randoms(use_true_random=False))
def test_more_choices_than_are_remembered_are_hashed_as_truly(chance: Any) -> None:
    flags = [Policy(f"p{number}", lambda request, number=number: number in request.env["on"]) for number in range(8)]
    composition = of(*(make(f"tool_{number}", gate, instructions=f"{number}.") for number, gate in enumerate(flags)))
    choices = [frozenset(chance.sample(range(8), chance.randrange(9))) for _ in range(160)]
    choices += choices[:5]

    async def all_of_them() -> list[Snapshot]:
        return [await seen(composition, env={"on": on}) for on in choices]

    snapshots = asyncio.run(all_of_them())
    for on, snapshot in zip(choices, snapshots, strict=True):
        refs = [Ref(f"tool_{number}", tool_hash(snapshot.installed[f"tool_{number}"].tool)) for number in sorted(on)]
        assert snapshot.runtime_hash == digest(runtime_payload(ref.payload for ref in refs))
        assert snapshot.prompt_hash == digest(prompt_payload("", [f"{number}." for number in sorted(on)]))
    assert snapshots[0].plan is plan_of(composition), "worked out once"


@pytest.mark.spec("F21")
async def test_a_snapshot_is_not_moved_by_those_after_it() -> None:
    gate = Policy("gate", lambda request: request.env["on"])
    composition = of(make("tool", gate), make("free"))
    first, second = [await seen(composition, env={"on": on}) for on in (True, False)]
    assert (set(first.tools), set(second.tools)) == ({"tool", "free"}, {"free"})
    consistent(first)
    consistent(second)
