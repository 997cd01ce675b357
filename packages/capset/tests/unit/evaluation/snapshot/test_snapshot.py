"""What one principal may use here and now, and why not the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from capset import Agent, Policy, Principal, Request, Tool, Verdict, compose, deny, evaluate, policy, tool
from capset.errors import NotFound

ANYONE = Principal("user-1")


def make(name: str, *policies: Policy, permissions: Any = ()) -> Tool[..., Any]:
    @tool(name=name, policies=policies, permissions=permissions)
    def handler() -> None:
        """Do."""
        raise AssertionError("evaluate runs no handler")

    return handler


@policy
def pro_tier(request: Request) -> Any:
    return request.env.get("tier") == "pro" or deny("export needs the pro tier")


@policy
async def by_day(request: Request) -> bool:
    await asyncio.sleep(0)
    return bool(request.env.get("day"))


TOOLS = [
    *(make("free"), make("export", pro_tier), make("nightly", pro_tier, by_day)),
    *(make("notes", permissions=["notes:read"]), make("all", permissions=["notes:write", "notes:read"])),
    make("gated", by_day, permissions=["notes:read"]),
]
EVERYTHING = compose(Agent("a", tools=TOOLS))


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
        "free": Verdict(True, "no policy applies to it"),
        "export": Verdict(False, "export needs the pro tier", ("pro_tier",)),
        "nightly": Verdict(False, "export needs the pro tier; policy 'by_day' says no", ("pro_tier", "by_day")),
        "notes": Verdict(True, "no policy applies to it"),
        "all": Verdict(False, "user-1 lacks the permission notes:write"),
        "gated": Verdict(False, "policy 'by_day' says no", ("by_day",)),
    }
    nobody = await evaluate(EVERYTHING, principal=ANYONE, env={"tier": "pro", "day": True})
    assert nobody.explain("nightly") == Verdict(True, "allowed by pro_tier, by_day", ("pro_tier", "by_day"))
    assert nobody.explain("all").reason == "user-1 lacks the permission notes:read and notes:write"
    assert nobody.explain("gated") == Verdict(False, "user-1 lacks the permission notes:read")


@pytest.mark.spec("F21")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exprot", "unknown tool 'exprot'; did you mean 'export'?"),
        ("zzz", "unknown tool 'zzz'; available: all, export, free, gated, nightly, notes"),
        ("c.export", "unknown tool 'c.export'"),
    ],
)
async def test_a_name_that_the_agent_has_not_is_not_found(name: str, message: str) -> None:
    snapshot = await evaluate(EVERYTHING, principal=ANYONE)
    with pytest.raises(NotFound) as refused:
        snapshot.explain(name)
    assert str(refused.value).startswith(message)


@pytest.mark.spec("F15", "F16", "F17")
async def test_a_policy_sees_who_and_where_and_no_tool_yet_at_each_evaluation() -> None:
    requests: list[Request] = []
    look = Policy("look", lambda request: requests.append(request) or True)
    composition = compose(Agent("a", tools=[make("a", look), make("b", look)]))
    principal = Principal("user-1", org="acme")
    for env in ({"tier": "pro"}, None):
        await evaluate(composition, principal=principal, env=env)
    assert requests == [Request({"tier": "pro"}, principal, None, None), Request({}, principal, None, None)]
