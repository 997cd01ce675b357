"""The merge table, surface by surface: what is one, and what conflicts whichever comes first (spec 1, C12–C20)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Context, DefinitionError, Policy, Preset, Request, Resource, Tool, compose, tool
from capset.definitions.resources import Documents
from capset.errors import (
    KindError,
    MountConflict,
    PolicyConflict,
    ResourceConflict,
    StateConflict,
    TargetConflict,
    ToolNameConflict,
)
from capset.flows import Flow, Generator, Handler, Sequencer


class Plan(BaseModel):
    step: int = 0


class OtherPlan(BaseModel):
    step: int = 0


class Worded(BaseModel):
    step: str = ""


def nothing() -> None: ...


def gate(request: Request) -> bool:
    return True


def notes(scope: Any = "session") -> Resource[list[str]]:
    return Resource("notes", list[str], scope=scope, default=list)


def named(name: str, *policies: Policy) -> Tool[..., Any]:
    @tool(name=name, policies=policies)
    def handler(a: int) -> int:
        """Do."""
        return a

    return handler


ADD, OTHER_ADD, FIND = named("add"), named("add"), named("find")
ONE_GATE, SAME_ID = Policy("gate", gate), Policy("gate", gate)
DOCUMENTS = Documents("notes", scope="user")
STEP = "field 'step' of different types in the"
CONFLICTS: list[tuple[type[DefinitionError], str, dict[str, Any], dict[str, Any]]] = [
    (ToolNameConflict, "tools named 'add'", {"tools": [ADD]}, {"tools": [OTHER_ADD]}),
    (ResourceConflict, "resources named 'session notes'", {"resources": [notes()]}, {"resources": [notes()]}),
    (ResourceConflict, "resources named 'user notes'", {"resources": [notes("user")]}, {"resources": [DOCUMENTS]}),
    (StateConflict, f"{STEP} org state", {"state": {"org": Plan}}, {"state": {"org": Worded}}),
    (StateConflict, f"{STEP} sequencer state", {"sequencer_state": Plan}, {"sequencer_state": Worded}),
    (TargetConflict, "models for the target 'plan'", {"targets": {"plan": Plan}}, {"targets": {"plan": OtherPlan}}),
    (MountConflict, "contents for the file '/a/b'", {"files": {"/a/b": "1"}}, {"files": {"/a//b": b"2"}}),
]


@pytest.mark.spec("C2", "C12", "C18", "C20")
@pytest.mark.parametrize(("error", "problem", "left", "right"), CONFLICTS)
def test_two_different_ones_under_one_name_conflict_whichever_comes_first(
    error: type[DefinitionError], problem: str, left: dict[str, Any], right: dict[str, Any]
) -> None:
    block = Sequencer if "sequencer_state" in left else Agent
    for one, other in ((left, right), (right, left)):
        used = [Capability("first", presets={"full": Preset(**one)}), Capability("second", **other)]
        ways = ["capability 'first', preset 'full' (a → first)", "capability 'second' (a → second)"]
        for uses, (earlier, later) in ((used, ways), (used[::-1], ways[::-1])):
            with pytest.raises(error) as refused:
                compose(block("a", uses=uses))
            assert type(refused.value) is error
            assert refused.value.message.startswith(f"{earlier} and {later} ")
            assert refused.value.message.endswith(problem)
            assert refused.value.hint
        with pytest.raises(error, match=r"capability 'second' \(a → second\) and 'a' itself"):
            compose(block("a", uses=[used[1]], **one))


@pytest.mark.spec("C12", "C18", "C20")
def test_the_same_is_one() -> None:
    shared: dict[str, Any] = {"resources": [notes()], "targets": {"plan": Plan}, "files": {"/a": "same"}}
    uses = [Capability("one", **shared), Capability("two", files={"/./a": b"same"}, resources=shared["resources"])]
    composition = compose(Agent("a", uses=uses, **shared))
    (entry,) = composition.merged.resources.values()
    assert entry.value is shared["resources"][0]
    assert composition.mounts == {"/a": b"same"}
    assert composition.merged.targets["plan"].value is Plan
    assert {str(explained.source) for explained in composition.explain()} == {"capability 'one' (a → one)"}


@pytest.mark.spec("C12")
def test_one_name_in_two_scopes_is_two_resources() -> None:
    uses = [Capability("one", resources=[notes("session")]), Capability("two", resources=[notes("user")])]
    assert list(compose(Agent("a", uses=uses)).merged.resources) == [("session", "notes"), ("user", "notes")]


@pytest.mark.spec("C18")
def test_a_file_holds_no_other_file() -> None:
    outer, inner = Capability("outer", files={"/a": "x"}), Capability("inner", files={"/a/b/c": "y"})
    problem = r"capability 'outer' .* has the file '/a', and capability 'inner' .* has '/a/b/c' inside it"
    for uses in ([outer, inner], [inner, outer]):
        with pytest.raises(MountConflict, match=problem):
            compose(Agent("a", uses=uses))
    with pytest.raises(DefinitionError, match="capability 'c': '/a' is a file and cannot hold '/a/b'"):
        Capability("c", files={"/a/b": "x", "/a": "y"})


@pytest.mark.spec("C18", "C39")
@pytest.mark.parametrize(
    "files", [{"a": "x"}, {"/": "x"}, {"/../a": "x"}, {"/a": 5}, {"/a": "\ud800"}, {5: "x"}, ["/a"]]
)
def test_what_cannot_be_mounted_is_refused(files: Any) -> None:
    with pytest.raises(DefinitionError, match="capability 'c'"):
        Capability("c", files=files)


@pytest.mark.spec("C15")
def test_tools_stand_under_their_names_in_order_with_who_brought_them() -> None:
    first, two = Capability("one", tools=[FIND, ADD]), Capability("two", tools=[ADD])
    tools = compose(Agent("a", uses=[first, two])).tools
    assert list(tools) == ["find", "add"]
    assert (tools["add"].tool, tools["add"].name, tools["add"].qualified_name) == (ADD, "add", "one.add")


@pytest.mark.spec("C15", "P2")
def test_what_contributes_nothing_conflicts_with_nothing() -> None:
    gone, soon = (Capability(status, status=status, tools=[ADD]) for status in ("retired", "coming_soon"))
    tools = compose(Agent("a", uses=[gone, Capability("two", tools=[OTHER_ADD]), soon])).tools
    assert {name: installed.tool for name, installed in tools.items()} == {"add": OTHER_ADD}


@pytest.mark.spec("C2", "C38")
@pytest.mark.parametrize(
    ("surface", "value", "needed"),
    [("tools", [], "generator"), ("context", [], "generator"), ("sequencer_state", Plan, "sequencer")],
)
def test_a_surface_that_this_kind_of_block_cannot_have_is_refused(surface: str, value: Any, needed: str) -> None:
    surfaces: Any = {surface: value}
    kit = Capability("kit", presets={"full": Preset(**surfaces)})
    with pytest.raises(KindError) as refused:
        Handler("h", nothing, uses=[kit])
    problem = f"declares {surface}, which only a {needed} can have; 'h' is a handler"
    assert refused.value.message == f"capability 'kit', preset 'full' (h → kit) {problem}"
    assert refused.value.hint == "use kit.with_presets(full=False)"
    Handler("h", nothing, uses=[kit.with_presets(full=False)])


@pytest.mark.spec("C16")
def test_two_policies_of_one_id_conflict_wherever_they_stand() -> None:
    gated = named("gated", SAME_ID)
    first = Capability("one", tools=[ADD], policies=[ONE_GATE])
    agents = [
        Agent("a", uses=[first, Capability("two", presets={"p": Preset(tools=[gated])})]),
        Agent("a", uses=[Capability("two", tools=[gated]), first]),
        Agent("a", uses=[Capability("one", tools=[ADD, gated], policies=[ONE_GATE])]),
        Agent("a", uses=[first], policies=[SAME_ID]),
        Agent("a", uses=[first], tools=[gated]),
    ]
    for agent in agents:
        with pytest.raises(PolicyConflict, match="have two different policies with the id 'gate'") as refused:
            compose(agent)
        assert "capability 'one' (a → one)" in str(refused.value)


@pytest.mark.spec("C1", "C16", "C20")
def test_every_policy_on_the_way_gates_a_tool_once() -> None:
    of_tool, of_capability, of_preset, of_agent = (Policy(name, gate) for name in ("own", "cap", "preset", "agent"))
    gated = named("gated", of_tool, of_capability)
    full = Preset(tools=[gated], policies=[of_preset])
    kit = Capability("kit", tools=[ADD], policies=[of_capability], presets={"full": full})
    other = Capability("other", tools=[gated])
    tools = compose(Agent("a", uses=[kit, other], tools=[FIND], policies=[of_agent])).tools
    assert tools["add"].policies == (of_agent, of_capability)
    assert tools["gated"].policies == (of_agent, of_capability, of_preset, of_tool)
    assert tools["find"].policies == (of_agent,)
    flipped = compose(Agent("a", uses=[other, kit], policies=[of_agent])).tools["gated"]
    assert set(flipped.policies) == {of_agent, of_capability, of_preset, of_tool}


@pytest.mark.spec("C19", "C20")
def test_the_block_has_the_last_word_on_settings_and_then_the_last_capability() -> None:
    nested = {"stop": ["a"]}
    first = Capability("one", model_settings={"temperature": 0.1, "top_p": 0.5, "extra": nested})
    full = Preset(model_settings={"temperature": 0.3, "seed": 3})
    two = Capability("two", model_settings={"temperature": 0.2, "seed": 1}, presets={"full": full})
    nested["stop"].append("b")

    def settings(*uses: Any) -> Any:
        return compose(Agent("a", uses=uses, model_settings={"seed": 2})).merged.model_settings

    off = two.with_presets(full=False)
    assert settings(first, off) == {"temperature": 0.2, "top_p": 0.5, "extra": {"stop": ["a"]}, "seed": 2}
    assert (settings(off, first)["temperature"], settings(first, two)["temperature"]) == (0.1, 0.3)
    for wrong in ([("a", 1)], {1: 2}, "fast"):
        with pytest.raises(DefinitionError, match="capability 'c': model_settings"):
            Capability("c", model_settings=wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.spec("C36")
def test_what_one_exposes_another_of_the_same_name_does_not() -> None:
    def exposed(*uses: Any) -> frozenset[Any]:
        return compose(Agent("a", uses=uses)).exposed

    public, notes_of_session = notes("session"), ("resource", "session", "notes")
    first = Capability("one", resources=[public], state={"session": Plan}, expose=["notes", "step"])
    two = Capability("two", resources=[notes("user")], state={"user": Plan})
    assert exposed(first, two) == {notes_of_session, ("state", "session", "step")}
    in_preset = Capability("c", presets={"full": Preset(resources=[public])}, expose="notes")
    assert exposed(in_preset) == {notes_of_session}
    assert exposed(two, in_preset.with_presets(full=False)) == frozenset()
    wrong: Any
    for wrong in (["note"], "note", [5], ["texts"]):
        with pytest.raises(DefinitionError, match="capability 'c': expose: unknown resource or state field"):
            Capability("c", resources=[public, Documents("texts", scope="user")], expose=wrong)


@pytest.mark.spec("C40")
def test_explain_says_who_by_which_preset_and_which_way() -> None:
    kit = Capability("kit", tools=[ADD], presets={"full": Preset(tools=[FIND], context=[{"mood": "good"}, len_of])})
    agent = Agent("a", uses=[Capability("user", uses=[kit], context=["Some text\nand more"])], tools=[FIND])
    assert [str(explained) for explained in compose(agent).explain()] == [
        "tool add: from capability 'kit' (a → user → kit)",
        "tool find: from capability 'kit', preset 'full' (a → user → kit)",
        "context mood: from capability 'kit', preset 'full' (a → user → kit)",
        "context len_of(): from capability 'kit', preset 'full' (a → user → kit)",
        "context Some text: from capability 'user' (a → user)",
    ]


@pytest.mark.spec("C40")
def test_explain_says_so_for_every_surface_and_for_every_block_inside() -> None:
    full = Preset(
        tools=[ADD],
        policies=[ONE_GATE],
        resources=[notes(), Documents("texts", scope="user")],
        state={"session": Plan},
        targets={"inner": Plan},
        instructions=["Do it.\nWell."],
        context=[{"mood": "good"}],
        files={"/a": "x"},
    )
    kit = Capability("kit", presets={"full": full})
    inner = Generator("inner", uses=[Capability("user", uses=[kit])], instructions="Own.")
    root = Flow("main", Sequencer("outer", sequencer_state=Plan).then(Sequencer("middle").then(inner)))
    inside = ", in main → outer → middle → inner"
    source = f": from capability 'kit', preset 'full' (inner → user → kit){inside}"
    brought = ["tool add", "resource session.notes", "resource user.texts", "state session.step", "target inner"]
    assert [str(explained) for explained in compose(root).explain()] == [
        "state sequencer.step: from 'outer' itself, in main → outer",
        *(f"{label}{source}" for label in [*brought, "instruction Do it."]),
        f"instruction Own.: from 'inner' itself{inside}",
        *(f"{label}{source}" for label in ["context mood", "file /a", "policy gate"]),
    ]


def len_of(ctx: Context) -> str:
    return ctx.correlation


@pytest.mark.spec("C39", "C1")
@pytest.mark.parametrize("surface", ["tools", "policies", "resources", "context"])
@pytest.mark.parametrize("wrong", [5, False, {ADD}, {"a": ADD}])
def test_a_list_is_a_list(surface: str, wrong: Any) -> None:
    if surface == "context" and isinstance(wrong, dict):
        wrong = {"a": 5}
    for make in (lambda **more: Capability("c", **more), Preset, lambda **more: Agent("a", **more)):
        with pytest.raises(DefinitionError, match=f"(capability 'c'|agent 'a'|a preset): {surface}"):
            make(**{surface: wrong})


@pytest.mark.spec("C39", "C1")
@pytest.mark.parametrize(
    ("surface", "text"), [("tools", "x"), ("policies", "x"), ("resources", "x"), ("instructions", b"x")]
)
def test_a_text_is_no_list(surface: str, text: Any) -> None:
    options: Any = {surface: text}
    with pytest.raises(DefinitionError, match=f"capability 'c': {surface} must be a list; got b?'x'"):
        Capability("c", **options)


@pytest.mark.spec("C1")
def test_secrets_are_names() -> None:
    assert Capability("c", secrets=["A", "B", "A"]).secrets == ("A", "B")
    assert Capability("c", secrets="API_KEY").secrets == ("API_KEY",)
    for wrong in ([""], ["a-b"], [5], 5, {"A": "value"}):
        with pytest.raises(DefinitionError, match=r"capability 'c': (a secret's name|secrets)"):
            Capability("c", secrets=wrong)  # pyright: ignore[reportArgumentType]
