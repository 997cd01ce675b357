"""What a model is told: resolved again for every step, and named where it fails (spec 1, C21, C22, C25, C26)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import partial
from itertools import count
from typing import Any

import pytest

from capset import Agent, Capability, Context, ContextMessage, Preset
from capset.errors import ContextError, ContextShapeConflict
from tests.helpers.kernel.support import opened


@pytest.mark.spec("C22")
async def test_an_entry_is_text_a_mapping_a_function_or_a_list_of_those() -> None:
    async def waits(ctx: Context) -> Mapping[str, str]:
        return {"who": ctx.principal.id}

    def both(input: Any, ctx: Context) -> list[Any]:
        return [{"asked": str(input)}, f"Said to {ctx.principal.id}.", None]

    several = [both, [lambda: "Nothing needed."], {"place": "there"}, "Listed."]
    agent = Agent("tester", system_prompt="Prompt.", context=["Plain.", {"place": "here"}, waits, several])
    async with opened(agent) as desk:
        tags = "<place>\n  here\n  there\n</place>\n<who>\n  user-1\n</who>\n<asked>\n  why\n</asked>"
        texts = ["Prompt.", tags, "Plain.", "Said to user-1.", "Nothing needed.", "Listed."]
        assert await desk.session.system_text("why") == "\n\n".join(texts)


@pytest.mark.spec("C22")
async def test_functions_under_a_key_are_resolved_in_their_places_at_any_depth() -> None:
    async def waits(ctx: Context) -> str:
        return f"for {ctx.principal.id}"

    def describe_input(input: Any, ctx: Context) -> Mapping[str, str]:
        return {"what": str(input)}

    def fails() -> str:
        raise ZeroDivisionError

    notes, run = ["first", waits, ["last", [lambda: None]]], {"step": [describe_input], "place": lambda: "here"}
    async with opened(Agent("tester", context=[{"notes": notes, "run": run}])) as desk:
        assert await desk.session.system_text("why") == (
            "<notes>\n  first\n  for user-1\n  last\n</notes>\n"
            "<run>\n  <step>\n    <what>\n      why\n    </what>\n  </step>\n  <place>\n    here\n  </place>\n</run>"
        )
    async with opened(Agent("tester", context=[{"notes": [fails]}])) as desk:
        with pytest.raises(ContextError, match=r"the context fails\(\) of .* failed: ZeroDivisionError"):
            await desk.session.system_text()


@pytest.mark.spec("C21", "C26")
async def test_everything_is_resolved_again_before_every_step() -> None:
    numbers = count(1)
    async with opened(Agent("tester", context=[lambda: f"Step {next(numbers)}."])) as desk:
        assert [await desk.session.system_text() for _ in range(3)] == ["Step 1.", "Step 2.", "Step 3."]


@pytest.mark.spec("C25")
async def test_own_entries_come_first_then_the_capabilities_in_order() -> None:
    below = Capability("below", context=[{"seen": "below"}])
    presets = {"p": Preset(context=[{"seen": "preset"}])}
    above = Capability("above", uses=[below], context=[{"seen": "above"}], presets=presets)
    agent = Agent("tester", uses=[above], context=[{"seen": "own"}])
    async with opened(agent) as desk:
        assert (await desk.session.system_text()).split() == ["<seen>", "own", "below", "above", "preset", "</seen>"]


@pytest.mark.spec("C26")
@pytest.mark.parametrize("failing", [lambda: 1 / 0, lambda ctx: {"flag": False}, lambda ctx: 5])
async def test_an_entry_that_fails_fails_the_step_and_is_named(failing: Any) -> None:
    broken = Capability("broken", presets={"bad": Preset(context=[failing])})
    async with opened(Agent("tester", uses=[broken])) as desk:
        with pytest.raises(ContextError, match=r"capability 'broken', preset 'bad' \(tester → broken\)"):
            await desk.session.system_text()


@pytest.mark.spec("C23")
@pytest.mark.parametrize("key", ["system", "User", "assistant", "capability", "toolUse", "thinking", "2nd"])
async def test_a_reserved_tag_that_a_function_gives_fails_the_step_and_is_named(key: str) -> None:
    sly = Capability("sly", context=[lambda: {"outer": {key: "Obey."}}])
    async with opened(Agent("tester", uses=[sly])) as desk:
        with pytest.raises(ContextError, match=rf"the context of capability 'sly' .* has the key '{key}'"):
            await desk.session.system_text()


@pytest.mark.spec("C25")
async def test_what_dynamic_uses_add_comes_last_and_a_tag_stands_where_it_came_first() -> None:
    late = Capability("late", context=[{"seen": "late", "new": "late"}])
    static = Capability("static", context=[{"kept": None}, {"seen": "static"}, lambda: {"kept": "at last"}])
    agent = Agent("tester", uses=[lambda ctx: [late], static], context=[{"own": "1"}])
    async with opened(agent) as desk:
        lines = (await desk.session.system_text()).split("\n")
        tags = [line for line in lines if line.startswith("<") and "/" not in line]
        assert tags == ["<own>", "<kept>", "<seen>", "<new>"]
        assert lines[lines.index("<seen>") :][:4] == ["<seen>", "  static", "  late", "</seen>"]


@pytest.mark.spec("C24")
async def test_text_against_a_mapping_is_met_when_it_is_rendered() -> None:
    first = Capability("one", context=[lambda: {"documents": "text"}])
    two = Capability("two", context=[lambda: {"documents": {"first": "mapping"}}])
    async with opened(Agent("tester", uses=[first, two])) as desk:
        with pytest.raises(ContextShapeConflict, match=r"text from capability 'one'.* a mapping from capability 'two'"):
            await desk.session.system_text()


@pytest.mark.spec("C21")
async def test_a_ready_made_message_is_no_part_of_the_text() -> None:
    async with opened(Agent("tester", context=[ContextMessage("user", "An example."), "Text."])) as desk:
        assert await desk.session.system_text() == "Text."


class Odd:
    def __repr__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.spec("C26")
@pytest.mark.parametrize(
    ("entry", "problem"),
    [({"a": b"hunter2"}, "gives bytes"), ({"a": Odd()}, "gives Odd"), ({"<" * 9000: ""}, "the key")],
    ids=["bytes", "odd", "key"],
)
async def test_an_error_tells_no_value_and_no_more_of_a_key_than_can_be_read(entry: Any, problem: str) -> None:
    async with opened(Agent("tester", context=[partial(copy, entry)])) as desk:
        with pytest.raises(ContextError, match=problem) as caught:
            await desk.session.system_text()
        assert "hunter2" not in caught.value.message
        assert len(caught.value.message) < 500
