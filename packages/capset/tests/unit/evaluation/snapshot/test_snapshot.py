"""What one principal may use here and now, and why not the rest."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import (
    Agent,
    Capability,
    Composition,
    Policy,
    Principal,
    Request,
    Snapshot,
    Tool,
    Verdict,
    allow,
    compose,
    deny,
    evaluate,
    policy,
    tool,
)
from capset.errors import NotFound
from capset.fingerprint.hashes import Ref, prompt_hash, runtime_hash, tool_hash

ANYONE = Principal("user-1")


def make(name: str, *policies: Policy, permissions: Any = ()) -> Tool[..., Any]:
    @tool(name=name, policies=policies, permissions=permissions)
    def handler() -> None:
        """Do."""
        raise AssertionError("evaluate runs no handler")

    return handler


def composed(*tools: Tool[..., Any], **more: Any) -> Composition:
    return compose(Agent("a", uses=[Capability("c", tools=tools)], **more))


@policy
def pro_tier(request: Request) -> Any:
    return allow() if request.env.get("tier") == "pro" else deny("export needs the pro tier")


@policy
async def by_day(request: Request) -> bool:
    await asyncio.sleep(0)
    return bool(request.env.get("day"))


FREE, EXPORT, NIGHTLY = make("free"), make("export", pro_tier), make("nightly", pro_tier, by_day)
NOTES, ALL = make("notes", permissions=["notes:read"]), make("all", permissions=["notes:write", "notes:read"])
GATED = make("gated", by_day, permissions=["notes:read"])
EVERYTHING = composed(FREE, EXPORT, NIGHTLY, NOTES, ALL, GATED)


@pytest.mark.spec("F18", "G8")
@pytest.mark.parametrize(
    ("permissions", "in_play"),
    [
        ([], {"free"}),
        (["notes:read"], {"free", "notes"}),
        (["notes:write"], {"free"}),
        (["notes:read", "notes:write"], {"free", "notes", "all"}),
        (["notes:reading", "note:read"], {"free"}),
    ],
)
async def test_a_missing_permission_prunes(permissions: list[str], in_play: set[str]) -> None:
    snapshot = await evaluate(EVERYTHING, principal=Principal("user-1", permissions=permissions))
    assert set(snapshot.tools) == in_play


@pytest.mark.spec("F21", "F22", "G2")
async def test_there_is_a_reason_for_every_tool() -> None:
    snapshot = await evaluate(EVERYTHING, principal=Principal("user-1", permissions=["notes:read"]), env={"tier": "x"})
    assert dict(snapshot.verdicts) == {
        "free": Verdict(True, "no policy stands against it"),
        "export": Verdict(False, "export needs the pro tier", ("pro_tier",)),
        "nightly": Verdict(False, "export needs the pro tier; policy 'by_day' says no", ("pro_tier", "by_day")),
        "notes": Verdict(True, "no policy stands against it"),
        "all": Verdict(False, "user-1 lacks the permission notes:write"),
        "gated": Verdict(False, "policy 'by_day' says no", ("by_day",)),
    }
    assert snapshot.explain("export") is snapshot.verdicts["export"]
    nobody = await evaluate(EVERYTHING, principal=ANYONE, env={"tier": "pro", "day": True})
    assert nobody.explain("nightly") == Verdict(True, "allowed by pro_tier, by_day", ("pro_tier", "by_day"))
    assert nobody.explain("all").reason == "user-1 lacks the permission notes:read and notes:write"
    assert nobody.explain("gated") == Verdict(False, "user-1 lacks the permission notes:read")


@pytest.mark.spec("F21")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exprot", "unknown tool 'exprot'; did you mean 'export'?"),
        ("zzz", "unknown tool 'zzz'; there is: all, export, free, gated, nightly, notes"),
        ("c.export", "unknown tool 'c.export'"),
        ("", "unknown tool ''"),
    ],
)
async def test_a_name_that_the_agent_has_not_is_not_found(name: str, message: str) -> None:
    snapshot = await evaluate(EVERYTHING, principal=ANYONE)
    with pytest.raises(NotFound) as refused:
        snapshot.explain(name)
    assert str(refused.value).startswith(message)


@pytest.mark.spec("F17")
async def test_each_policy_object_is_asked_once_per_evaluation_whatever_bears_it() -> None:
    counts: Counter[str] = Counter()
    order: list[str] = []

    def counted(name: str) -> Policy:
        def ask(request: Request) -> bool:
            counts[name] += 1
            order.append(name)
            return True

        return Policy(name, ask)

    first, two, three = counted("one"), counted("two"), counted("three")
    tools = [make("a", two), make("b", first, two), make("c", three, first), make("d", first, two, three)]
    composition = compose(Agent("a", uses=[Capability("x", tools=tools[:2]), Capability("y", tools=tools[2:])]))
    await evaluate(composition, principal=ANYONE)
    assert counts == {"one": 1, "two": 1, "three": 1}
    assert order == ["two", "one", "three"]
    await evaluate(composition, principal=ANYONE)
    assert counts == {"one": 2, "two": 2, "three": 2}


@pytest.mark.spec("F15", "F16")
async def test_a_policy_sees_who_and_where_and_no_tool_yet() -> None:
    requests: list[Request] = []

    def look(request: Request) -> bool:
        requests.append(request)
        return True

    principal = Principal("user-1", org="acme")
    await evaluate(composed(make("a", Policy("look", look))), principal=principal, env={"tier": "pro"})
    assert requests == [Request({"tier": "pro"}, principal, None, None)]
    await evaluate(composed(make("a", Policy("look", look))), principal=principal)
    assert requests[1].env == {}


KINDS = {"allow": allow(), "deny": deny("no"), "true": True, "false": False, "raise": RuntimeError("x"), "none": None}


def answering(number: int, kind: str, *, suspends: bool) -> Policy:
    async def then(answer: Any) -> Any:
        await asyncio.sleep(0)
        return answer

    def ask(request: Request) -> Any:
        answer: Any = KINDS[kind]
        if isinstance(answer, Exception):
            raise answer
        return then(answer) if suspends else answer

    return Policy(f"{number}-{kind}", ask)


@pytest.mark.spec("F20", "F15")
@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.booleans()), max_size=6))
def test_any_denial_wins_in_any_order_and_is_named(kinds: list[tuple[str, bool]]) -> None:
    policies = [answering(number, kind, suspends=late) for number, (kind, late) in enumerate(kinds)]
    against = tuple(gate.id for gate in policies if gate.id.split("-")[1] not in ("allow", "true"))
    snapshot = asyncio.run(evaluate(composed(make("a", *policies)), principal=ANYONE))
    verdict = snapshot.explain("a")
    assert verdict.in_play is (not against)
    assert verdict.policies == (against or tuple(gate.id for gate in policies))
    assert set(snapshot.tools) == ({"a"} if not against else set())
    assert verdict.reason


@pytest.mark.spec("F15")
async def test_a_policy_that_fails_prunes_without_telling_why() -> None:
    def broken(request: Request) -> bool:
        raise RuntimeError("password=hunter2")

    snapshot = await evaluate(composed(make("a", Policy("broken", broken)), FREE), principal=ANYONE)
    assert snapshot.explain("a") == Verdict(
        False,
        "the policy failed, so it denies",
        ("broken",),
        detail="the policy failed, so it denies (RuntimeError)",  # for the record
    )
    assert set(snapshot.tools) == {"free"}


async def test_the_environment_is_a_frozen_copy() -> None:
    env = {"tier": "pro"}

    def change(request: Request) -> bool:
        request.env["tier"] = "free"  # pyright: ignore[reportIndexIssue]
        return True

    snapshot = await evaluate(composed(EXPORT, make("a", Policy("change", change))), principal=ANYONE, env=env)
    env["tier"] = "free"
    assert isinstance(snapshot.env, MappingProxyType)
    assert snapshot.env == {"tier": "pro"}
    assert set(snapshot.tools) == {"export"}, "a policy that tries to change it fails, and so denies"


@pytest.mark.spec("F8", "F9", "F21")
async def test_the_hashes_are_those_of_what_is_in_play() -> None:
    composition = composed(NOTES, FREE, EXPORT, system_prompt="Be.", instructions=["Sing."])
    snapshot = await evaluate(composition, principal=ANYONE, env={"tier": "pro"})
    references = (Ref("export", tool_hash(EXPORT)), Ref("free", tool_hash(FREE)))
    assert snapshot.tool_refs == references
    assert snapshot.runtime_hash == runtime_hash(references) == runtime_hash(reversed(references))
    assert snapshot.prompt_hash == prompt_hash("Be.", ["Sing."])
    assert snapshot.static_hash == composition.static_hash
    assert snapshot.instructions == composition.instructions
    assert all(len(digest) == 64 for digest in (snapshot.runtime_hash, snapshot.prompt_hash, snapshot.static_hash))


@pytest.mark.spec("F8", "F9")
@settings(deadline=None)
@given(st.sets(st.sampled_from(["notes:read", "notes:write"])), st.booleans(), st.booleans())
def test_one_hash_for_one_set_of_tools(permissions: set[str], pro: bool, day: bool) -> None:
    def snapshot(principal: str) -> Snapshot:
        env = {"tier": "pro" if pro else "free", "day": day}
        return asyncio.run(evaluate(EVERYTHING, principal=Principal(principal, permissions=permissions), env=env))

    first, two = snapshot("user-1"), snapshot("user-2")
    assert first.runtime_hash == two.runtime_hash
    full = asyncio.run(
        evaluate(
            EVERYTHING,
            principal=Principal("all", permissions=["notes:read", "notes:write"]),
            env={"tier": "pro", "day": True},
        )
    )
    assert (first.runtime_hash == full.runtime_hash) is (set(first.tools) == set(full.tools))
    assert first.prompt_hash == full.prompt_hash
    assert first.static_hash == full.static_hash
    assert list(first.verdicts) == list(EVERYTHING.tools)


async def test_who_may_use_nothing_still_has_a_snapshot() -> None:
    snapshot = await evaluate(composed(ALL), principal=ANYONE)
    assert (dict(snapshot.tools), snapshot.tool_refs) == ({}, ())
    assert snapshot.runtime_hash == runtime_hash([])
    assert snapshot.runtime_hash == (await evaluate(compose(Agent("bare")), principal=ANYONE)).runtime_hash
