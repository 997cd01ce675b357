"""What a file chooses of a capability: presets, config, names (spec 1, C1, C4, C10, C15)."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from capset import Agent, Kernel, Principal, compose
from capset.definitions.references import CapabilityRef
from capset.errors import DefinitionError
from capset_connect.agents.definitions import build_agent
from capset_connect.config_file import read_configuration
from tests.helpers.connect.shelf import ENTRY, REGISTRY, Limits, Place, lamp, look, shelf, tools_of

YAML = """
name: keeper
capabilities:
  - lamp
  - id: shelf
    presets: {burning: true, writing: false}
    config: {count: 7, until: 2030-01-31, places: [{room: attic}]}
    prefix: s_
    rename: {burn: torch}
"""
TOML = """
name = "keeper"
[[capabilities]]
id = "lamp"
[[capabilities]]
id = "shelf"
presets = {burning = true, writing = false}
config = {count = 7, until = 2030-01-31, places = [{room = "attic"}]}
prefix = "s_"
rename = {burn = "torch"}
"""


def built(*entries: Any) -> Agent:
    return build_agent({"name": "keeper", "capabilities": list(entries)}, REGISTRY, "here")


def refused(*entries: Any, **more: Any) -> dict[str, str]:
    """Return what is wrong, by its place."""
    with pytest.raises(DefinitionError) as error:
        build_agent({"name": "keeper", "capabilities": list(entries), **more}, REGISTRY, "here")
    problems = {field.path: field.expected for field in error.value.fields}
    assert all(f"{path}: {expected}" in error.value.message for path, expected in problems.items())
    return problems


@pytest.mark.spec("C1", "C4")
@pytest.mark.parametrize(("name", "text"), [("a.yaml", YAML), ("a.toml", TOML)])
def test_a_file_says_what_code_says(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    agent = read_configuration(tmp_path / name, REGISTRY).agent
    config = Limits(count=7, until=date(2030, 1, 31), places=[Place(room="attic")])
    chosen = shelf.with_presets(burning=True, writing=False).with_config(config)
    same = Agent("keeper", uses=[lamp, chosen.with_names(prefix="s_", rename={"burn": "torch"})])
    assert compose(agent).static_hash == compose(same).static_hash
    assert tools_of(agent) == tools_of(same) == {"s_look", "torch"}
    _, ref = agent.uses
    assert isinstance(ref, CapabilityRef)
    assert (ref.base, ref.config) == (shelf, config)


@pytest.mark.spec("C1")
async def test_a_config_reaches_the_handler() -> None:
    async with Kernel("memory://") as kernel:
        for entry, count in (("shelf", 5), ({"id": "shelf", "config": {"count": 3}}, 3)):
            async with kernel.open(built(entry), principal=Principal("ada")) as session:
                assert await session.call(look) == count


@pytest.mark.spec("C4")
def test_what_is_not_said_stays_as_the_capability_has_it() -> None:
    assert tools_of(built("shelf")) == tools_of(built({"id": "shelf"})) == {"look", "put"}
    empty = {"id": "shelf", "presets": {}, "rename": {}, "config": None, "prefix": None}
    assert compose(built(empty)).static_hash == compose(built("shelf")).static_hash
    assert tools_of(built({"id": "shelf", "presets": {"burning": True}})) == {"look", "put", "burn"}


@pytest.mark.spec("C10")
def test_an_alias_is_the_capability_and_never_a_second_one() -> None:
    assert compose(built("bookshelf")).static_hash == compose(built("shelf")).static_hash
    for twice in (("shelf", "bookshelf"), ("bookshelf", {"id": "shelf"}), ("bookshelf", "bookshelf")):
        problems = refused(*twice)
        assert problems.keys() == {"capabilities.1"}
        assert "'shelf' is listed twice" in problems["capabilities.1"]


@pytest.mark.spec("P4")
@pytest.mark.parametrize(
    ("entry", "place", "expected"),
    [
        ({"presets": {"burnin": True}}, "presets.burnin", "unknown preset 'burnin'; did you mean 'burning'?"),
        ({"presets": {"burning": "yes"}}, "presets.burning", "Input should be a valid boolean"),
        ({"config": {"count": 0}}, "config.count", "Input should be greater than or equal to 1"),
        ({"config": {"count": "7"}}, "config.count", "Input should be a valid integer"),
        ({"config": {"cuont": 7}}, "config.cuont", "no such parameter"),
        ({"config": {"places": [{}, {"rom": ""}]}}, "config.places.1.rom", "no such parameter"),
        ({"config": {"count": float("nan")}}, "config", "must be JSON data"),
        ({"config": {"places": {1, 2}.__iter__}}, "config", "must be JSON data"),
        ({"config": 5}, "config", "Input should be a valid dictionary"),
        ({"rename": {"brun": "x"}}, "rename.brun", "unknown tool 'brun'; did you mean 'burn'?"),
        ({"rename": {"burn": "a b"}}, "rename.burn", "must match"),
        ({"prefix": "a b"}, "prefix", "must match"),
        ({"prefix": "x" * 64}, "prefix", "must match"),
        ({"preset": {}}, "preset", "no such parameter"),
    ],
)
def test_what_does_not_fit_is_named_by_its_place(entry: dict[str, Any], place: str, expected: str) -> None:
    problems = refused("lamp", {"id": "shelf", **entry})
    assert problems.keys() == {f"capabilities.1.{place}"}
    assert expected in problems[f"capabilities.1.{place}"]


@pytest.mark.spec("P4")
def test_a_config_for_a_capability_that_has_none_is_refused() -> None:
    problems = refused({"id": "lamp", "config": {}, "presets": {"on": True}, "rename": {"shine": "glow"}})
    assert problems == {
        "capabilities.0.config": "the capability 'lamp' has no config",
        "capabilities.0.presets.on": "unknown preset 'on'; available: none",
        "capabilities.0.rename.shine": "unknown tool 'shine'; available: none",
    }


@pytest.mark.spec("P3", "P4")
def test_everything_that_is_wrong_is_told_at_once() -> None:
    entries = ["lmap", {**ENTRY, "presets": {"x": True}, "config": {"count": 0, "y": 1}}, "bookshelf", {"idd": "lamp"}]
    assert refused(*entries, nme="x").keys() == {
        "nme",
        "capabilities.0",
        "capabilities.1.presets.x",
        "capabilities.1.config.count",
        "capabilities.1.config.y",
        "capabilities.2",
        "capabilities.3.id",
        "capabilities.3.idd",
    }
    with pytest.raises(DefinitionError) as error:
        build_agent({"name": "no/name", "capabilities": ["lmap"]}, REGISTRY, "here")
    assert "'lmap'" in error.value.message
    assert "'no/name'" in error.value.message


def test_no_value_of_a_config_is_told() -> None:
    with pytest.raises(DefinitionError) as error:
        built({"id": "shelf", "config": {"until": "hunter2", "count": "hunter2"}})
    assert "hunter2" not in error.value.message


def test_a_config_cannot_grow_without_end(tmp_path: Path) -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
    config = f"config: {{{', '.join(['l0: &l0 [x, x]', *levels])}}}"
    for text in (config, "config: &own {places: [*own]}"):
        (tmp_path / "a.yaml").write_text(f"name: a\ncapabilities:\n  - id: shelf\n    {text}\n", encoding="utf-8")
        with pytest.raises(DefinitionError, match="at most 100"):
            read_configuration(tmp_path / "a.yaml", REGISTRY)
