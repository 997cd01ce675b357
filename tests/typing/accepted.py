"""What a type checker must know of tools, without anybody saying it again. Checked, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, assert_type, overload

from pydantic import BaseModel

from capset import (
    Agent,
    Capability,
    CapabilityRef,
    Composition,
    Context,
    Decision,
    Hooks,
    Kernel,
    Message,
    Messages,
    Policy,
    Preset,
    Principal,
    Progress,
    Reply,
    Request,
    Resource,
    Result,
    Session,
    Snapshot,
    Tool,
    Toolkit,
    ToolkitContext,
    allow,
    ask,
    compose,
    deny,
    dynamic_toolkit,
    evaluate,
    parameterised,
    policy,
    tool,
)
from capset.definitions.blocks import Block
from capset.definitions.governance.hooks import PolicyEvaluated, ToolExecuted
from capset.definitions.tools.processors import Factory
from capset.definitions.tools.toolkits import DynamicToolkit, Member
from capset.ext import schema_tool
from capset.flows import as_tool

T = TypeVar("T")


class Note(BaseModel):
    text: str


@dataclass
class Found:
    notes: list[Note]


@tool
def sync(a: int, b: str = "x") -> int:
    return a


@tool
def sync_with_context(ctx: Context, a: int, *, b: str = "x") -> int | None:
    return a


@tool
async def awaited(a: int) -> Note:
    return Note(text=str(a))


@tool
async def awaited_with_context(ctx: Context, note: Note) -> list[Note]:
    assert_type(await ctx.call(sync, 1, b="y"), int)
    assert_type(await ctx.call(awaited, a=1), Note)
    assert_type(ctx.principal, Principal)
    return [note]


@tool
async def streamed(steps: int = 3) -> AsyncIterator[Progress | Reply[str]]:
    yield Reply("x")


@tool
async def streamed_with_context(ctx: Context, steps: int) -> AsyncIterator[Progress | Reply[Found]]:
    yield Progress(0.5)
    yield Reply(Found([]))


@tool
async def nothing() -> None: ...


@tool(effect="read", permissions={"notes:read"}, timeout=5)
def optioned(ctx: Context, table: Mapping[str, Sequence[int]]) -> dict[str, int]:
    return {}


@tool(name="named")
async def optioned_awaited(a: int) -> Note:
    return Note(text="x")


@tool(description="Stream.")
async def optioned_stream(ctx: Context, a: int) -> AsyncIterator[Progress | Reply[Note]]:
    yield Reply(Note(text="x"))


@tool()
def empty_options(a: int) -> str:
    return "x"


@policy
def by_day(request: Request) -> bool:
    return bool(request.env["day"])


@policy(id="by_night")
async def by_night(request: Request) -> Decision:
    return allow() if request.principal.org else deny("not yours")


@policy(binding="snapshot", phase="evaluate")
def by_plan(request: Request) -> Decision | bool:
    return ask("may they?") if request.tool is None else request.arguments is not None


async def telling(event: ToolExecuted) -> None:
    assert_type(event.principal, Principal)
    assert_type(event.duration_us, int)


def told_now(event: PolicyEvaluated) -> None:
    assert_type(event.policy, Policy)
    assert_type(event.decision, Decision)
    assert_type(event.error, BaseException | None)


@dynamic_toolkit
def made_now(context: ToolkitContext) -> list[Tool[[int], str]]:
    return []


@dynamic_toolkit(name="later", instructions="Made.", policies=[by_plan], hooks=Hooks(on_policy_evaluated=told_now))
async def made_later(context: ToolkitContext) -> Sequence[Member]:
    assert_type(context.principal, Principal)
    return [sync, Toolkit("inner", [awaited]), made_now]


def the_toolkits() -> None:
    assert_type(made_now, DynamicToolkit)
    assert_type(made_later, DynamicToolkit)
    assert_type(by_plan, Policy)
    assert_type(policy("by_name", lambda request: request.env["on"] is True, phase="call"), Policy)
    assert_type(policy("by_name", by_day.evaluate, binding="snapshot"), Policy)
    hooks = Hooks(on_policy_evaluated=[told_now, lambda event: None], on_tool_executed=telling)
    kit = Toolkit("kit", [sync, streamed, made_later], instructions=["x"], policies=[by_plan], hooks=hooks)
    assert_type(kit.members, tuple[Member, ...])
    Agent("a", tools=[kit, sync, made_now], hooks=hooks)
    Capability("c", tools=[made_later], presets={"p": Preset(tools=[kit], hooks=hooks)}, hooks=Hooks())


@tool(examples=[{"a": 1}], instructions="x", version="1", idempotent=True, hooks=Hooks(on_tool_executed=telling))
def told_of(a: int) -> str:
    return "x"


def the_other_makers(block: Block, factory: Factory) -> None:
    assert_type(as_tool(block, effect="read", permissions={"notes:read"}, timeout=None), Tool[..., Any])
    first = schema_tool(
        name="a", description="A.", parameters={}, handler=print, retry=3, idempotent=True, approval="ask"
    )
    assert_type(first, Tool[..., Any])
    two = Tool.from_processor(
        inbound=Note, outbound=Note, factory=factory, description="A.", effect=None, limits=["1/1h"], buffer=2
    )
    assert_type(two, Tool[..., Any])


async def the_doors(session: Session) -> None:
    assert_type(await session.call(sync, 1), int)
    assert_type(await session.call(sync, 1, "y"), int)
    assert_type(await session.call(sync, a=1, b="y"), int)
    assert_type(await session.call(sync_with_context, 1, b="y"), int | None)
    assert_type(await session.call(awaited, 1), Note)
    assert_type(await session.call(awaited_with_context, note=Note(text="x")), list[Note])
    assert_type(await session.call(streamed), str)
    assert_type(await session.call(streamed_with_context, steps=3), Found)
    assert_type(await session.call(optioned, {"a": [1]}), dict[str, int])
    assert_type(await session.call(optioned_awaited, a=1), Note)
    assert_type(await session.call(optioned_stream, a=1), Note)
    assert_type(await session.call(empty_options, a=1), str)
    assert_type(await session.call(nothing), None)
    assert_type(await session.call(told_of, a=1), str)
    assert_type(await session.options(timeout=5).call(sync, 1), int)


async def the_results(session: Session) -> None:
    result = await session.try_call(awaited_with_context, Note(text="x"))
    assert_type(result, Result[list[Note]])
    assert_type(result.data, list[Note] | None)
    assert_type(result.success, bool)
    assert_type(await session.try_call(streamed, 3), Result[str])


async def the_streams(session: Session) -> None:
    assert_type(session.stream(streamed, steps=3), Messages)
    async with session.stream(streamed_with_context, 3) as messages:
        async for message in messages:
            assert_type(message, Message)
    async with session.invoke(session.message("sync", {"a": 1})) as messages:
        assert_type([message async for message in messages], list[Message])


async def whatever_the_tool(session: Session, called_tool: Tool[[int], T]) -> T:
    return await session.call(called_tool, 1)


async def the_whole_way(kernel: Kernel) -> None:
    capability = Capability("c", tools=[sync, awaited_with_context, streamed, optioned, nothing], instructions="Do.")
    agent = Agent("a", uses=[capability])
    composition = compose(agent)
    assert_type(composition, Composition)
    principal = Principal("p", permissions={"notes:read"})
    assert_type(await evaluate(composition, principal=principal, env={"day": True}), Snapshot)
    assert_type(by_day, Policy)
    assert_type(by_night, Policy)
    async with kernel.open(agent, principal=principal) as session:
        assert_type(session, Session)
        assert_type(await whatever_the_tool(session, awaited), Note)


class Memory:
    def __init__(self, ctx: Context) -> None:
        self.principal = ctx.principal

    async def recall(self, query: str) -> list[str]:
        return [query]


class Options(BaseModel):
    limit: int = 3


class Visits(BaseModel):
    count: int = 0


def counting(ctx: Context) -> int:
    return 1


notes = Resource("notes", list[str], scope="session", default=list)
total = Resource("total", int, scope="org", default=0)
owner = Resource("owner", Note | None, scope="user", default=None)
memory = Capability("memory", helpers=Memory, config=Options, resources=[notes], state={"user": Visits})
counter = Capability("counter", helpers=counting)
plain = Capability("plain", presets={"full": Preset(tools=[sync], context=["x"])}, default=["full"])
configured = Capability("configured", config=Options)


@parameterised
def storage(scope: str, *, size: int = 1) -> Capability[Memory]:
    return Capability(f"storage:{scope}", helpers=Memory)


class DeskHelpers(Protocol):
    @property
    def memory(self) -> Memory: ...

    @overload
    def __getitem__(self, name: Literal["memory"], /) -> Memory: ...

    @overload
    def __getitem__(self, name: Literal["storage:user"], /) -> int: ...


@tool
async def helped(ctx: Context[DeskHelpers], query: str) -> list[str]:
    assert_type(ctx.cap.memory, Memory)
    assert_type(ctx.cap["storage:user"], int)
    return await ctx.cap.memory.recall(query)


async def helped_too(ctx: Context) -> None:
    assert_type(await ctx.call(helped, query="x"), list[str])


def decide(ctx: Context) -> list[Capability | CapabilityRef]:
    return [plain, plain.with_presets(full=True)] if ctx.principal.org else []


async def told(input: str, ctx: Context) -> dict[str, object]:
    return {"now": [input, None]}


@tool
async def handling(ctx: Context) -> None:
    assert_type(ctx.use(memory), Memory)
    assert_type(await ctx.use(memory).recall("x"), list[str])
    assert_type(ctx.use(memory.with_presets()), Memory)
    assert_type(ctx.use(memory.with_config(Options(limit=1)).with_names(prefix="m_")), Memory)
    assert_type(ctx.use(counter), int)
    assert_type(ctx.use(storage("user", size=2)), Memory)
    assert_type(ctx.use(plain), None)
    assert_type(ctx.config(memory), Options)
    assert_type(ctx.config(configured).limit, int)
    assert_type(ctx.config(memory.ref), Options)
    assert_type(await ctx.resource(notes).get(), list[str])
    assert_type(await ctx.resource(notes).push("a"), list[str])
    assert_type(await ctx.resource(notes).update(lambda texts: [*texts, "b"]), list[str])
    assert_type(await ctx.resource(total).increment(by=2), int)
    assert_type(await ctx.resource(total).set(3), int)
    assert_type(await ctx.resource(owner).get(), Note | None)
    assert_type(await ctx.resource(owner).delete(), bool)
    assert_type(await ctx.state(Visits).get(), Visits)
    assert_type((await ctx.state(Visits, scope="user").patch(count=1)).count, int)
    assert_type(await ctx.state(Visits).increment("count"), Visits)


def the_definitions() -> None:
    wider: Tool[Any, object] = sync
    Capability("wider", tools=[wider])
    assert_type(notes, Resource[list[str]])
    assert_type(total, Resource[int])
    assert_type(memory, Capability[Memory, Options])
    assert_type(counter, Capability[int])
    assert_type(plain, Capability)
    assert_type(configured, Capability[None, Options])
    assert_type(plain.with_presets(full=False), CapabilityRef)
    assert_type(memory.with_presets().with_config(Options()), CapabilityRef[Memory, Options])
    assert_type(memory.with_names(rename={"a": "b"}).base, Capability[Memory, Options])
    assert_type(storage("user"), Capability[Memory])
    Agent("a", uses=[memory, plain.with_presets(full=True), storage("org"), decide, lambda ctx: [memory]])
    Agent("a", uses=decide, tools=[sync], context=[told, lambda ctx: "x", {"a": {"b": ["c", None]}}], policies=[by_day])
    Capability("c", uses=[memory, counter, configured.with_config(Options())], context={"mood": "good"})
    Capability(
        "c", state={"session": Visits}, targets={"plan": Visits}, files={"/a": "x", "/b": b"y"}, expose=["count"]
    )
