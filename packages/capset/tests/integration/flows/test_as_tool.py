from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired

import pytest
from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict

from capset import Agent, Capability, Context, DefinitionError, Kernel, Policy, Request, Resource, ToolError, deny, tool
from capset.definitions.tools.definition import AnyTool
from capset.errors import DeadlineExceeded, InvalidArguments, PermissionDenied
from capset.flows import Flow, Generator, Handler, Router, Sequencer, as_tool, handler
from capset_testing import Call, Say, ScriptedRunner
from tests.helpers.flows.support import ADA, add, opened, records, run


class Order(BaseModel):
    article: str = Field(description="What to order.")
    pieces: int = Field(default=1, ge=1)
    notes: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def not_too_many(self) -> Order:
        if self.pieces > 5 and self.article == "pianos":
            raise ValueError("no more than 5 pianos")
        return self


class Loose(TypedDict):
    article: str
    pieces: NotRequired[int]


@dataclass
class Box:
    size: int
    labels: list[str] = field(default_factory=list)


def order(order: Order) -> str:
    """Order something."""
    assert type(order) is Order
    return f"{order.pieces} {order.article} {order.notes}"


def loose(order: Loose) -> list[str]:
    """Order loosely."""
    return sorted(order)


def box(parcel: Box) -> str:
    """Box something."""
    assert type(parcel) is Box
    return f"{parcel.size} {parcel.labels}"


def plain(text: Annotated[str, Field(max_length=5)]) -> str:
    """Say something."""
    return text.upper()


def nothing() -> int:
    """Do nothing."""
    return 0


def holder(*tools: Any) -> Generator:
    return Generator("holder", tools=tools)


async def called(block_tool: AnyTool, *positional: Any, **arguments: Any) -> Any:
    async with opened(holder(block_tool)) as session:
        return await session.call(block_tool, *positional, **arguments)


TEXTS = {"type": "array", "items": {"type": "string"}}


@pytest.mark.spec("C37")
@pytest.mark.parametrize(
    ("function", "schema", "arguments", "result"),
    [
        (
            order,
            {
                "article": {"type": "string", "description": "What to order."},
                "pieces": {"type": "integer", "minimum": 1, "default": 1},
                "notes": TEXTS,
            },
            {"article": "pens"},
            "1 pens []",
        ),
        (loose, {"article": {"type": "string"}, "pieces": {"type": "integer"}}, {"article": "pens"}, ["article"]),
        (box, {"size": {"type": "integer"}, "labels": TEXTS}, {"size": 3}, "3 []"),
        (plain, {"input": {"type": "string", "maxLength": 5}}, {"input": "hello"}, "HELLO"),
        (nothing, {}, {}, 0),
    ],
)
async def test_its_arguments_are_the_blocks_input(
    function: Any, schema: Any, arguments: dict[str, Any], result: object
) -> None:
    block_tool = as_tool(block := Handler("block", function))
    assert block_tool.arguments.json_schema.items() >= {"properties": schema, "additionalProperties": False}.items()
    about = (block_tool.name, block_tool.description, block_tool.effect, block_tool.block)
    assert about == ("block", function.__doc__, "write", block)
    runner = ScriptedRunner({"holder": [Call("block", **arguments), Say("done")]})
    await run(holder(block_tool), runner=runner)
    assert [(came.error, came.data) for came in runner.steps[-1].results] == [(None, result)]
    assert await called(block_tool, **arguments) == result


@pytest.mark.spec("C37", "G12")
async def test_what_does_not_fit_is_refused_before_the_block_runs_and_by_a_models_own_validator() -> None:
    for arguments, wrong in (
        ({"article": "pens", "pieces": 0}, "pieces: Input should be greater than or equal to 1"),
        ({"article": "pens", "peices": 1}, "peices: no such parameter (did you mean 'pieces'?)"),
        ({}, "article: required, but missing"),
    ):
        with pytest.raises(InvalidArguments) as refused:
            await called(as_tool(Handler("block", order)), **arguments)
        assert [str(misfit) for misfit in refused.value.fields] == [wrong]
    with pytest.raises(ToolError, match="no more than 5 pianos") as refused:
        await called(as_tool(Handler("block", order)), article="pianos", pieces=6)
    assert refused.value.code == "invalid_arguments"


@pytest.mark.spec("C37")
async def test_it_goes_the_whole_governed_road(store: str) -> None:
    seen_arguments: list[Any] = []

    def few(request: Request) -> Any:
        if request.tool is None:
            return True
        seen_arguments.append(dict(request.arguments or {}))
        return deny("too many") if seen_arguments[-1]["pieces"] > 9 else True

    gates: Any = {"effect": "external", "permissions": ["orders:write"], "policies": [Policy("few", few)]}
    block_tool = as_tool(Handler("block", order), name="buy", **gates)
    unheld = as_tool(Handler("other", order), permissions=["orders:delete"])
    async with Kernel(store) as kernel, kernel.open(holder(block_tool, unheld), principal=ADA) as session:
        assert await session.call(block_tool, article="pens", pieces=2) == "2 pens []"
        with pytest.raises(PermissionDenied, match="too many"):
            await session.call(block_tool, article="pens", pieces=10)
        with pytest.raises(PermissionDenied):
            await session.call(unheld, article="pens")
        audit_records = await records(kernel)
    outcomes = [(record.tool, record.outcome) for record in audit_records]
    assert outcomes == [("buy", "succeeded"), ("buy", "denied"), ("other", "denied")]
    assert seen_arguments[0] == {"article": "pens", "pieces": 2, "notes": []}


