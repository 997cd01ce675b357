"""The merge table, surface by surface: what is one, and what conflicts whichever comes first (spec 1, C12–C20)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Context, DefinitionError, Policy, Preset, Request, Resource, compose, tool
from capset.definitions.resources import Documents
from capset.errors import MountConflict, PolicyConflict, ResourceConflict, TargetConflict
from capset.flows import Flow, Generator, Sequencer


class Plan(BaseModel):
    step: int = 0


class OtherPlan(BaseModel):
    step: int = 0


def gate(request: Request) -> bool:
    return True


def notes(scope: Any = "session") -> Resource[list[str]]:
    return Resource("notes", list[str], scope=scope, default=list)


@tool
def add(a: int) -> int:
    """Add."""
    return a


@tool
def find(a: int) -> int:
    """Find."""
    return a


ONE_GATE, SAME_ID = Policy("gate", gate), Policy("gate", gate)
CONFLICTS: list[tuple[type[DefinitionError], str, str, Callable[[], Any], Callable[[], Any]]] = [
    (ResourceConflict, "resources", "resources named 'session notes'", lambda: [notes()], lambda: [notes()]),
    (
        ResourceConflict,
        "resources",
        "resources named 'user notes'",
        lambda: [notes("user")],
        lambda: [Documents("notes", scope="user")],
    ),
    (TargetConflict, "targets", "models for the target 'plan'", lambda: {"plan": Plan}, lambda: {"plan": OtherPlan}),
    (MountConflict, "files", "contents for the file '/a/b'", lambda: {"/a/b": "1"}, lambda: {"/a//b": b"2"}),
]


@pytest.mark.spec("C12", "C18", "C20")
@pytest.mark.parametrize(("error", "surface", "subject", "factory", "other"), CONFLICTS)
def test_two_different_ones_under_one_name_conflict_whichever_comes_first(
    error: Any, surface: str, subject: str, factory: Callable[[], Any], other: Callable[[], Any]
) -> None:
    def first(**surfaces: Any) -> Capability:
        return Capability("first", presets={"full": Preset(**surfaces)})

    for left, right in ((factory(), other()), (other(), factory())):
        used = [first(**{surface: left}), Capability("second", **{surface: right})]
        ways = ["capability 'first', preset 'full' (a → first)", "capability 'second' (a → second)"]
        for uses, (earlier, later) in ((used, ways), (used[::-1], ways[::-1])):
            with pytest.raises(error) as refused:
                compose(Agent("a", uses=uses))
            assert type(refused.value) is error
            assert str(refused.value) == f"{earlier} and {later} have two different {subject}"
            assert refused.value.hint
        with pytest.raises(error, match=r"capability 'second' \(a → second\) and 'a' itself have two different"):
            compose(Agent("a", uses=[used[1]], **{surface: left}))


@pytest.mark.spec("C12", "C18", "C20")
def test_the_same_is_one() -> None:
    shared: dict[str, Any] = {"resources": [notes()], "targets": {"plan": Plan}, "files": {"/a": "same"}}
    uses = [Capability("one", **shared), Capability("two", files={"/./a": b"same"}, resources=shared["resources"])]
    composition = compose(Agent("a", uses=uses, **shared))
    assert {key: entry.value for key, entry in composition.merged.resources.items()} == {
        ("session", "notes"): shared["resources"][0]
    }
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
    for uses in ([outer, inner], [inner, outer]):
        with pytest.raises(MountConflict) as refused:
            compose(Agent("a", uses=uses))
        assert str(refused.value) == (
            "capability 'outer' (a → outer) has the file '/a', "
            "and capability 'inner' (a → inner) has '/a/b/c' inside it"
        )
    with pytest.raises(DefinitionError, match="capability 'c': '/a' is a file and cannot hold '/a/b'"):
        Capability("c", files={"/a/b": "x", "/a": "y"})


@pytest.mark.spec("C18", "C39")
@pytest.mark.parametrize(
    "files", [{"a": "x"}, {"/": "x"}, {"/../a": "x"}, {"/a": 5}, {"/a": "\ud800"}, {5: "x"}, ["/a"]]
)
def test_what_cannot_be_mounted_is_refused(files: Any) -> None:
    with pytest.raises(DefinitionError, match="capability 'c'"):
        Capability("c", files=files)


@pytest.mark.spec("C16")
def test_two_policies_of_one_id_conflict_wherever_they_stand() -> None:
    gated = tool(name="gated", policies=[SAME_ID])(lambda_free)
    first = Capability("one", tools=[add], policies=[ONE_GATE])
    others: list[dict[str, Any]] = [
        {"uses": [Capability("two", tools=[gated])]},
        {"uses": [Capability("two", tools=[find], policies=[SAME_ID])]},
        {"uses": [Capability("two", presets={"p": Preset(tools=[find], policies=[SAME_ID])})]},
        {"policies": [SAME_ID]},
        {"tools": [gated]},
    ]
    for options in others:
        uses = options.pop("uses", [])
        for order in ([first, *uses], [*uses, first]):
            with pytest.raises(PolicyConflict, match="have two different policies with the id 'gate'") as refused:
                compose(Agent("a", uses=order, **options))
            assert "capability 'one' (a → one)" in str(refused.value)


def lambda_free(a: int) -> int:
    """Be gated."""
    return a


@pytest.mark.spec("C1", "C16", "C20")
def test_every_policy_on_the_way_gates_a_tool_once() -> None:
    of_tool, of_capability, of_preset, of_agent = (Policy(name, gate) for name in ("own", "cap", "preset", "agent"))
    gated = tool(policies=[of_tool, of_capability])(lambda_free)
    full = Preset(tools=[gated], policies=[of_preset])
    kit = Capability("kit", tools=[add], policies=[of_capability], presets={"full": full})
    other = Capability("other", tools=[gated])
    tools = compose(Agent("a", uses=[kit, other], tools=[find], policies=[of_agent])).tools
    assert tools["add"].gates == (of_agent, of_capability)
    assert tools["lambda_free"].gates == (of_agent, of_capability, of_preset, of_tool)
    assert tools["find"].gates == (of_agent,)
    flipped = compose(Agent("a", uses=[other, kit], policies=[of_agent])).tools["lambda_free"]
    assert set(flipped.gates) == {of_agent, of_capability, of_preset, of_tool}


@pytest.mark.spec("C19", "C20")
def test_the_block_has_the_last_word_on_settings_and_then_the_last_capability() -> None:
    nested = {"stop": ["a"]}
    first = Capability("one", model_settings={"temperature": 0.1, "top_p": 0.5, "extra": nested})
    two = Capability("two", model_settings={"temperature": 0.2, "seed": 1}, uses=[first])
    nested["stop"].append("b")
    composition = compose(Agent("a", uses=[two], model_settings={"seed": 2}))
    assert composition.merged.model_settings == {"temperature": 0.2, "top_p": 0.5, "extra": {"stop": ["a"]}, "seed": 2}
    flipped = compose(Agent("a", uses=[Capability("two", model_settings={"temperature": 0.2}), first]))
    assert flipped.merged.model_settings["temperature"] == 0.1
    full = Preset(model_settings={"temperature": 0.3, "seed": 3})
    last = Capability("last", model_settings={"temperature": 0.4, "top_p": 0.9}, presets={"full": full}, uses=[two])
    on, off = (Agent("a", uses=[last.with_presets(full=is_on)], model_settings={"seed": 2}) for is_on in (True, False))
    assert [compose(agent).merged.model_settings["temperature"] for agent in (on, off)] == [0.3, 0.4]
    assert compose(on).merged.model_settings["seed"] == 2
    for wrong in ([("a", 1)], {1: 2}, "fast"):
        with pytest.raises(DefinitionError, match="capability 'c': model_settings"):
            Capability("c", model_settings=wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.spec("C17", "C21")
def test_instructions_of_presets_stand_in_their_capabilitys_block() -> None:
    kit = Capability("kit", instructions="Base.", presets={"full": Preset(instructions=["Full.", "More."])})
    user = Capability("user", uses=[kit], instructions="User.")
    agent = Agent("a", uses=[user], system_prompt="Be.", instructions="Own.")
    assert compose(agent).system_text == (
        '<capability id="kit">\nBase.\n\nFull.\n\nMore.\n</capability>\n\n'
        '<capability id="user">\nUser.\n</capability>\n\nBe.\n\nOwn.'
    )


@pytest.mark.spec("C36")
def test_what_one_exposes_another_of_the_same_name_does_not() -> None:
    class Open(BaseModel):
        count: int = 0

    public, private = notes("session"), notes("user")
    first = Capability("one", resources=[public], state={"session": Open}, expose=["notes", "count"])
    two = Capability("two", resources=[private], state={"user": Plan})
    assert compose(Agent("a", uses=[first, two])).exposed == {
        ("resource", "session", "notes"),
        ("state", "session", "count"),
    }
    assert compose(Agent("a", uses=[two])).exposed == frozenset()
    in_preset = Capability("c", presets={"full": Preset(resources=[public])}, expose="notes")
    assert compose(Agent("a", uses=[in_preset])).exposed == {("resource", "session", "notes")}
    assert compose(Agent("a", uses=[in_preset.with_presets(full=False)])).exposed == frozenset()
    for wrong in (["note"], "note", [5]):
        with pytest.raises(DefinitionError, match="capability 'c': expose: unknown resource or state field"):
            Capability("c", resources=[public], expose=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DefinitionError, match="unknown resource or state field 'texts'"):
        Capability("c", resources=[Documents("texts", scope="user")], expose=["texts"])


@pytest.mark.spec("C40")
def test_explain_says_who_by_which_preset_and_which_way() -> None:
    kit = Capability("kit", tools=[add], presets={"full": Preset(tools=[find], context=[{"mood": "good"}, len_of])})
    agent = Agent("a", uses=[Capability("user", uses=[kit], context=["Some text\nand more"])], tools=[find])
    assert [str(explained) for explained in compose(agent).explain()] == [
        "tool add: from capability 'kit' (a → user → kit)",
        "tool find: from capability 'kit', preset 'full' (a → user → kit)",
        "context mood: from capability 'kit', preset 'full' (a → user → kit)",
        "context len_of(): from capability 'kit', preset 'full' (a → user → kit)",
        "context Some text: from capability 'user' (a → user)",
    ]


@pytest.mark.spec("C40")
def test_explain_says_so_for_every_surface_and_for_every_block_inside() -> None:
    surfaces: dict[str, Any] = {
        "tools": [add],
        "policies": [ONE_GATE],
        "resources": [notes(), Documents("texts", scope="user")],
        "state": {"session": Plan},
        "targets": {"inner": Plan},
        "instructions": ["Do it.\nWell."],
        "context": [{"mood": "good"}],
        "files": {"/a": "x"},
    }
    kit = Capability("kit", presets={"full": Preset(**surfaces)})
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
@pytest.mark.parametrize("wrong", [5, False, {add}, {"a": add}])
def test_a_list_is_a_list(surface: str, wrong: Any) -> None:
    if surface == "context" and isinstance(wrong, dict):
        wrong = {"a": 5}
    for make in (lambda **more: Capability("c", **more), Preset, lambda **more: Agent("a", **more)):
        with pytest.raises(DefinitionError, match=f"(capability 'c'|agent 'a'|a preset): {surface}"):
            make(**{surface: wrong})


@pytest.mark.spec("C39", "C1")
@pytest.mark.parametrize("surface", ["tools", "policies", "resources", "instructions"])
def test_a_text_is_no_list(surface: str) -> None:
    options: Any = {surface: b"x" if surface == "instructions" else "x"}
    with pytest.raises(DefinitionError, match=f"capability 'c': {surface} must be a list; got b?'x'"):
        Capability("c", **options)


@pytest.mark.spec("C1")
def test_secrets_are_names() -> None:
    assert Capability("c", secrets=["A", "B", "A"]).secrets == ("A", "B")
    assert Capability("c", secrets="API_KEY").secrets == ("API_KEY",)
    for wrong in ([""], ["a-b"], [5], 5, {"A": "value"}):
        with pytest.raises(DefinitionError, match=r"capability 'c': (a secret's name|secrets)"):
            Capability("c", secrets=wrong)  # pyright: ignore[reportArgumentType]
