from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

from capset import (
    Agent,
    Capability,
    Context,
    Policy,
    Preset,
    Principal,
    Progress,
    Reply,
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


def work(path: str, limit: int = 3) -> int: ...
def described(path: Annotated[str, Field(description="where")], limit: int = 3) -> int: ...
def renamed(file: str, limit: int = 3) -> int: ...
def required(path: str, limit: int) -> int: ...
def more(path: str, limit: int = 3, deep: bool = False) -> int: ...
def other_default(path: str, limit: int = 4) -> int: ...
def other_type(path: str, limit: float = 3) -> int: ...
def other_result(path: str, limit: int = 3) -> str: ...
def other_order(limit: int = 3, *, path: str) -> int: ...


def other_body(path: str, limit: int = 3) -> int:
    """Work."""
    return limit + 1


async def awaited(ctx: Context, path: str, limit: int = 3) -> int:
    """Work.

    Args:
        ctx: not described to a model
    """
    return limit


async def streamed(path: str, limit: int = 3) -> AsyncIterator[Progress | Reply[int]]:
    yield Reply(limit)


GATE, SECOND, OWN = (Policy(name, yes) for name in ("gate", "second", "own"))
OTHER, THIRD = (tool(name=name, description="Be there.")(other_result) for name in ("other", "third"))


TOOL_OPTIONS: dict[str, Any] = {
    "name": "work",
    "description": "Work.",
    "effect": "write",
    "permissions": ["a:b", "c:d"],
    "policies": [GATE, OWN],
    "instructions": ["First.", "Second."],
    "examples": [{"path": "x"}],
    "version": "1",
}


def make(handler: Callable[..., Any] = work, **options: Any) -> Tool[..., Any]:
    return tool(**TOOL_OPTIONS | options)(handler)


def makes(context: ToolkitContext) -> list[Tool[..., Any]]:
    return []


PRESETS = {"p": Preset(tools=[THIRD], policies=[GATE])}
OPTIONS: dict[str, dict[str, Any]] = {
    "kit": {"name": "kit", "instructions": ["Kit.", "Kits."], "policies": [GATE]},
    "dynamic": {"name": "made", "make": makes, "instructions": ["Made."], "policies": [GATE]},
    "capability": {"name": "c", "version": "1", "policies": [GATE, SECOND], "presets": PRESETS, "default": ["p"]},
    "agent": {"name": "agent", "policies": [GATE], "system_prompt": "Be."},
}


def world(use: Callable[[Any], Any] = lambda capability: capability, **changes: dict[str, Any]) -> dict[str, str]:
    """Return every hash of an agent whose capability has a toolkit, a dynamic one, and presets."""

    def options(part: str, **parts: Any) -> dict[str, Any]:
        return OPTIONS[part] | parts | changes.get(part, {})

    made = make(**changes.get("tool", {}))
    toolkit = Toolkit(**options("kit", members=[made, Toolkit("inner", [OTHER])]))
    dynamic_kit = DynamicToolkit(**options("dynamic"))
    used: Capability[Any, Any] = Capability(**options("capability", tools=[toolkit, dynamic_kit]))
    root = Agent(**options("agent", uses=[use(used)]))
    snapshot = asyncio.run(evaluate(compose(root), principal=WHO))
    return {
        "tool": tool_hash(made),
        "toolkit": toolkit_hash(toolkit),
        "dynamic": toolkit_hash(dynamic_kit),
        "capability": capability_hash(used),
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
        ({"idempotent": True}, TOOL),
        ({"examples": [{"path": "y"}]}, TOOL),
        ({"examples": [{"path": "x"}, {"path": "y"}]}, TOOL),
        ({"version": "2"}, TOOL),
        ({"version": None}, TOOL),
        ({"policies": [GATE]}, TOOL),
        ({"policies": [GATE, SECOND]}, TOOL),
        ({"policies": [GATE, Policy("own", yes, "snapshot")]}, TOOL),
        ({"policies": [GATE, Policy("own", yes, "live", "call")]}, TOOL),
        ({"policies": [GATE, Policy("own", yes, "live", "evaluate")]}, TOOL),
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
)
def test_what_a_model_or_a_gate_can_see_of_a_tool_moves_just_the_hashes_above_it(
    options: dict[str, Any], expected: set[str]
) -> None:
    assert moved(tool=options) == expected


@pytest.mark.spec("F11", "F12")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"permissions": ["c:d", "a:b", "a:b"]}, set()),
        ({"policies": [OWN, GATE, OWN]}, set()),
        ({"policies": [GATE, Policy("own", also)]}, set()),
        ({"handler": other_body, "description": None}, set()),
        ({"handler": other_order}, set()),
        ({"handler": awaited, "description": None}, set()),
        ({"handler": streamed}, set()),
        ({"timeout": 5}, set()),
        ({"instructions": [" First. ", "", "Second."]}, set()),
        ({"instructions": ["Second.", "First."]}, {"prompt"}),  # the model reads them in another order
    ],
)
def test_order_without_meaning_and_what_nobody_sees_move_nothing(options: dict[str, Any], expected: set[str]) -> None:
    assert moved(tool=options) == expected


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
        ({"members": [Toolkit("inner", [OTHER]), make()]}, set()),
        ({"members": [make(), Toolkit("inner", [OTHER, OTHER])]}, set()),
    ],
)
def test_what_is_said_of_a_toolkit_moves_its_hash_and_those_above(kit: dict[str, Any], expected: set[str]) -> None:
    assert moved(kit=kit) == expected


