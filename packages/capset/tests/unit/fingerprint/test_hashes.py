"""What moves which hash, and what moves none (spec 2, F11, F12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from capset import (
    Agent,
    Capability,
    Context,
    Policy,
    Principal,
    Progress,
    Reply,
    Request,
    Tool,
    compose,
    evaluate,
    policy,
    tool,
)
from capset.fingerprint import hashes
from capset.fingerprint.hashes import capability_hash, prompt_hash, tool_hash
from capset.fingerprint.payloads import tool_payload

ALL = {"tool", "sibling", "capability", "neighbour", "static", "runtime", "prompt"}
TOOL = {"tool", "capability", "static", "runtime"}


class Place(BaseModel):
    city: str = Field(description="where")


class Town(BaseModel):
    city: str = Field(description="where it is")


@policy
def by_day(request: Request) -> bool:
    return request.env.get("day", True)


@policy
def by_night(request: Request) -> bool:
    return True


def save(a: int, place: Place, note: Annotated[str, Field(description="why")] = "x") -> list[int]:
    """Save."""
    return [a]


def other_body(a: int, place: Place, note: Annotated[str, Field(description="why")] = "x") -> list[int]:
    """Save."""
    raise RuntimeError(f"{a} {place} {note}")


def other_order(*, note: Annotated[str, Field(description="why")] = "x", place: Place, a: int) -> list[int]:
    """Save."""
    return [a]


async def awaited(
    ctx: Context, a: int, place: Place, note: Annotated[str, Field(description="why")] = "x"
) -> list[int]:
    """Save.

    Args:
        ctx: not described to a model
    """
    return [a]


async def streamed(
    a: int, place: Place, note: Annotated[str, Field(description="why")] = "x"
) -> AsyncIterator[Progress | Reply[list[int]]]:
    """Save."""
    yield Reply([a])


def other_default(a: int, place: Place, note: Annotated[str, Field(description="why")] = "y") -> list[int]:
    """Save."""
    return [a]


def no_default(a: int, place: Place, note: Annotated[str, Field(description="why")]) -> list[int]:
    """Save."""
    return [a]


def other_words(a: int, place: Place, note: Annotated[str, Field(description="wherefore")] = "x") -> list[int]:
    """Save."""
    return [a]


def other_inner_words(a: int, place: Town, note: Annotated[str, Field(description="why")] = "x") -> list[int]:
    """Save."""
    return [a]


def other_type(a: float, place: Place, note: Annotated[str, Field(description="why")] = "x") -> list[int]:
    """Save."""
    return [int(a)]


def other_name(b: int, place: Place, note: Annotated[str, Field(description="why")] = "x") -> list[int]:
    """Save."""
    return [b]


def one_more(a: int, place: Place, note: Annotated[str, Field(description="why")] = "x", c: int = 0) -> list[int]:
    """Save."""
    return [a + c]


def other_output(a: int, place: Place, note: Annotated[str, Field(description="why")] = "x") -> list[float]:
    """Save."""
    return [a]


@tool
def sibling() -> int:
    """Stand beside it."""
    return 1


@tool
def elsewhere() -> int:
    """Stand in the other capability."""
    return 1


@dataclass(frozen=True)
class World:
    """An agent with two capabilities; each field is one thing that may change."""

    handler: Callable[..., Any] = save
    name: str = "save"
    description: str | None = None
    effect: Any = "write"
    permissions: Iterable[str] = ("a:read", "a:write")
    policies: Iterable[Policy] = (by_day,)
    timeout: float | None = None
    capability: str = "first"
    version: str | None = None
    title: str | None = None
    about: str = ""
    status: Any = "available"
    instructions: Iterable[str] = ("Do.",)
    tools: Callable[[Tool[..., Any]], list[Tool[..., Any]]] = lambda it: [it, sibling]
    uses: Callable[[Capability, Capability], list[Capability]] = lambda first, second: [first, second]
    agent: str = "agent"
    agent_about: str = ""
    system_prompt: str = "Be."
    agent_instructions: Iterable[str] = ("Sing.",)
    held: Iterable[str] = ("a:read", "a:write", "b:read")
    day: bool = True

    def hashes(self) -> dict[str, str]:
        it = tool(
            name=self.name,
            description=self.description,
            effect=self.effect,
            permissions=self.permissions,
            policies=self.policies,
            timeout=self.timeout,
        )(self.handler)
        first = Capability(
            self.capability,
            title=self.title,
            description=self.about,
            status=self.status,
            icon=self.title,
            category=self.title,
            version=self.version,
            instructions=self.instructions,
            tools=self.tools(it),
        )
        second = Capability("second", instructions="Hear.", tools=[elsewhere])
        agent = Agent(
            self.agent,
            description=self.agent_about,
            system_prompt=self.system_prompt,
            instructions=self.agent_instructions,
            uses=self.uses(first, second),
        )
        principal = Principal("somebody", permissions=self.held)
        snapshot = asyncio.run(evaluate(compose(agent), principal=principal, env={"day": self.day}))
        return {
            "tool": tool_hash(it),
            "sibling": tool_hash(sibling),
            "capability": capability_hash(first),
            "neighbour": capability_hash(second),
            "static": snapshot.static_hash,
            "runtime": snapshot.runtime_hash,
            "prompt": snapshot.prompt_hash,
        }


BEFORE = World().hashes()


def moved(**change: Any) -> set[str]:
    after = World(**change).hashes()
    return {name for name in ALL if after[name] != BEFORE[name]}


@pytest.mark.spec("F12", "F3")
@pytest.mark.parametrize(
    "change",
    [
        {"description": "Save it."},
        {"name": "store"},
        {"effect": "read"},
        {"effect": "destructive"},
        {"permissions": ["a:read"]},
        {"permissions": ["a:read", "a:write", "b:read"]},
        {"policies": []},
        {"policies": [by_night]},
        {"policies": [by_day, by_night]},
        *({"handler": handler} for handler in (
            other_default, no_default, other_words, other_inner_words, other_type, other_name, one_more, other_output
        )),
    ],
    ids="-".join,
)  # fmt: skip
def test_what_a_model_or_a_gate_sees_of_a_tool_moves_its_hashes_and_no_others(change: dict[str, Any]) -> None:
    assert moved(**change) == TOOL


@pytest.mark.spec("F12", "F6", "F7", "F9")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"instructions": ["Do it."]}, {"capability", "static", "prompt"}),
        ({"instructions": ["Do.", "Again."]}, {"capability", "static", "prompt"}),
        ({"capability": "other"}, {"capability", "static"}),
        ({"version": "1"}, {"capability", "static"}),
        ({"tools": lambda it: [it]}, {"capability", "static", "runtime"}),
        ({"system_prompt": "Be not."}, {"static", "prompt"}),
        ({"agent_instructions": ["Sing.", "Dance."]}, {"static", "prompt"}),
        ({"agent_instructions": []}, {"static", "prompt"}),
        ({"uses": lambda first, second: [second, first]}, {"static", "prompt"}),
        ({"uses": lambda first, second: [first]}, {"static", "prompt", "runtime"}),
        ({"status": "retired"}, {"static", "prompt", "runtime"}),
        ({"status": "coming_soon"}, {"static", "prompt", "runtime"}),
    ],
)
def test_what_a_model_sees_of_capabilities_and_agents_moves_their_hashes(
    change: dict[str, Any], expected: set[str]
) -> None:
    assert moved(**change) == expected


@pytest.mark.spec("F8", "F9")
@pytest.mark.parametrize("change", [{"held": []}, {"held": ["a:read"]}, {"day": False}])
def test_who_asks_and_when_moves_the_runtime_hash_alone(change: dict[str, Any]) -> None:
    assert moved(**change) == {"runtime"}


@pytest.mark.spec("F11", "F12")
@pytest.mark.parametrize(
    "change",
    [
        {"timeout": 3},
        {"handler": other_body},
        {"handler": other_order},
        {"handler": awaited},
        {"handler": streamed},
        {"description": "Save."},
        {"policies": [by_day, by_day]},
        {"policies": [Policy("by_day", lambda request: True)]},
        {"permissions": {"a:write", "a:read"}},
        {"tools": lambda it: [sibling, it, sibling]},
        {"uses": lambda first, second: [first, second, first]},
        {"title": "A title"},
        {"about": "About it"},
        {"status": "deprecated"},
        {"instructions": "  Do.\n"},
        {"instructions": ["", " Do. ", "\n"]},
        {"agent": "somebody else"},
        {"agent_about": "About"},
        {"agent_instructions": [" ", "\tSing. "]},
        {"held": ["c:read", "b:read", "a:write", "a:read"]},
    ],
    ids="-".join,
)
def test_what_no_model_and_no_gate_sees_moves_nothing(change: dict[str, Any]) -> None:
    assert moved(**change) == set()


@pytest.mark.spec("F12")
@settings(deadline=None)
@given(
    st.permutations([f"p:{letter}" for letter in "abcdef"]),
    st.permutations(
        [by_day, by_night, Policy("third", by_day.evaluate), Policy("a", by_day.evaluate), Policy("Z", by_day.evaluate)]
    ),
)
def test_the_order_of_permissions_and_policies_moves_nothing(permissions: list[str], policies: list[Policy]) -> None:
    given_first = tool(permissions=sorted(permissions), policies=sorted(policies, key=lambda gate: gate.id))(save)
    assert tool_hash(tool(permissions=permissions, policies=policies)(save)) == tool_hash(given_first)


@pytest.mark.spec("F12")
@settings(deadline=None)
@given(st.permutations(range(8)))
def test_the_order_of_a_capabilitys_tools_moves_nothing(order: list[int]) -> None:
    tools = [tool(name=f"t{number}")(save) for number in range(8)]
    capability = Capability("c", tools=[tools[number] for number in order])
    assert capability_hash(capability) == capability_hash(Capability("c", tools=tools))


@pytest.mark.spec("F12")
@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_two_texts_never_share_a_hash(first: str, two: str) -> None:
    assume(first != two)
    assert prompt_hash(first, []) != prompt_hash(two, [])
    assert prompt_hash("", [first]) != prompt_hash("", [two])
    assert prompt_hash(first, [two]) != prompt_hash(two, [first])
    assert prompt_hash("", [first, two]) != prompt_hash("", [first + two])
    if first.strip() and two.strip():
        assert tool_hash(tool(description=first)(save)) != tool_hash(tool(description=two)(save))


@pytest.mark.spec("F13")
def test_a_tools_hash_is_computed_once() -> None:
    it = tool(name="once")(save)
    with mock.patch.object(hashes, "tool_payload", wraps=hashes.tool_payload) as payload:
        distinct = {tool_hash(it) for _ in range(3)}
        compose(Agent("a", uses=[Capability("c", tools=[it])]))
    assert payload.call_count == 1
    assert len(distinct) == 1


@pytest.mark.spec("F3", "F12")
def test_the_order_of_choices_that_python_takes_for_equal_moves_no_hash() -> None:
    def first(it: Literal["b", "a", 1], more: list[Literal["z", "y"] | None]) -> Literal["d", "c"]:
        """Choose."""
        raise NotImplementedError  # never called: its schema is all that counts

    def other(it: Literal[1, "a", "b"], more: list[Literal["y", "z"] | None]) -> Literal["c", "d"]:
        """Choose."""
        raise NotImplementedError  # never called: its schema is all that counts

    assert tool_hash(tool(name="choose")(first)) == tool_hash(tool(name="choose")(other))
    schema = tool_payload(tool(first))["schema"]["properties"]["it"]
    assert schema["enum"] == ["a", "b", 1]
