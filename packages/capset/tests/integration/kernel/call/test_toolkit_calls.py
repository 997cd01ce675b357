"""Calls of tools in toolkits, those too that were made for the session: governed, recorded, named as all others are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capset import Agent, Capability, Policy, Session, Tool, Toolkit, ToolkitContext, dynamic_toolkit, tool
from capset.errors import InvalidArguments, NotFound, PermissionDenied
from capset.fingerprint.hashes import tool_hash
from capset.flows import Flow, Generator, Handler, Sequencer, as_tool
from capset.kernel.blocks.generation import Turn
from tests.helpers.kernel.support import opened


def make(name: str, *policies: Policy, effect: Any = "read", **options: Any) -> Tool[[int], str]:
    @tool(name=name, effect=effect, policies=policies, **options)
    async def handler(number: int) -> str:
        """Do."""
        return f"{name} {number}"

    return handler


@dynamic_toolkit
async def searches(context: ToolkitContext) -> list[Tool[..., Any]]:
    return [make(f"search_{name}", permissions=["search:run"]) for name in context.env.get("indexes", ["a", "b"])]


async def sent(session: Session, name: str, **arguments: Any) -> Any:
    """Call a tool by name, and return its data, or raise its error."""
    result = await session.try_message(session.message(name, arguments))
    if result.error is not None:
        raise result.error
    return result.data


@pytest.mark.spec("F19", "F20")
async def test_a_toolkits_gates_see_the_call_of_every_tool_inside() -> None:
    calls: list[tuple[str, Any]] = []

    def look(request: Any) -> bool:
        calls.append((request.tool.name, dict(request.arguments or {})) if request.tool else ("", None))
        return (request.arguments or {"number": 0})["number"] < 5

    first, two = make("one"), make("two")
    kit = Toolkit("kit", [first, Toolkit("inner", [two])], policies=[Policy("look", look)])
    async with opened(Agent("tester", tools=[kit])) as desk:
        assert await desk.session.call(first, 1) == "one 1"
        assert await desk.session.call(two, 2) == "two 2"
        with pytest.raises(PermissionDenied):
            await desk.session.call(two, 5)
    assert calls == [("", None), ("one", {"number": 1}), ("two", {"number": 2}), ("two", {"number": 5})]


@pytest.mark.spec("F18")
async def test_a_tool_in_two_toolkits_asks_the_gates_of_both() -> None:
    shared = make("shared")
    first = Policy("first", lambda request: True)
    second = Policy("second", lambda request: request.tool is None or (request.arguments or {})["number"] != 2)
    kits = [Toolkit("a", [shared], policies=[first]), Toolkit("b", [shared], policies=[second])]
    async with opened(Agent("tester", tools=kits)) as desk:
        assert await desk.session.call(shared, 1) == "shared 1"
        with pytest.raises(PermissionDenied):
            await desk.session.call(shared, 2)
        assert [json.loads(record.policies) for record in await desk.records()] == [["first", "second"], ["second"]]


@pytest.mark.spec("F5", "F21", "G19")
async def test_what_was_made_is_called_by_its_name_or_its_object_and_is_on_record(store: str) -> None:
    agent = Agent("tester", uses=[Capability("kit", tools=[searches], aliases=["other"]).with_names(prefix="x_")])
    async with opened(agent, store=store, permissions=["search:run"]) as desk:
        session = desk.session
        search_tool = session.snapshot.tools["x_search_a"].tool
        assert await session.call(search_tool, 1) == "search_a 1"
        for name in ("x_search_a", "kit.x_search_a", "other.x_search_a"):
            assert await sent(session, name, number=2) == "search_a 2"
        for record in await desk.records():
            assert (record.tool, record.capability, record.tool_hash) == ("x_search_a", "kit", tool_hash(search_tool))
            assert record.runtime_hash == session.snapshot.runtime_hash
            assert record.static_hash == session.snapshot.static_hash
        with pytest.raises(NotFound):
            await sent(session, "search_a", number=2)
        with pytest.raises(InvalidArguments):
            await sent(session, "x_search_b", number="2")


@pytest.mark.spec("F18", "G8")
async def test_what_was_made_is_governed() -> None:
    async with opened(Agent("tester", tools=[searches])) as desk:
        with pytest.raises(PermissionDenied):
            await sent(desk.session, "search_a", number=1)
        assert (await desk.record()).outcome == "denied"


@pytest.mark.spec("C27", "F5", "F22")
async def test_dynamic_uses_bring_dynamic_toolkits_and_both_are_called() -> None:
    extra = Capability("extra", tools=[searches, make("static")])
    agent = Agent("tester", uses=[lambda ctx: [extra.with_names(prefix="e_")]], tools=[make("own")])
    async with opened(agent, permissions=["search:run"]) as desk:
        assert set(desk.session.snapshot.tools) == {"own"}
        assert set((await desk.session.current()).tools) == {"own", "e_static", "e_search_a", "e_search_b"}
        for name in ("e_search_a", "extra.e_search_b", "e_static"):
            assert await sent(desk.session, name, number=1) == f"{name.partition('e_')[2]} 1"
        records = await desk.records()
        assert {record.capability for record in records} == {"extra"}
        assert len({record.runtime_hash for record in records}) == 1


@pytest.mark.spec("C37", "F5", "F18")
async def test_the_blocks_of_a_flow_have_toolkits_of_their_own() -> None:
    counted, denied = make("counted"), make("denied")
    no = Toolkit("no", [denied], policies=[Policy("no", lambda request: False)], instructions="Denied.")
    kit = Toolkit("kit", [counted, searches, no], instructions="Kit.")
    texts: list[str] = []

    class Runner:
        async def run(self, turn: Turn) -> str:
            step = await turn.step()
            texts.append(step.system_text)
            assert set(step.snapshot.tools) == {"counted", "search_a", "search_b"}
            results = [await step.call(name, {"number": 1}) for name in ("counted", "search_b", "denied")]
            return ", ".join(str(tool_result.data) for tool_result in results)

    generator = Generator("step", uses=[Capability("inner", tools=[kit])])
    flow = Flow("flow", Sequencer("all").then(generator))
    async with opened(flow, permissions=["search:run"], generator=Runner()) as desk:
        assert await desk.session.run("x") == "counted 1, search_b 1, None"
        assert [(record.tool, record.capability, record.outcome) for record in await desk.records()] == [
            ("counted", "inner", "succeeded"),
            ("search_b", "inner", "succeeded"),
            ("denied", "inner", "denied"),
        ]
        assert ("Kit." in texts[0], "Denied." in texts[0]) == (True, False)


@pytest.mark.spec("C37", "F18")
async def test_a_tool_that_runs_a_block_may_stand_in_a_toolkit() -> None:
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    shouting = as_tool(Handler("shout", shout))
    kit = Toolkit("kit", [shouting], policies=[Policy("yes", lambda request: True)])
    async with opened(Agent("tester", tools=[Toolkit("outer", [kit])])) as desk:
        assert await sent(desk.session, "shout", input="x") == "X"
        assert json.loads((await desk.record()).policies) == ["yes"]
