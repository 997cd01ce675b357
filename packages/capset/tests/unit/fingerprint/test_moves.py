from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel

from capset import Agent, Capability, ContextMessage, Policy, Preset, Principal, Request, Resource, compose, tool
from capset.definitions.resources import Documents
from capset.errors import DefinitionError
from capset.evaluation.evaluate import evaluate
from capset.fingerprint.hashes import capability_hash


def gate(request: Request) -> bool:
    return True


def decide(ctx: object) -> list[Capability]:
    return []


def recent(ctx: object) -> str:
    return ""


def other_gate(request: Request) -> bool:
    return True


@tool(description="Add.")
def add(a: int) -> int: ...


@tool(description="Find.")
def find(a: int) -> int: ...


class Diary(BaseModel):
    pages: list[str] = []


class Longer(BaseModel):
    pages: list[str] = ["first"]


class Options(BaseModel):
    limit: int = 3
    tags: frozenset[str] = frozenset({"a", "b", "c", "d"})
    parts: dict[str, set[int]] = Field(default_factory=lambda: {"x": {3, 1, 2}})


def recent_too(ctx: object) -> str:
    return "another body"


recent_too.__name__ = "recent"
NOTES, TEXTS = Resource("notes", list[str], scope="session", default=list), Documents("texts", scope="user")
SHARED = Policy("gate", gate)
DEPENDENCY = Capability("needed", instructions="Needed.")


CONTEXT = ["text", {"a": "1", "b": {"c": "2"}}, recent, ContextMessage("user", "Hi.")]
NEIGHBOUR = Capability("neighbour", instructions="Hear.")
SURFACES: dict[str, Any] = {
    "instructions": ["One.", "Two."],
    "context": CONTEXT,
    "tools": [add, find],
    "policies": [SHARED],
    "resources": [NOTES, TEXTS],
    "state": {"session": Diary, "user": Diary},
    "files": {"/a": "a", "/b": "b"},
    "config": Options,
    "uses": [DEPENDENCY, decide],
    "presets": {"p": Preset(instructions="P."), "q": Preset(context=["Q."])},
}


def hashes(
    change: Mapping[str, Any] = {}, uses: Any = lambda first, second: [first, second], agent: Mapping[str, Any] = {}
) -> dict[str, str]:
    capability = Capability("c", **{**SURFACES, **change})
    composition = compose(Agent("a", uses=uses(capability, NEIGHBOUR), **agent))
    snapshot = asyncio.run(evaluate(composition, principal=Principal("p", permissions=["a:b"])))
    return {
        "capability": capability_hash(capability),
        "neighbour": capability_hash(NEIGHBOUR),
        "static": snapshot.static_hash,
        "runtime": snapshot.runtime_hash,
        "prompt": snapshot.prompt_hash,
    }


BEFORE = hashes()


def moved(**world: Any) -> set[str]:
    after = hashes(**world)
    return {name for name in BEFORE if after[name] != BEFORE[name]}


@pytest.mark.spec("F6", "F12")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"instructions": ["Two.", "One."]}, {"capability", "static", "prompt"}),
        ({"context": CONTEXT[:3]}, {"capability", "static"}),
        ({"context": CONTEXT[::-1]}, {"capability", "static"}),
        ({"context": ["text", {"b": {"c": "2"}, "a": "1"}, *CONTEXT[2:]]}, {"capability", "static"}),
        ({"context": ["text", [["a", "1"], ["b", [["c", "2"]]]], *CONTEXT[2:]]}, {"capability", "static"}),
        ({"tools": [add]}, {"capability", "static", "runtime"}),
        ({"policies": [Policy("other", gate)]}, {"capability", "static"}),
        ({"resources": [NOTES]}, {"capability", "static"}),
        ({"resources": [TEXTS, Resource("notes", list[int], scope="session")]}, {"capability", "static"}),
        ({"resources": [TEXTS, Resource("notes", list[str], scope="user")]}, {"capability", "static"}),
        ({"state": {"session": Diary}}, {"capability", "static"}),
        ({"state": {"session": Diary, "user": Longer}}, {"capability", "static"}),
        ({"files": {"/a": "a", "/b": "changed"}}, {"capability", "static"}),
        ({"files": {"/a": "a", "/c": "b"}}, {"capability", "static"}),
        ({"limits": "5/1h"}, {"capability", "static"}),
        ({"uses": [DEPENDENCY]}, {"capability", "static"}),
        ({"uses": [decide]}, {"static", "prompt"}),
        ({"presets": {"p": Preset(instructions="P.")}}, {"capability", "static"}),
        ({"default": ["q"]}, {"capability", "static", "prompt"}),
        ({"status": "retired"}, {"static", "prompt", "runtime"}),
        ({"status": "coming_soon"}, {"static", "prompt", "runtime"}),
    ],
)
def test_what_can_be_seen_moves_just_the_hashes_that_cover_it(change: dict[str, Any], expected: set[str]) -> None:
    assert moved(change=change) == expected


