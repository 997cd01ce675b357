from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Capability, Context, DefinitionError, Kernel, Resource, compose
from capset.errors import ResourceConflict, StateConflict
from capset.flows import Flow, Handler, Sequencer, handler
from tests.helpers.flows.support import ADA, add, opened, run


class Counted(BaseModel):
    total: int = 0


class Worded(BaseModel):
    total: str = "none"


notes = Resource("notes", list[str], scope="session", default=list)
other_notes = Resource("notes", list[str], scope="session", default=lambda: ["there already"])


async def keep(ctx: Context, text: str) -> str:
    await ctx.resource(notes).push(text)
    return text


async def recall(ctx: Context, text: str) -> list[str]:
    return await ctx.resource(other_notes).get()


KEEP, RECALL = Handler("keep", keep, resources=[notes]), Handler("recall", recall, resources=[other_notes])
DISAGREEING = Sequencer("s").then(KEEP).then(RECALL)


@pytest.mark.spec("C37")
async def test_a_flow_is_its_root_under_a_name() -> None:
    flow = Flow("main", Sequencer("s").then(add("one", 1)), description="Adds.")
    assert (flow.name, flow.kind, flow.description) == ("main", "flow", "Adds.")
    assert flow.input is flow.root.input
    assert await run(flow, 1) == 2


@pytest.mark.spec("C20")
def test_resources_and_state_come_up_from_everywhere() -> None:
    class Depth(BaseModel):
        depth: int = 0

    deep = Handler("deep", keep, uses=[Capability("noting", resources=[notes], state={"user": Depth})])
    flow = Flow("main", Sequencer("outer").then(Sequencer("inner").then(deep)), state={"session": Counted})
    data = compose(flow).data
    fields = {scope: list(state.fields) for scope, state in data.states.items()}
    assert (list(data.resources), fields) == ([("session", "notes")], {"session": ["total"], "user": ["depth"]})


@pytest.mark.spec("C20")
def test_siblings_that_disagree_are_met_at_the_root_and_nowhere_earlier() -> None:
    for root in (DISAGREEING, Flow("main", DISAGREEING)):
        with pytest.raises(ResourceConflict, match="'keep' itself and 'recall' itself have two different resources"):
            compose(root)


@pytest.mark.spec("C20")
async def test_what_a_flow_declares_is_the_last_word(store: str) -> None:
    for last, expected in ((notes, ["milk"]), (other_notes, ["there already", "milk"])):
        assert await run(Flow("main", DISAGREEING, resources=[last]), "milk", store=store) == expected


@pytest.mark.spec("C20", "C13")
@pytest.mark.parametrize("last", [Counted, Worded])
async def test_the_last_word_holds_for_state_too(last: type[Any]) -> None:
    @handler(state={"session": Counted})
    async def counting(ctx: Context, value: int) -> str:
        return repr((await ctx.state(Counted).get()).total)

    @handler(state={"session": Worded})
    async def wording(ctx: Context, value: str) -> str:
        return f"{value} {(await ctx.state(Worded).get()).total!r}"

    root = Sequencer("s").then(counting).then(wording)
    with pytest.raises(StateConflict, match="have a field 'total' of different types"):
        compose(root)
    default = repr(last().total)
    assert await run(Flow("main", root, state={"session": last}), 1) == f"{default} {default}"


@pytest.mark.parametrize("wrong", [None, "s", Flow("inner", KEEP)])
def test_its_root_is_a_block_and_no_flow(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="flow 'main'"):
        Flow("main", wrong)


@pytest.mark.spec("C33")
async def test_a_flow_goes_on_in_its_session_which_is_opened_again_with_all_that_it_kept(tmp_path: Path) -> None:
    @handler(resources=[notes], state={"session": Counted})
    async def both(ctx: Context, text: str) -> tuple[int, int]:
        count = len(await ctx.resource(notes).push(text))
        return count, (await ctx.state(Counted).increment("total", 2)).total

    session_id: str | None = None
    for expected in ([(1, 2), (2, 4)], [(3, 6), (4, 8)]):
        kernel = Kernel(f"sqlite:///{tmp_path}/capset.db")
        async with kernel, kernel.open(Flow("main", both), principal=ADA, session_id=session_id) as session:
            session_id = session.id
            assert [await session.run("a"), await session.run("b")] == expected


@pytest.mark.spec("C36")
async def test_what_a_block_inside_exposes_clients_may_read() -> None:
    class Hidden(BaseModel):
        secret: int = 7

    exposing = Capability("shown", resources=[notes], state={"session": Counted}, expose=["notes", "total"])
    root = Sequencer("s").then(Handler("keep", keep, uses=[exposing], state={"session": Hidden}))
    async with opened(Flow("main", root)) as session:
        await session.run("milk")
        assert await session.exposed() == {"session": {"notes": ["milk"], "total": 0}}