@pytest.mark.spec("F5", "F12")
@pytest.mark.parametrize(
    ("dynamic", "expected"),
    [
        ({"name": "mades"}, {"dynamic", "capability", "static"}),
        ({"instructions": ["Made well."]}, {"dynamic", "capability", "static"}),
        ({"policies": []}, {"dynamic", "capability", "static"}),
        ({"policies": [GATE, SECOND]}, {"dynamic", "capability", "static"}),
        ({"make": lambda context: []}, set()),
        ({"make": lambda context: [THIRD]}, {"prompt"}),
        ({"make": lambda context: [tool(name="new", description="New.")(work)]}, {"runtime", "prompt"}),
    ],
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
        ({"policies": [SECOND, GATE]}, set()),
        ({"default": []}, {"capability", "static", "runtime"}),
        ({"presets": {"p": Preset(tools=[THIRD])}}, {"capability", "static"}),
        ({"presets": {"p": Preset(tools=[THIRD], policies=[SECOND])}}, {"capability", "static"}),
        ({"presets": {"p": Preset(tools=[Toolkit("third", [THIRD])], policies=[GATE])}}, {"capability", "static"}),
        ({"presets": {"p": Preset(tools=[THIRD], policies=[GATE]), "off": Preset(tools=[OTHER])}}, set()),
    ],
)
def test_what_is_said_of_a_capability_moves_its_hash_and_the_agents(
    capability: dict[str, Any], expected: set[str]
) -> None:
    assert moved(capability=capability) == expected


@pytest.mark.spec("F4", "F7", "F12")
@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ({"name": "other"}, set()),
        ({"policies": [GATE, SECOND]}, {"root", "static"}),
        ({"policies": []}, {"root", "static"}),
        ({"tools": [Toolkit("own", [OTHER])]}, {"root", "static"}),
        ({"tools": [Toolkit("own", instructions="Own.")]}, {"root", "static", "prompt"}),
        ({"tools": [DynamicToolkit("own", makes)]}, {"root", "static"}),
        ({"tools": [DynamicToolkit("own", lambda context: [])]}, {"root", "static"}),
        ({"system_prompt": "Be kind."}, {"static", "prompt"}),
    ],
)
def test_what_is_said_of_an_agent_moves_its_root_and_static_hash(agent: dict[str, Any], expected: set[str]) -> None:
    assert moved(agent=agent) == expected


