"""What the references to one capability say of it together (spec 1, C6)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, DefinitionError, Preset, compose, tool
from capset.errors import PresetConflict, ToolNameConflict


class Options(BaseModel):
    limit: int = 3
    tags: set[str] = set()


class Needed(BaseModel):
    key: str


@tool
def add(a: int) -> int:
    """Add."""
    return a


@tool
def find(a: int) -> int:
    """Find."""
    return a


KIT = Capability(
    "kit",
    tools=[add],
    config=Options,
    presets={"full": Preset(tools=[find]), "extra": Preset(instructions="Extra.")},
    default=["extra"],
)


def chosen(*uses: Any) -> Any:
    return compose(Agent("a", uses=uses)).by_capability[KIT]


def user(name: str, *uses: Any) -> Capability:
    return Capability(name, uses=uses)


@pytest.mark.spec("C6")
@pytest.mark.parametrize("flipped", [False, True])
def test_two_that_disagree_at_one_depth_are_an_error_with_both_ways(flipped: bool) -> None:
    pair = [user("x", KIT.with_presets(full=True)), user("y", KIT.with_presets(full=False))]
    choices = ["True by a → x", "False by a → y"]
    step = -1 if flipped else 1
    with pytest.raises(PresetConflict) as refused:
        chosen(*pair[::step])
    assert refused.value.message == f"capability 'kit', preset full: {', '.join(choices[::step])}"
    assert refused.value.hint == "let the root choose: it can use kit with its own choice, which wins"
    assert chosen(*pair, KIT.with_presets(full=True)).presets == ("full", "extra")


@pytest.mark.spec("C6")
def test_config_prefix_and_names_are_chosen_in_the_same_way() -> None:
    near, far = KIT.with_config(Options(limit=1)), user("x", KIT.with_config(Options(limit=2)).with_names(prefix="k_"))
    choice = chosen(near, far)
    assert (choice.config, dict(choice.names)) == (Options(limit=1), {"add": "k_add", "find": "k_find"})
    assert chosen(KIT).config == Options()
    assert chosen(near, KIT.with_config(Options(limit=1))).config.limit == 1
    for first, other, difference in (
        (near, KIT.with_config(Options(limit=2)), "config: a Options and a Options"),
        (KIT.with_names(prefix="a_"), KIT.with_names(prefix=""), "prefix: 'a_' and ''"),
        (KIT.with_names(rename={"add": "x"}), KIT.with_names(rename={"add": "y"}), "rename add: 'x' and 'y'"),
    ):
        with pytest.raises(PresetConflict, match=f"'a' uses the capability 'kit' twice, .* for its {difference}"):
            chosen(first, other)


@pytest.mark.spec("C1", "C39")
def test_a_config_that_is_needed_and_not_given_is_refused_at_composition() -> None:
    capability = Capability("c", config=Needed)
    with pytest.raises(DefinitionError, match="capability 'c' needs a config: key") as refused:
        compose(Agent("a", uses=[capability]))
    assert refused.value.hint == "use c.with_config(Needed(…))"
    composition = compose(Agent("a", uses=[capability.with_config(Needed(key="k"))]))
    assert composition.by_capability[capability].config == Needed(key="k")


@pytest.mark.spec("C15")
def test_tools_are_renamed_where_they_are_used() -> None:
    full = KIT.with_presets(full=True)

    def tools_of(use: Any) -> dict[str, Any]:
        return {name: installed.tool for name, installed in compose(Agent("a", uses=[use])).tools.items()}

    assert tools_of(full.with_names(prefix="kit-", rename={"add": "plus"})) == {"plus": add, "kit-find": find}
    assert tools_of(full.with_names(rename={"add": "find", "find": "add"})) == {"find": add, "add": find}
    with pytest.raises(ToolNameConflict, match="bring two different tools named 'find'"):
        tools_of(full.with_names(rename={"add": "find"}))


@pytest.mark.spec("C15")
def test_a_rename_mends_the_conflict_that_offers_it() -> None:
    @tool(name="add")
    def other(a: int) -> int:
        """Add."""
        return a

    mine = Capability("mine", tools=[other])
    for name, agent in (("mine", Agent("a", uses=[KIT, mine])), ("kit", Agent("a", uses=[KIT], tools=[other]))):
        with pytest.raises(ToolNameConflict) as refused:
            compose(agent)
        assert refused.value.hint == f"rename one in uses: {name}.with_names(prefix='…'), or rename={{'add': '…'}}"
    mended = compose(Agent("a", uses=[KIT, mine.with_names(prefix="my_")]))
    assert list(mended.tools) == ["add", "my_add"]


@pytest.mark.spec("C6")
def test_what_contributes_nothing_has_no_say() -> None:
    gone = Capability("gone", status="retired", uses=[KIT.with_presets(full=True)])
    assert chosen(gone, user("x", user("y", KIT.with_presets(full=False)))).presets == ("extra",)
    assert chosen(gone, KIT).presets == ("extra",)
