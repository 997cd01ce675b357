"""The form of an agent: what it shows of one comes back as the same, and what cannot be read is named."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from capset import Capability, Preset, tool
from capset.errors import Field, InvalidArguments
from capset.stores.base import AGENT_FIELDS
from capset.wire.agents import AgentInput
from capset.wire.capabilities import capability_detail
from capset_connect.agents.rows import merge_patch
from capset_server.console.agent_forms import (
    agent_of,
    form_of,
    merge_agents,
    moved,
    patch_between,
    read_agent,
    show_agent,
    with_capability,
    without,
)
from capset_server.console.forms import Form, read_form
from tests.helpers.connect.agents.fields import AGENTS


@tool(effect="read")
async def look(text: str) -> str:
    """Look."""
    return text


class Place(BaseModel):
    city: str = "Rome"
    rooms: list[int] = []


class Config(BaseModel):
    host: str = "localhost"
    port: int = 25
    sure: bool = False
    place: Place = Place()


kit = Capability(
    "kit", config=Config, tools=[look], presets={"on": Preset(instructions="On."), "off": Preset()}, default=["on"]
)
DETAILS: dict[str, Any] = {"kit": capability_detail(kit).model_dump(mode="json", by_alias=True), "gone": None}
LINES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)
ENTRIES = st.fixed_dictionaries(
    {"id": st.sampled_from(["kit", "gone"])},
    optional={
        "presets": st.dictionaries(st.sampled_from(["on", "off", "old"]), st.booleans(), min_size=1),
        "config": st.fixed_dictionaries(
            {},
            optional={
                "host": LINES,
                "port": st.integers(),
                "sure": st.booleans(),
                "place": st.fixed_dictionaries({"city": LINES}),
                "more": st.none() | st.integers(),
            },
        ),
        "prefix": st.from_regex("[a-z]{1,5}_", fullmatch=True),
        "rename": st.dictionaries(st.from_regex("[a-z]{1,5}", fullmatch=True), st.just("other"), min_size=1),
    },
)


def sent(form: Form) -> Form:
    """Return a form as it arrives: lines end as browsers end them."""
    pairs = [(name, re.sub("\r\n|\r|\n", "\r\n", value)) for name, value in form.pairs]
    return read_form(urlencode(pairs).encode(), "application/x-www-form-urlencoded")


@given(AGENTS, st.lists(ENTRIES, max_size=3))
@pytest.mark.spec("N10")
def test_what_a_form_shows_comes_back(agent: dict[str, Any], entries: list[Any]) -> None:
    agent = agent_of({**agent, "capabilities": entries})
    typed = read_agent(sent(form_of(agent, DETAILS)), DETAILS, agent)
    assert (json.dumps(typed.agent, sort_keys=True), typed.problems) == (json.dumps(agent, sort_keys=True), ())
    assert patch_between(agent, typed.agent) == {}


@pytest.mark.spec("N10")
def test_every_field_that_can_be_written_is_in_the_form() -> None:
    view = show_agent(form_of({}, {}), {}, (), ["mcp_servers"])
    apart = {"instructions", "capabilities", "status"}
    assert set(view.fields) == {field.name for field in AGENT_FIELDS} - apart
    assert "mcp_servers" not in show_agent(form_of({}, {}), {}, (), []).fields


@given(AGENTS, AGENTS)
def test_a_patch_makes_one_agent_of_another(before: dict[str, Any], after: dict[str, Any]) -> None:
    before, after = agent_of(before), agent_of(after)
    assert merge_patch(before, patch_between(before, after)) == after


def test_a_null_that_no_patch_can_say_is_named() -> None:
    with pytest.raises(InvalidArguments) as refused:
        patch_between({"name": "a"}, {"name": "a", "static_context": {"x": None}})
    assert [field.path for field in refused.value.fields or ()] == ["static_context"]
    same = {"static_context": {"x": None, "y": 1}}
    assert patch_between(same, {"static_context": {"x": None, "y": 2}}) == {"static_context": {"y": 2}}


@pytest.mark.spec("N10")
def test_lines_that_only_a_browser_ends_otherwise_are_as_before() -> None:
    agent = {"name": "a", "system_prompt": "one\r\ntwo\rthree", "instructions": ["a\r\nb", "c"]}
    assert read_agent(sent(form_of(agent, {})), {}, agent).agent == agent
    form = Form(
        [("agent/name", "a"), ("agent/system_prompt", "one\r\nother"), ("instruction", "\n"), ("instruction", "x")]
    )
    assert read_agent(form, {}, agent).agent == {"name": "a", "system_prompt": "one\nother", "instructions": ["x"]}


@pytest.mark.spec("N10")
def test_what_cannot_be_read_is_named_and_stays_in_the_form() -> None:
    entry = {"id": "kit", "config": {"port": 5}}
    form = sent(form_of({"name": "a", "capabilities": [entry], "static_context": {"a": 1}}, DETAILS))
    wrong = {
        "c0-config/port": "many",
        "agent/static_context": "{",
        "c0-rename": "look",
        "agent/allowance/run/calls": "x",
    }
    form = Form([(name, wrong.get(name, value)) for name, value in form.pairs])
    typed = read_agent(form, DETAILS, {"name": "a", "static_context": {"a": 1}})
    assert sorted(issue.path.replace("/", ".") for issue in typed.problems) == [
        "allowance.run.calls",
        "capabilities.0.config.port",
        "capabilities.0.rename",
        "static_context",
    ]
    assert typed.agent["static_context"] == {"a": 1}, "as before"
    view = show_agent(form, DETAILS, typed.problems, ())
    context, (kit,) = view.fields["static_context"], view.capabilities
    assert (context.value, bool(context.error)) == ("{", True)
    port = next(field for field in kit.config if field.label == "Port")
    assert (port.value, port.error) == ("many", "a whole number is expected")
    assert (kit.rename, bool(kit.errors["rename"])) == ("look", True)
    assert view.more_is_open


@pytest.mark.spec("N10")
def test_problems_of_rest_stand_at_their_fields() -> None:
    agent = {
        "name": "a",
        "tags": ["x"],
        "instructions": ["i"],
        "capabilities": ["kit", {"id": "gone", "config": {"a": 1}}],
    }
    problems = [
        Field("name", "a pattern"),
        Field("tags.0", "shorter"),
        Field("allowance.limits.0", "a limit"),
        Field("instructions.0", "less"),
        Field("capabilities.0.config.place.city", "a village", "town"),
        Field("capabilities.0.config", "a config"),
        Field("capabilities.1", "unknown"),
        Field("capabilities.1.config", "nothing"),
    ]
    view = show_agent(form_of(agent, DETAILS), DETAILS, problems, ())
    assert (view.fields["name"].error, view.fields["tags"].error) == ("a pattern", "shorter")
    assert view.fields["allowance"].fields[0].error == "a limit"
    assert view.instructions[0].error == "less"
    kit, gone = view.capabilities
    assert (
        next(field for field in kit.config if field.label == "Place").fields[0].error
        == "a village (did you mean town?)"
    )
    assert [issue.expected for issue in kit.problems] == ["a config"]
    assert ([issue.expected for issue in gone.problems], gone.errors) == (["unknown"], {"config": "nothing"})


@pytest.mark.spec("N10")
def test_capabilities_are_added_moved_and_removed() -> None:
    form = form_of({"capabilities": ["kit", {"id": "gone", "prefix": "x_"}]}, DETAILS)
    form = with_capability(moved(form, "c1", -1), {**DETAILS["kit"], "id": "third"})
    assert form.every("capability") == ["c1", "c0", "c2"]
    assert moved(form, "c1", -1).every("capability") == ["c1", "c0", "c2"], "it is the first already"
    assert moved(form, "nothing", 1).every("capability") == ["c1", "c0", "c2"]
    typed = read_agent(without(form, "c0"), DETAILS)
    assert typed.agent["capabilities"] == [{"id": "gone", "prefix": "x_"}, "third"]


def test_a_merge_takes_what_only_they_changed() -> None:
    base = {"name": "a", "system_prompt": "p", "model": "m"}
    agent, taken, both = merge_agents(
        base, {"name": "a", "system_prompt": "mine", "tags": ["x"]}, {"name": "b", "system_prompt": "theirs"}
    )
    assert agent == {"name": "b", "system_prompt": "mine", "tags": ["x"]}
    assert (taken, both) == (["name"], ["system_prompt"])


@given(AGENTS)
def test_the_agent_of_a_form_is_what_rest_takes(agent: dict[str, Any]) -> None:
    AgentInput.model_validate(read_agent(sent(form_of(agent_of(agent), {})), {}).agent)


def test_a_form_that_nobody_made_breaks_nothing() -> None:
    pairs = [("capability", key) for key in ("instruction", "agent/name", "c0", "cx", "c1", "c1", "")]
    typed = read_agent(Form([*pairs, ("c1-id", "kit"), ("agent/other", "x")]), DETAILS, {"name": "a"})
    assert typed.agent["capabilities"] == [{"id": ""}, "kit", "kit"] or typed.agent["capabilities"] == [
        "",
        "kit",
        "kit",
    ]
