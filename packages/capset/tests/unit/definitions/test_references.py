from __future__ import annotations

from dataclasses import FrozenInstanceError
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, CapabilityRef, Context, DefinitionError, Resource, parameterised, tool


@tool(description="Add.")
def add(a: int) -> int: ...


@tool(description="Find.")
def find(a: int) -> int: ...


class Options(BaseModel):
    limit: int = 3
    names: list[str] = []


class Others(BaseModel):
    limit: int = 3


KIT = Capability("kit", tools=[add, find], config=Options)


@pytest.mark.spec("C1")
def test_a_config_is_kept_as_it_was_given() -> None:
    options = Options(limit=5, names=["a"])
    ref = KIT.with_config(options)
    options.names.append("b")
    assert ref.config == Options(limit=5, names=["a"])
    assert KIT.ref.config is None
    assert ref.with_config(Options(limit=6)).config == Options(limit=6)
    assert ref.with_names(prefix="x_").config == ref.config


@pytest.mark.spec("C1")
def test_a_config_of_another_model_is_refused() -> None:
    for wrong in (Others(), {"limit": 5}, Options, None):
        with pytest.raises(DefinitionError, match="capability 'kit': its config is a Options; got"):
            KIT.with_config(wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DefinitionError, match="capability 'bare' has no config"):
        Capability("bare").with_config(Options())  # pyright: ignore[reportArgumentType]
    for wrong in (Options(), dict, "Options", int):
        with pytest.raises(DefinitionError, match="capability 'c': config is a pydantic model class; got"):
            Capability("c", config=wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.spec("C15")
def test_names_are_merged_over_earlier_ones() -> None:
    ref = KIT.with_names(prefix="a_").with_names(rename={"add": "plus"}).with_names(rename={"find": "seek"})
    assert (ref.prefix, dict(ref.rename or {})) == ("a_", {"add": "plus", "find": "seek"})
    assert ref.with_names(prefix="").prefix == ""
    assert ref.with_names(rename={"add": "sum"}).rename == {"add": "sum", "find": "seek"}
    assert (KIT.ref.prefix, KIT.ref.rename) == (None, None)


@pytest.mark.spec("C15")
@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"prefix": "no spaces "}, "capability 'kit': 'add' with its prefix must match"),
        ({"prefix": "x" * 62}, "capability 'kit': 'add' with its prefix must match"),
        ({"rename": {"ad": "plus"}}, "capability 'kit': unknown tool 'ad'; did you mean 'add'?"),
        ({"rename": {"add": ""}}, "capability 'kit': the new name of 'add' must match"),
        ({"rename": {5: "add"}}, "capability 'kit': unknown tool '5'"),
        ({"rename": ["add"]}, "capability 'kit': rename must be a mapping"),
    ],
)
def test_a_name_that_no_tool_can_have_is_refused(names: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        KIT.with_names(**names)


async def wait(ctx: Context) -> list[Capability]: ...
def by_level(ctx: Context, level: int) -> list[Capability]: ...


class Chooser:
    def __call__(self, ctx: Context) -> list[Capability]: ...
    def choose(self, ctx: Context) -> list[Capability]: ...


@parameterised
def storage(scope: object) -> Capability:
    return Capability("storage")


@pytest.mark.spec("C27")
@pytest.mark.parametrize("function", [Chooser(), Chooser().choose, partial(by_level, level=1), lambda ctx: []])
def test_a_function_may_be_an_entry_or_the_whole(function: Any) -> None:
    assert Agent("a", uses=function).uses == (function,)
    assert Capability("c", uses=[KIT, function]).uses[1] is function


@pytest.mark.spec("C27", "C39")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (wait, "the dynamic uses 'wait' must be a plain function"),
        (by_level, "the dynamic uses 'by_level' must take exactly one argument, the context"),
        (Capability, "uses takes Capability objects; got the class Capability"),
        (storage, "uses has 'storage' itself, which makes capabilities"),
        ("kit", "uses takes Capability objects; got 'kit'"),
        (add, "uses takes Capability objects; got Tool"),
        (None, "uses takes Capability objects; got None"),
    ],
)
def test_what_is_no_reference_is_refused_as_an_entry(wrong: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=f"^agent 'a': {message}"):
        Agent("a", uses=[wrong])
    with pytest.raises(DefinitionError, match=f"^capability 'c': {message}"):
        Capability("c", uses=[wrong])


@pytest.mark.spec("C39")
@pytest.mark.parametrize("wrong", ["kit", KIT, KIT.ref, {KIT}, frozenset({KIT}), {"kit": KIT}, 5, b"x", add, None])
def test_uses_is_a_list(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="agent 'a': uses must be a list; got"):
        Agent("a", uses=wrong)


def test_uses_may_be_an_iterator() -> None:
    assert len(Agent("a", uses=iter([KIT, KIT.with_names(prefix="x")])).uses) == 2


class Helpers:
    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx


TYPED = Capability[Helpers, Options]("typed", helpers=Helpers, config=Options)


@pytest.mark.parametrize(
    "definition",
    [TYPED, Resource[int]("count", int, scope="session", default=0), CapabilityRef[Helpers, Options](TYPED)],
)
def test_a_generic_definition_can_be_made_with_its_types_and_nothing_can_be_set(definition: Any) -> None:
    for name in ("name", "anything", "__orig_class__"):
        with pytest.raises(FrozenInstanceError, match="is frozen"):
            setattr(definition, name, "other")
    with pytest.raises(FrozenInstanceError, match="is frozen"):
        del definition.name
    assert definition.name in ("typed", "count")