@pytest.mark.spec("C37", "G23")
async def test_what_runs_inside_is_on_record_with_its_cause(store: str) -> None:
    @tool
    async def save(ctx: Context, text: str) -> int:
        """Save."""
        return len(text)

    inner = Generator("inner", tools=[save], input=str, description="Save well.")
    block_tool = as_tool(Sequencer("work", description="Work.").then(inner).tap(Handler("say", plain)))
    moves = {"inner": [Call("save", text="abc"), Say("saved")], "holder": [Call("work", input="go"), Say("done")]}
    runner = ScriptedRunner(moves)
    async with Kernel(store, generator=runner) as kernel, kernel.open(holder(block_tool), principal=ADA) as session:
        await session.run("start")
        by_tool = {record.tool: record for record in await records(kernel)}
    assert (by_tool["save"].causation, by_tool["save"].correlation) == (by_tool["work"].id, by_tool["work"].correlation)
    assert runner.steps_of("holder")[-1].results[0].data == "saved"
    assert (runner.steps_of("inner")[0].input, runner.steps_of("inner")[0].tools) == ("go", ("save",))


@pytest.mark.spec("C20", "C37")
async def test_its_resources_come_up_to_whoever_has_the_tool(store: str) -> None:
    journal = Resource("kept", list[str], scope="session", default=list)

    @handler(resources=[journal], description="Keep.")
    async def keep(ctx: Context, text: str) -> list[str]:
        return await ctx.resource(journal).push(text)

    block_tool = as_tool(keep)
    agent = Agent("clerk", uses=[Capability("kit", tools=[block_tool])])
    async with opened(agent, store=store) as session:
        assert [await session.call(block_tool, "a"), await session.call(block_tool, "b")] == [["a"], ["a", "b"]]


@pytest.mark.spec("C37")
async def test_an_agent_and_a_generator_without_input_take_text() -> None:
    block_tool = as_tool(Agent("helper", description="Helps."))
    assert block_tool.arguments.json_schema["properties"] == {"input": {"type": "string"}}
    assert block_tool.output.json_schema == {"type": "string"}
    runner = ScriptedRunner({"helper": [Say("hello back")]})
    async with opened(holder(block_tool), runner=runner) as session:
        assert await session.call(block_tool, input="hello") == "hello back"
    assert as_tool(Generator("g", description="d")).parameters == ("input",)


async def test_a_field_may_have_any_name() -> None:
    class Odd(BaseModel):
        ctx: int
        block: int

    def odd(given: Odd) -> int:
        return given.ctx + given.block

    odd.__annotations__["given"] = Odd
    assert await called(as_tool(Handler("odd", odd), description="d"), ctx=1, block=2) == 3


@pytest.mark.spec("C37")
async def test_it_has_a_timeout_of_its_own() -> None:
    @handler(description="Sleep.")
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)

    with pytest.raises(DeadlineExceeded):
        await called(as_tool(Sequencer("s", description="Sleep.").parallel(sleep), timeout=0.02), input=30.0)


@pytest.mark.spec("C15")
async def test_a_block_may_be_exposed_twice_with_different_gates() -> None:
    block = add("one", 1)
    read, write = as_tool(block, name="peek", description="d", effect="read"), as_tool(block, description="d")
    async with opened(holder(read, write)) as session:
        assert (await session.call(read, input=1), await session.call(write, input=2)) == (2, 3)


class Open(BaseModel, extra="allow"):
    a: int = 0


class Aliased(BaseModel):
    a: int = Field(default=0, alias="b")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: as_tool(Flow("f", add("a", 1)), description="d"), "is a flow"),
        (lambda: as_tool(add("a", 1)), "needs a description: the model chooses by it"),
        (lambda: as_tool(Agent("Old hand", description="d")), "a tool's name must match"),
        (lambda: as_tool(Sequencer("s", description="d")), "the input type of the sequencer is unknown"),
        (
            lambda: as_tool(Router("r", lambda _: "a", routes={"a": add("a", 1)}, description="d")),
            "input type of the router",
        ),
        (lambda: as_tool(Sequencer("s", input=Open, description="d")), "Open allows extra fields"),
        (lambda: as_tool(Sequencer("s", input=Aliased, description="d")), "Aliased.a has an alias"),
        (lambda: as_tool(add("a", 1), description="d", timeout=0), "timeout must be a positive number"),
        (lambda: as_tool(order), "a block was expected"),  # pyright: ignore[reportArgumentType]  # on purpose
    ],
)
def test_what_can_be_no_tool_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        wrong()