@pytest.mark.spec("F11", "F12")
@pytest.mark.parametrize(
    "change",
    [
        {"tools": [find, add, find]},
        {"instructions": ["", " One.\n", "\tTwo. "]},
        {"resources": [TEXTS, NOTES, TEXTS]},
        {"resources": [TEXTS, Resource("notes", list[str], scope="session", default=["x"], description="D")]},
        {"files": {"/b": b"b", "//a": "a"}},
        {"state": {"user": Diary, "session": Diary}},
        {"uses": [DEPENDENCY, decide, DEPENDENCY, decide]},
        {"policies": [Policy("gate", other_gate)]},
        {"context": [*CONTEXT[:2], recent_too, *CONTEXT[3:]]},
        {"context": ["text", None, "", *CONTEXT[1:]]},
        {"aliases": ["other"]},
        {"risk": "high"},
        {"secrets": ["KEY"]},
        {"helpers": lambda ctx: 1},
        {"expose": ["notes"]},
        {"model_settings": {"temperature": 1}},
        {"title": "T", "description": "D", "icon": "i", "category": "c", "status": "deprecated"},
    ],
)
def test_what_has_no_meaning_for_a_model_or_a_gate_moves_nothing(change: dict[str, Any]) -> None:
    assert moved(change=change) == set()


@pytest.mark.spec("F6", "F7", "F8")
@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (lambda kit: kit.ref, set()),
        (lambda kit: kit.with_presets(p=True), set()),
        (lambda kit: kit.with_config(Options()), set()),
        (lambda kit: kit.with_config(Options(tags=frozenset({"d", "c", "b", "a"}), parts={"x": {2, 1, 3}})), set()),
        (lambda kit: kit.with_names(prefix="", rename={"add": "add"}), set()),
        (lambda kit: kit.with_presets(p=False), {"static", "prompt"}),
        (lambda kit: kit.with_presets(q=False), {"static"}),
        (lambda kit: kit.with_config(Options(limit=4)), {"static"}),
        (lambda kit: kit.with_config(Options(parts={"x": {1}})), {"static"}),
        (lambda kit: kit.with_names(prefix="x_"), {"static", "runtime"}),
        (lambda kit: kit.with_names(rename={"add": "plus"}), {"static", "runtime"}),
    ],
)
def test_what_a_reference_chooses_moves_what_it_changes(use: Any, expected: set[str]) -> None:
    assert moved(uses=lambda first, second: [use(first), second]) == expected


@pytest.mark.spec("F7", "F9")
@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        (lambda first, second: [second, first], {"static", "prompt"}),
        (lambda first, second: [first], {"static", "prompt"}),
        (lambda first, second: [second], {"static", "prompt", "runtime"}),
        (lambda first, second: [first, second, first], set()),
    ],
)
def test_which_capabilities_an_agent_uses_and_in_which_order_moves_its_hashes(uses: Any, expected: set[str]) -> None:
    assert moved(uses=uses) == expected


@pytest.mark.spec("F7", "F9")
@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ({"context": ["static"]}, set()),
        ({"model_settings": {"seed": 1}}, set()),
        ({"description": "D", "instructions": [" ", "\n"]}, set()),
        ({"tools": [tool(name="own", description="Own.")(add.handler)]}, {"static", "runtime"}),
        ({"instructions": ["Own."]}, {"static", "prompt"}),
    ],
)
def test_what_an_agent_declares_itself_moves_what_it_changes(agent: dict[str, Any], expected: set[str]) -> None:
    assert moved(agent=agent) == expected


@pytest.mark.spec("F6")
@pytest.mark.parametrize(
    "context", [[{"dynamic": "recent"}], [{"in": {"role": "user", "content": "Hi."}}], [{"tags": [["a"]]}]]
)
def test_no_mapping_passes_for_something_else(context: Any) -> None:
    others: list[list[Any]] = [[recent], [ContextMessage("user", "Hi.")], [{"tags": {"a": None}}], [["tags", "a"]]]
    base_hash = capability_hash(Capability("c", context=context))
    assert base_hash not in [capability_hash(Capability("c", context=other)) for other in others]


class Ratio(BaseModel):
    ratio: float = 1.0


class Odd(BaseModel):
    value: object = None


@pytest.mark.spec("C39", "F1")
@pytest.mark.parametrize("config", [Ratio(ratio=float("inf")), Ratio(ratio=float("nan")), Odd(value=object())])
def test_a_config_that_cannot_be_hashed_is_refused_by_its_name(config: BaseModel) -> None:
    capability = Capability("c", config=type(config))
    with pytest.raises(DefinitionError, match="capability 'c': its config has no JSON form to hash"):
        compose(Agent("a", uses=[capability.with_config(config)]))


class Numbers(RootModel[set[int]]): ...


class Scattered(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)
    named: Numbers
    aliased: set[int] = Field(alias="otherwise")
    queued: deque[frozenset[int]]


@pytest.mark.spec("F6", "F12")
def test_the_order_that_a_set_happens_to_have_moves_nothing_wherever_the_config_holds_it() -> None:
    def hashed(numbers: list[int]) -> str:
        config = Scattered(named=Numbers(set(numbers)), otherwise=set(numbers), queued=deque([frozenset(numbers)]))
        return capability_hash(Capability("c", config=Scattered), config=config)

    assert list({0, 8}) != list({8, 0})
    assert hashed([0, 8]) == hashed([8, 0])
    assert hashed([0, 8]) != hashed([0, 9])


@pytest.mark.spec("F6", "F12")
def test_a_policy_that_moves_into_a_preset_gates_less_and_is_another_capability() -> None:
    def of(base: list[Policy], preset: list[Policy], first: list[Any], second: list[Any]) -> str:
        presets = {"p": Preset(tools=second, policies=preset) if preset else Preset(tools=second)}
        return capability_hash(Capability("c", tools=first, policies=base, presets=presets))

    distinct = {
        of([SHARED], [], [add], [find]),
        of([], [SHARED], [add], [find]),
        of([], [SHARED], [find], [add]),
        of([], [SHARED], [], [add, find]),
    }
    assert len(distinct) == 4