@pytest.mark.spec("F6", "F8")
@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (lambda kit: kit.with_presets(p=False), {"static", "runtime"}),
        (lambda kit: kit.with_names(rename={"work": "toil"}), {"static", "runtime"}),
        (lambda kit: kit.with_names(rename={"other": "another"}), {"static", "runtime"}),
    ],
)
def test_what_a_reference_chooses_moves_what_it_changes(use: Any, expected: set[str]) -> None:
    assert moved(use=use) == expected


@pytest.mark.spec("F11")
def test_who_may_see_what_is_in_no_static_hash() -> None:
    by_day = Policy("by_day", lambda request: request.env.get("day", True))
    composition = compose(Agent("a", tools=[make(), tool(name="daily", description="Work.", policies=[by_day])(work)]))
    callers = [(WHO, {"day": True}), (WHO, {"day": False}), (Principal("q"), {"day": True})]
    all_, by_night, few = (asyncio.run(evaluate(composition, principal=who, env=env)) for who, env in callers)
    assert all_.static_hash == by_night.static_hash == few.static_hash
    assert len({all_.runtime_hash, by_night.runtime_hash, few.runtime_hash}) == 3
    assert all_.prompt_hash == by_night.prompt_hash
    assert all_.prompt_hash != few.prompt_hash, "the prompt has the tool's instructions"


@pytest.mark.spec("F3", "F11")
def test_limits_and_approvals_move_a_tools_hash_and_retries_do_not() -> None:
    def hash_of(**options: Any) -> str:
        return tool_hash(make(idempotent=True, **options))

    limits: list[Any] = ["1/1m", "2/1m", Limit(1, "1m", per="org"), ["1/1m", "5/1h"]]
    hashes = {*(hash_of(limits=limit) for limit in limits), *(hash_of(approval=rule) for rule in ("ask", also))}
    assert len({hash_of(), *hashes}) == 7
    assert hash_of(retry=3) == hash_of(approval="auto", limits=()) == hash_of()
    assert hash_of(limits=["5/1h", "1/60s"]) == hash_of(limits=limits[3]), "neither order nor writing means anything"


GENERATED, FIXED = (tool(name=name, description="Work.", effect="read")(work) for name in ("made", "fixed"))
DYNAMIC = DynamicToolkit("making", lambda ctx: [GENERATED])


def static(use: Any) -> str:
    return compose(Agent("a", uses=[use])).static_hash


def runtime(use: Any) -> str:
    return asyncio.run(evaluate(compose(Agent("a", uses=[use])), principal=WHO)).runtime_hash


@pytest.mark.spec("F5", "F6", "F12")
@pytest.mark.parametrize(
    "capability",
    [
        Capability("c", tools=[FIXED, DYNAMIC]),
        Capability("c", tools=[FIXED, Toolkit("kit", [DYNAMIC])]),
        Capability("c", tools=[FIXED], presets={"more": Preset(tools=[DYNAMIC])}),
    ],
)
def test_the_names_that_a_reference_gives_are_covered_where_tools_are_made_at_run_time(capability: Capability) -> None:
    # The same name of the fixed tool every time, so that its own reference moves nothing.
    prefixed, other = (capability.with_names(prefix=prefix, rename={"fixed": "fixed"}) for prefix in ("p_", "q_"))
    assert len({static(capability), static(prefixed), static(other)}) == 3
    assert len({runtime(capability), runtime(prefixed), runtime(other)}) == 3
    assert static(capability.with_names(prefix="", rename={"fixed": "fixed"})) == static(capability)
    if capability.presets:
        off = {static(use.with_presets(more=False)) for use in (capability, prefixed, other)}
        assert len(off) == 1


@pytest.mark.spec("F6", "F12")
def test_names_say_nothing_more_where_all_tools_are_declared() -> None:
    capability = Capability("c", tools=[FIXED])
    prefixed, renamed = capability.with_names(prefix="p_"), capability.with_names(rename={"fixed": "p_fixed"})
    assert static(prefixed) == static(renamed) != static(capability)
