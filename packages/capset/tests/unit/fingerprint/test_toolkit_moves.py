"""What of tools, toolkits, policies and presets moves which hash, and no other (spec 2, F3–F9, F11, F12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from capset import (
    Agent,
    Capability,
    Policy,
    Preset,
    Principal,
    Request,
    Tool,
    Toolkit,
    ToolkitContext,
    compose,
    evaluate,
    tool,
)
from capset.definitions.governance.limits import Limit
from capset.definitions.tools.toolkits import DynamicToolkit
from capset.fingerprint.hashes import capability_hash, root_hash, tool_hash, toolkit_hash

WHO = Principal("p", permissions=["a:b", "c:d"])
TOOL = {"tool", "toolkit", "capability", "static", "runtime"}
KIT = {"toolkit", "capability", "static"}


def yes(request: Request) -> bool:
    return True


def also(request: Request) -> bool:
    return True


def work(path: str, limit: int = 3) -> int:
    """Work."""
    return limit


def other_body(path: str, limit: int = 3) -> int:
    """Work."""
    return limit + 1


def described(path: Annotated[str, Field(description="where")], limit: int = 3) -> int:
    """Work."""
    return limit


def renamed(file: str, limit: int = 3) -> int:
    """Work."""
    return limit


def required(path: str, limit: int) -> int:
    """Work."""
    return limit


def more(path: str, limit: int = 3, deep: bool = False) -> int:
    """Work."""
    return limit


def other_default(path: str, limit: int = 4) -> int:
    """Work."""
    return limit


def other_type(path: str, limit: float = 3) -> int:
    """Work."""
    return int(limit)


def other_result(path: str, limit: int = 3) -> str:
    """Work."""
    return path


def other_order(limit: int = 3, *, path: str) -> int:
    """Work."""
    return limit


GATE, SECOND = Policy("gate", yes), Policy("second", yes)
OTHER, THIRD = (tool(name=name, description="Be there.")(other_result) for name in ("other", "third"))


def make(handler: Callable[..., int | str] = work, **options: Any) -> Tool[..., Any]:
    defaults: dict[str, Any] = {
        "name": "work",
        "effect": "write",
        "permissions": ["a:b", "c:d"],
        "policies": [GATE, SECOND],
        "instructions": ["First.", "Second."],
        "examples": [{"path": "x"}],
        "version": "1",
    }
    return tool(**defaults | options)(handler)


def makes(context: ToolkitContext) -> list[Tool[..., Any]]:
    return []


def world(
    one: Tool[..., Any] | None = None,
    kit: dict[str, Any] | None = None,
    dynamic: dict[str, Any] | None = None,
    capability: dict[str, Any] | None = None,
    agent: dict[str, Any] | None = None,
    use: Callable[[Capability[Any, Any]], Any] = lambda it: it,
) -> dict[str, str]:
    """Return every hash of an agent whose capability has a toolkit, a dynamic one, and presets."""
    one = one or make()
    members = [one, Toolkit("inner", [OTHER])]
    kits: dict[str, Any] = {"name": "kit", "members": members, "instructions": ["Kit.", "Kits."], "policies": [GATE]}
    mades: dict[str, Any] = {"name": "made", "make": makes, "instructions": ["Made."], "policies": [GATE]}
    toolkit, dynamic_kit = Toolkit(**kits | (kit or {})), DynamicToolkit(**mades | (dynamic or {}))
    defaults: dict[str, Any] = {
        "name": "it",
        "version": "1",
        "tools": [toolkit, dynamic_kit],
        "policies": [GATE, SECOND],
        "presets": {"p": Preset(tools=[THIRD], policies=[GATE])},
        "default": ["p"],
    }
    it: Capability[Any, Any] = Capability(**defaults | (capability or {}))
    agents: dict[str, Any] = {"name": "agent", "uses": [use(it)], "policies": [GATE], "system_prompt": "Be."}
    root = Agent(**agents | (agent or {}))
    snapshot = asyncio.run(evaluate(compose(root), principal=WHO))
    return {
        "tool": tool_hash(one),
        "toolkit": toolkit_hash(toolkit),
        "dynamic": toolkit_hash(dynamic_kit),
        "capability": capability_hash(it),
        "root": root_hash(root) or "",
        "other": tool_hash(OTHER),
        "static": snapshot.static_hash,
        "runtime": snapshot.runtime_hash,
        "prompt": snapshot.prompt_hash,
    }


BEFORE = world()


def moved(**changes: Any) -> set[str]:
    after = world(**changes)
    return {name for name in BEFORE if after[name] != BEFORE[name]}


@pytest.mark.spec("F3", "F8", "F12")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"name": "works"}, TOOL),
        ({"description": "Work hard."}, TOOL),
        ({"effect": "external"}, TOOL),
        ({"permissions": ["a:b"]}, TOOL),
        ({"permissions": []}, TOOL),
        ({"idempotent": True}, TOOL),
        ({"examples": [{"path": "y"}]}, TOOL),
        ({"examples": []}, TOOL),
        ({"examples": [{"path": "x"}, {"path": "y"}]}, TOOL),
        ({"version": "2"}, TOOL),
        ({"version": None}, TOOL),
        ({"policies": [GATE]}, TOOL),
        ({"policies": [GATE, Policy("third", yes)]}, TOOL),
        ({"policies": [GATE, Policy("second", yes, "snapshot")]}, TOOL),
        ({"policies": [GATE, Policy("second", yes, "live", "call")]}, TOOL),
        ({"policies": [GATE, Policy("second", yes, "live", "evaluate")]}, TOOL),
        ({"instructions": ["First."]}, TOOL | {"prompt"}),
        ({"instructions": ["First.", "Other."]}, TOOL | {"prompt"}),
        ({"handler": described}, TOOL),
        ({"handler": renamed, "examples": [{"file": "x"}]}, TOOL),
        ({"handler": required, "examples": [{"path": "x", "limit": 3}]}, TOOL),
        ({"handler": more}, TOOL),
        ({"handler": other_default}, TOOL),
        ({"handler": other_type}, TOOL),
        ({"handler": other_result}, TOOL),
    ],
    ids=lambda value: "-".join(sorted(map(str, value))),
)
def test_what_a_model_or_a_gate_can_see_of_a_tool_moves_just_the_hashes_above_it(
    options: dict[str, Any], expected: set[str]
) -> None:
    if "second" in str([getattr(policy, "id", "") for policy in options.get("policies", [])]):
        # One policy of an id in one composition: the capability's own is another object of the same id here.
        second = options["policies"][1]
        if second is not SECOND:
            base = world(capability={"policies": [GATE]})
            after = world(one=make(**options), capability={"policies": [GATE]})
            assert {name for name in base if after[name] != base[name]} == expected
            return
    assert moved(one=make(**options)) == expected


@pytest.mark.spec("F11", "F12")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"permissions": ["c:d", "a:b", "a:b"]}, set[str]()),
        ({"policies": [SECOND, GATE]}, set[str]()),
        ({"handler": other_body}, set[str]()),
        ({"handler": other_order}, set[str]()),
        ({"timeout": 5}, set[str]()),
        ({"instructions": [" First. ", "", "Second."]}, set[str]()),
        ({"instructions": ["Second.", "First."]}, {"prompt"}),  # the model reads them in another order
    ],
    ids=lambda value: "-".join(sorted(map(str, value))),
)
def test_order_without_meaning_and_what_nobody_sees_move_nothing(options: dict[str, Any], expected: set[str]) -> None:
    assert moved(one=make(**options)) == expected


@pytest.mark.spec("F4", "F12")
@pytest.mark.parametrize(
    ("kit", "expected"),
    [
        ({"name": "kits"}, KIT),
        ({"instructions": ["Kit."]}, KIT | {"prompt"}),
        ({"instructions": ["Kits.", "Kit."]}, KIT | {"prompt"}),
        ({"policies": []}, KIT),
        ({"policies": [GATE, SECOND]}, KIT),
        ({"policies": [GATE, Policy("call", yes, phase="call")]}, KIT),
        ({"members": [make()]}, KIT | {"runtime"}),
        ({"members": [make(), OTHER]}, KIT),
        ({"members": [make(), Toolkit("inside", [OTHER])]}, KIT),
        ({"members": [make(), Toolkit("inner", [OTHER], policies=[SECOND])]}, KIT),
        ({"members": [make(), Toolkit("inner", [OTHER], instructions="Inner.")]}, KIT | {"prompt"}),
        ({"members": [make(), Toolkit("inner", [OTHER]), Toolkit("empty")]}, KIT),
        ({"members": [Toolkit("inner", [OTHER]), make()]}, set[str]()),
        ({"members": [make(), Toolkit("inner", [OTHER, OTHER])]}, set[str]()),
        ({"policies": [Policy("gate", also)]}, None),
    ],
    ids=range(15),
)
def test_what_is_said_of_a_toolkit_moves_its_hash_and_those_above(
    kit: dict[str, Any], expected: set[str] | None
) -> None:
    if expected is None:  # two objects of one id in one composition are a conflict: compare the toolkit alone
        assert toolkit_hash(Toolkit("kit", [make()], **kit)) == toolkit_hash(Toolkit("kit", [make()], policies=[GATE]))
        return
    assert moved(kit=kit) == expected


@pytest.mark.spec("F5", "F12")
@pytest.mark.parametrize(
    ("dynamic", "expected"),
    [
        ({"name": "mades"}, {"dynamic", "capability", "static"}),
        ({"instructions": ["Made well."]}, {"dynamic", "capability", "static"}),
        ({"policies": []}, {"dynamic", "capability", "static"}),
        ({"policies": [GATE, SECOND]}, {"dynamic", "capability", "static"}),
        ({"make": lambda context: []}, set[str]()),
        ({"make": lambda context: [THIRD]}, set[str]() | {"prompt"}),
        ({"make": lambda context: [tool(name="new", description="New.")(work)]}, {"runtime", "prompt"}),
    ],
    ids=range(7),
)
def test_a_dynamic_toolkit_is_covered_but_for_what_it_makes(dynamic: dict[str, Any], expected: set[str]) -> None:
    assert moved(dynamic=dynamic) == expected


@pytest.mark.spec("F6", "F12")
@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ({"version": "2"}, {"capability", "static"}),
        ({"name": "its"}, {"capability", "static"}),
        ({"policies": [GATE]}, {"capability", "static"}),
        ({"policies": [SECOND, GATE]}, set[str]()),
        ({"default": []}, {"capability", "static", "runtime"}),
        ({"presets": {"p": Preset(tools=[THIRD])}}, {"capability", "static"}),
        ({"presets": {"p": Preset(tools=[THIRD], policies=[SECOND])}}, {"capability", "static"}),
        ({"presets": {"p": Preset(tools=[Toolkit("third", [THIRD])], policies=[GATE])}}, {"capability", "static"}),
        ({"presets": {"p": Preset(tools=[THIRD], policies=[GATE]), "off": Preset(tools=[OTHER])}}, set[str]()),
    ],
    ids=range(9),
)
def test_what_is_said_of_a_capability_moves_its_hash_and_the_agents(
    capability: dict[str, Any], expected: set[str]
) -> None:
    assert moved(capability=capability) == expected


@pytest.mark.spec("F4", "F7", "F12")
@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ({"name": "other"}, set[str]()),
        ({"policies": [GATE, SECOND]}, {"root", "static"}),
        ({"policies": []}, {"root", "static"}),
        ({"tools": [Toolkit("own", [OTHER])]}, {"root", "static"}),
        ({"tools": [Toolkit("own", instructions="Own.")]}, {"root", "static", "prompt"}),
        ({"tools": [DynamicToolkit("own", makes)]}, {"root", "static"}),
        ({"tools": [DynamicToolkit("own", lambda context: [])]}, {"root", "static"}),
        ({"system_prompt": "Be kind."}, {"static", "prompt"}),
    ],
    ids=range(8),
)
def test_what_is_said_of_an_agent_moves_its_root_and_static_hash(agent: dict[str, Any], expected: set[str]) -> None:
    assert moved(agent=agent) == expected


@pytest.mark.spec("F6", "F8")
@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (lambda it: it.with_presets(p=False), {"static", "runtime"}),
        (lambda it: it.with_presets(p=True), set[str]()),
        (lambda it: it.with_names(prefix="x_"), {"static", "runtime"}),
        (lambda it: it.with_names(rename={"work": "toil"}), {"static", "runtime"}),
        (lambda it: it.with_names(rename={"other": "another"}), {"static", "runtime"}),
    ],
    ids=range(5),
)
def test_what_a_reference_chooses_moves_what_it_changes(use: Any, expected: set[str]) -> None:
    assert moved(use=use) == expected


@pytest.mark.spec("F11")
def test_who_may_see_what_is_in_no_static_hash() -> None:
    composition = compose(Agent("a", tools=[make(), OTHER]))
    few, all_ = (asyncio.run(evaluate(composition, principal=principal)) for principal in (Principal("q"), WHO))
    assert few.static_hash == all_.static_hash
    assert few.runtime_hash != all_.runtime_hash
    assert few.prompt_hash != all_.prompt_hash, "the tool's instructions are not told"


@pytest.mark.spec("F3", "F11")
def test_limits_and_approvals_move_a_tools_hash_and_retries_do_not() -> None:
    def work(number: int) -> int:
        """Work."""
        return number

    def asks(request: Request) -> bool:
        return True

    def hash_of(**options: Any) -> str:
        return tool_hash(tool(idempotent=True, **options)(work))

    plain = hash_of()
    moved = [
        hash_of(limits="1/1m"),
        hash_of(limits="2/1m"),
        hash_of(limits=Limit(1, "1m", per="org")),
        hash_of(limits=["1/1m", "5/1h"]),
        hash_of(approval="ask"),
        hash_of(approval=asks),
    ]
    assert len({plain, *moved}) == 7
    assert hash_of(retry=3) == hash_of(approval="auto", limits=()) == plain
    assert hash_of(limits=["5/1h", "1/60s"]) == moved[3], "neither their order nor their writing means anything"


@pytest.mark.spec("F3", "F12")
def test_the_order_of_a_literals_choices_is_no_order() -> None:
    def first(mode: Literal["a", "b"]) -> int:
        """Work."""
        return 1

    def two(mode: Literal["b", "a"]) -> int:
        """Work."""
        return 1

    assert tool_hash(tool(name="x")(first)) == tool_hash(tool(name="x")(two))
