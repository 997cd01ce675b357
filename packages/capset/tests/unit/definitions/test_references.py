"""How a capability is used: by itself, by a reference, by a function."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Context, DefinitionError, parameterised, tool


@tool
def add(a: int) -> int:
    """Add."""
    return a


@tool
def find(a: int) -> int:
    """Find."""
    return a


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
        ({"rename": {"add": 5}}, "capability 'kit': the new name of 'add' must match"),
        ({"rename": {5: "add"}}, "capability 'kit': unknown tool '5'"),
        ({"rename": ["add"]}, "capability 'kit': rename must be a mapping"),
    ],
)
def test_a_name_that_no_tool_can_have_is_refused(names: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        KIT.with_names(**names)


def decide(ctx: Context) -> list[Capability]:
    return []


async def wait(ctx: Context) -> list[Capability]:
    return []


class Chooser:
    def __call__(self, ctx: Context) -> list[Capability]:
        return []

    def none(self) -> list[Capability]:
        return []

    def method(self, ctx: Context) -> list[Capability]:
        return []


def two(ctx: Context, more: int) -> list[Capability]:
    return []


@parameterised
def storage(scope: object) -> Capability:
    return Capability("storage")


@pytest.mark.spec("C27")
@pytest.mark.parametrize(
    "function", [decide, Chooser(), Chooser().method, functools.partial(two, more=1), lambda c: []]
)
def test_a_function_may_be_an_entry_or_the_whole(function: Any) -> None:
    assert Agent("a", uses=function).uses == (function,)
    assert Capability("c", uses=[KIT, function]).uses[1] is function


@pytest.mark.spec("C27", "C39")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (wait, "the dynamic uses 'wait' must be a plain function"),
        (two, "the dynamic uses 'two' must take exactly one argument, the context"),
        (Chooser().none, "the dynamic uses 'none' must take exactly one argument"),
        (Capability, "uses takes Capability objects; got the class Capability"),
        (Options, "uses takes Capability objects; got the class Options"),
        (storage, "uses has 'storage' itself, which makes capabilities"),
        ("kit", "uses takes Capability objects; got 'kit'"),
        (add, "uses takes Capability objects; got Tool"),
        (None, "uses takes Capability objects; got None"),
    ],
)
def test_what_is_no_reference_is_refused_as_an_entry(wrong: Any, message: str) -> None:
    for owner, make in (
        ("agent 'a'", lambda: Agent("a", uses=[wrong])),
        ("capability 'c'", lambda: Capability("c", uses=[wrong])),
    ):
        with pytest.raises(DefinitionError) as refused:
            make()
        assert str(refused.value).startswith(f"{owner}: {message}")


@pytest.mark.spec("C39")
@pytest.mark.parametrize("wrong", ["kit", KIT, KIT.ref, {KIT}, frozenset({KIT}), {"kit": KIT}, 5, b"x"])
def test_uses_is_a_list(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="agent 'a': uses must be a list; got"):
        Agent("a", uses=wrong)


def test_an_iterator_will_do() -> None:
    agent = Agent("a", uses=(use for use in (KIT, KIT.with_names(prefix="x"))))
    assert len(agent.uses) == 2
    assert len(agent.uses) == 2
